package dataloader

// Where a data set writes its samples: rows of a batch.

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"unsafe"
)

// buffer is the memory of a batch while it is filled: for each field the rows of all samples, one after
// another.
type buffer struct {
	*layout
	mem         [][]byte   // by field; a multiple of rowBytes long
	ragged      [][][]byte // samples by field and row, where a field is ragged
	indices     []int      // the sample in each row
	seed        uint64
	nonTemporal bool // a GPU reads it next, and copies had better be written past the caches
	epoch       int
	turn        uint64                    // changes each time the buffer is filled anew
	rands       atomic.Pointer[[]rowRand] // by row, made when first asked for
	items       any                       // of a stream, []item[T] by row
	meta        atomic.Pointer[[]any]     // attached to samples, by row; made when the first is

	// origin are the rows of another buffer that this one's stand for, if it does: a set inside another
	// writes here, and has the generators of the sample that is made of it.
	origin Rows
}

// Row is where one sample is written: its part of the batch, for each field. It is valid until the Read
// or ReadBatch that it was passed to returns.
type Row struct {
	b *buffer
	k int
}

// Rows are consecutive rows of a batch. They are valid until the ReadBatch that they were passed to returns.
type Rows struct {
	b     *buffer
	start int
	n     int
}

// Bytes returns the memory of a field, numbered as in [Dataset.Fields]: the elements of the sample in
// row-major order, in the machine's byte order. It panics if there is no such field.
func (r Row) Bytes(field int) []byte {
	if r.b.even(field) {
		return r.fixed(field)
	}
	return r.uneven(field)
}

// even reports whether there is a field of that number, whose samples have one shape. It is for each sample, and inlined.
func (b *buffer) even(field int) bool {
	return uint(field) < uint(len(b.layout.wide)) && b.layout.wide[field] == nil
}

// uneven is Bytes where even is false.
func (r Row) uneven(field int) []byte {
	r.b.sizeOf("Row.Bytes", field)
	return r.b.ragged[field][r.k]
}

// fixed is the row's memory in the field's part of the block.
func (r Row) fixed(field int) []byte {
	size := r.b.rowBytes[field]
	return r.b.mem[field][r.k*size : (r.k+1)*size : (r.k+1)*size]
}

// Values returns the memory of a field as its elements, in row-major order. T must be exactly the field's
// type: Values panics if it isn't, or if there is no such field, and in a Read that panic reaches the
// loop.
func Values[T any](r Row, field int) []T {
	return values[T](r.b, "Values", field, r.Bytes(field))
}

// RowsValues returns the memory of a field of all rows, row after row, as [Values] does of one.
func RowsValues[T any](r Rows, field int) []T {
	return values[T](r.b, "RowsValues", field, r.Bytes(field))
}

func values[T any](b *buffer, call string, field int, raw []byte) []T {
	if have := reflect.TypeFor[T](); have != b.layout.fields[field].Dtype.Type {
		panic(fmt.Errorf("dataloader: %s[%v]: field %d is %s", call, have, field, b.layout.fields[field].describe()))
	}
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), uintptr(len(raw))/unsafe.Sizeof(one))
}

// Rand returns the sample's own random generator, for augmentation. What it gives depends on
// [Config.Seed], the epoch and the sample's index only, not on workers, batches or what was read
// before. Asking again continues the same generator. It is valid as long as the row, and not safe for
// concurrent use.
func (r Row) Rand() *rand.Rand {
	for r.b.origin.b != nil {
		r = r.b.origin.Row(r.k)
	}
	rands := r.b.rands.Load()
	if rands == nil {
		rands = r.b.makeRands()
	}
	own := &(*rands)[r.k]
	if own.turn != r.b.turn {
		own.seed(r.b.seed, r.b.epoch, r.b.indices[r.k], r.b.turn)
	}
	return &own.rand
}

// makeRands makes the generators of the buffer's rows. Workers that fill one batch may get here at once;
// the first one's are used by all, and stay for as long as the batch is filled: a sample's would start
// again otherwise.
func (b *buffer) makeRands() *[]rowRand {
	made := make([]rowRand, len(b.indices))
	if b.rands.CompareAndSwap(nil, &made) {
		return &made
	}
	return b.rands.Load()
}

// fitRands drops generators of an earlier, smaller batch. No row is being filled yet.
func (b *buffer) fitRands() {
	if rands := b.rands.Load(); rands != nil && len(*rands) < len(b.indices) {
		b.rands.Store(nil)
	}
}

// forgetRand makes the next Rand of row k start from the beginning: the row is read again.
func (b *buffer) forgetRand(k int) {
	if rands := b.rands.Load(); rands != nil {
		(*rands)[k].turn = 0
	}
}

// Len is the number of rows.
func (r Rows) Len() int { return r.n }

// Row returns row k, 0 <= k < Len(). It panics for other k.
func (r Rows) Row(k int) Row {
	if k < 0 || k >= r.n {
		panic(fmt.Errorf("dataloader: Rows.Row(%d): want 0 to %d", k, r.n-1))
	}
	return Row{r.b, r.start + k}
}

// Bytes returns the memory of a field in all rows, one row after the other without gaps. It panics if
// there is no such field, and if its shape differs between samples, which do not lie together then.
func (r Rows) Bytes(field int) []byte {
	if r.b.sizeOf("Rows.Bytes", field); r.b.layout.wide[field] != nil {
		panic(fmt.Errorf("dataloader: Rows.Bytes(%d): the shape of field %s differs between samples: want a call for each Row", field, r.b.layout.fields[field].describe()))
	}
	return r.fixed(field)
}

// fixed is the rows' memory in the field's part of the block.
func (r Rows) fixed(field int) []byte {
	size := r.b.rowBytes[field]
	from, to := r.start*size, (r.start+r.n)*size
	return r.b.mem[field][from:to:to]
}

// sizeOf returns the bytes of a row of field, and panics with the name of the call if there is none.
func (b *buffer) sizeOf(call string, field int) int {
	if field < 0 || field >= len(b.rowBytes) {
		panic(fmt.Errorf("dataloader: %s(%d): want a field from 0 to %d", call, field, len(b.rowBytes)-1))
	}
	return b.rowBytes[field]
}

// zero clears rows from to to-1: they hold an older batch, and a Read that sets the one hot element of a
// row relies on the others.
func (b *buffer) zero(from, to int) {
	for i, size := range b.rowBytes {
		clear(b.mem[i][from*size : to*size])
	}
	for k := from; k < to && b.ragged != nil; k++ {
		b.emptyRagged(k)
	}
}

// move copies row from over row to.
func (b *buffer) move(to, from int) {
	b.moveMeta(to, from)
	for i, size := range b.rowBytes {
		copy(b.mem[i][to*size:(to+1)*size], b.mem[i][from*size:(from+1)*size])
	}
	b.moveRagged(to, from)
}

// makeRowsBytes is how much memory MakeRows asks for at most; make panics if it is asked for too much.
const makeRowsBytes = min(1<<40, maxInt/2)

// MakeRows returns n zeroed rows in ordinary memory, with sample k in row k, seed 0 and epoch 0: for
// testing a Dataset's Read and ReadBatch without a Loader.
func MakeRows(fields []Field, n int) (Rows, error) {
	if n < 0 {
		return Rows{}, fmt.Errorf("dataloader: MakeRows: n = %d: want >= 0", n)
	}
	l, err := newLayout(fields)
	if err != nil {
		return Rows{}, err
	}
	if most := makeRowsBytes / max(l.total, 8); n > most {
		return Rows{}, fmt.Errorf("dataloader: MakeRows: n = %d: want at most %d rows of %d bytes", n, most, l.total)
	}
	b := &buffer{layout: l, mem: make([][]byte, len(fields)), indices: make([]int, n), turn: 1}
	for i, size := range l.rowBytes {
		b.mem[i] = alignedBytes(n * size)
	}
	for k := range b.indices {
		b.indices[k] = k
	}
	b.fitRagged(n)
	return Rows{b, 0, n}, nil
}

// alignedBytes returns zeroed memory with the alignment that Values needs: that of a []uint64.
func alignedBytes(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}
