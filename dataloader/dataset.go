package dataloader

// What a data set is, and the layout of a batch of its samples.

import (
	"context"
	"fmt"
	"math"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/dtype"
)

// Field is one tensor of a sample: an image, a label. Batches have a tensor per field, in the order of
// [Dataset.Fields], with the batch axis put first: a sample of shape (28, 28) makes batches of shape
// (n, 28, 28), a scalar ones of shape (n).
type Field struct {
	Name  string       // for error texts; unique unless empty
	Dtype tensor.Dtype // any type without pointers
	Shape tensor.Shape // of one sample; empty for a scalar. Every dimension is at least 1, or -1.

	// Pad is for a Shape with dimensions of -1, which differ between samples: [Ragged] says for each how large they
	// are. Nil: in one batch all must be the same; another shape is an error that names both. For such a field batches
	// have memory as they need it, beside what Stats.PinnedLimit says, and a copy to the device of its own, where all other
	// fields of a batch are one copy.
	Pad *Padding
}

// Dataset is a set of samples that can be read by number, each of the same shape.
type Dataset interface {
	// Len is the number of samples. It is asked once, by [New].
	Len() int

	// Fields is what each sample consists of. It is asked once, by New.
	Fields() []Field

	// Read writes sample i, 0 <= i < Len(), into row, which is zeroed (see [Overwriter]). It is called from several
	// goroutines at once. It must not keep row, nor write to it after it has returned. When ctx is done
	// the sample is not wanted any more, and Read should return soon.
	//
	// An error fails the sample's batch or leaves the sample out, see [Config.OnError]. A panic is
	// raised again in the goroutine that runs the loop.
	Read(ctx context.Context, i int, row Row) error
}

// BatchReader is a Dataset that reads many samples faster in one call than one by one. Where a data set
// has it, it is used instead of Read.
type BatchReader interface {
	// ReadBatch writes sample indices[k] into rows.Row(k), for each k. The rows are zeroed, and follow
	// one another in memory. They are a batch, or a part of one where several workers share it.
	// indices must not be changed, and neither it nor rows kept. Otherwise it is like Read.
	//
	// After an error the samples are read again with Read, one by one, to find the one at fault.
	//
	// A struct that embeds such a set has its ReadBatch too, which knows nothing of the struct's own Read: it needs a
	// ReadBatch of its own. What changes samples of another set is best a [Map].
	ReadBatch(ctx context.Context, indices []int, rows Rows) error
}

// Overwriter is a Dataset that may do without zeroed rows. [Overwriting] makes one of a set of [FromFunc] or [Map].
type Overwriter interface {
	// Overwrites reports whether Read, and ReadBatch if there is one, write every byte of every row when they return no
	// error. The rows that they are given are not zeroed then, and have samples of an older batch in them. It is
	// asked once, by New. A struct that embeds such a set has its Overwrites too, whatever its own Read does.
	//
	// The first eight calls have to prove it, wherever the set is: an error names the field and the element that Read or
	// ReadBatch has left as it was, and ends up in the loop whatever Config.OnError says. Where a call leaves what it
	// may have left, it is made again, with the same Row.Rand; so is the first one with fields of elements of fewer than four bytes.
	// Config.Timeout bounds both together where the set is inside another.
	//
	// A set with a field whose shape differs between samples is given zeroed rows all the same.
	Overwrites() bool
}

// layout is a data set's fields, checked, with what follows from them.
type layout struct {
	fields   []Field
	rowBytes []int   // of one sample, by field
	total    int     // of one sample, all fields
	wide     []*wide // by field, nil where it is not ragged; its rowBytes are for the sample's shape
}

func newLayout(fields []Field) (*layout, error) {
	if len(fields) == 0 {
		return nil, fmt.Errorf("dataloader: Dataset.Fields(): no fields: want at least one")
	}
	l := &layout{fields: make([]Field, len(fields)), rowBytes: make([]int, len(fields)), wide: make([]*wide, len(fields))}
	seen := make(map[string]int, len(fields))
	for i, f := range fields {
		if j, ok := seen[f.Name]; ok && f.Name != "" {
			return nil, fmt.Errorf("dataloader: Dataset.Fields(): fields %d and %d are both named %q: want unique names", j, i, f.Name)
		}
		seen[f.Name] = i
		size, err := f.bytes()
		if err == nil {
			l.wide[i], err = f.wide()
		}
		if err == nil && size > math.MaxInt-l.total {
			err = fmt.Errorf("a sample takes more than %d bytes", math.MaxInt)
		}
		if err != nil {
			return nil, fmt.Errorf("dataloader: Dataset.Fields(): field %d (%q): %w", i, f.Name, err)
		}
		l.fields[i] = Field{f.Name, f.Dtype, f.Shape.Clone(), f.Pad}
		l.rowBytes[i] = size
		l.total += size
	}
	return l, nil
}

const (
	smallestBlock = 32 << 10 // the least memory that an engine lends
	fieldAlign    = 256      // of a field in a batch: what device memory of its own would be aligned to
)

// aligned rounds up to the next place where a field may begin.
func aligned(n int) int { return (n + fieldAlign - 1) &^ (fieldAlign - 1) }

// blockBytes returns how much memory a batch of n samples takes, and whether an int holds that.
func (l *layout) blockBytes(n int) (int, bool) {
	if n > (maxInt-len(l.rowBytes)*fieldAlign)/l.total {
		return 0, false
	}
	sum := 0
	for _, size := range l.rowBytes {
		sum += aligned(n * size)
	}
	return sum, true
}

// batchBytes returns about how much memory a batch of n samples takes.
func (l *layout) batchBytes(n int) int {
	size, ok := l.blockBytes(n)
	if !ok {
		return maxInt
	}
	return max(size, smallestBlock)
}

// bytes returns the size of a sample's field, of its shape where that differs, or what is wrong with it.
func (f Field) bytes() (int, error) {
	if f.Dtype.Type == nil {
		return 0, fmt.Errorf("its Dtype is not set: want one such as tensor.Float32")
	}
	if dtype.HasPointers(f.Dtype.Type) || f.Dtype.Size() == 0 {
		return 0, fmt.Errorf("its Dtype %v: want a type of at least one byte without pointers", f.Dtype.Type)
	}
	size := int(f.Dtype.Size())
	for _, d := range f.Shape {
		if d <= 0 && d != -1 {
			return 0, fmt.Errorf("its Shape %v: want every dimension > 0, or -1 where samples differ", f.Shape)
		}
		if d == -1 {
			continue
		}
		if size > math.MaxInt/d {
			return 0, fmt.Errorf("its Shape %v of %v: a sample takes more than %d bytes", f.Shape, f.Dtype.Type, math.MaxInt)
		}
		size *= d
	}
	if f.ragged() {
		size = len(f.Shape) * sizeOfInt
	}
	return size, nil
}

// describe writes a field for people, and for a State to compare.
func (f Field) describe() string {
	return fmt.Sprintf("%q %v %v", f.Name, f.Dtype.Type, f.Shape) // a Dtype prints types without a name as nothing
}

// describe writes the fields, with how they are padded.
func (l *layout) describe() []string {
	text := make([]string, len(l.fields))
	for i, f := range l.fields {
		text[i] = f.describe()
		if f.Pad != nil {
			text[i] += fmt.Sprintf(", padded to a multiple of %d", l.wide[i].multiple)
		}
		if f.Pad != nil && f.Pad.Value != nil {
			text[i] += fmt.Sprintf(" with %v", f.Pad.Value)
		}
	}
	return text
}

// batchShape is the shape of field i in a batch of n samples. It is the caller's.
func (l *layout) batchShape(i, n int) tensor.Shape {
	return append(tensor.Shape{n}, l.fields[i].Shape...)
}

// funcDataset is a Dataset made of a function.
type funcDataset struct {
	n         int
	fields    []Field
	read      func(ctx context.Context, i int, row Row) error
	writesAll bool // it writes whole rows
}

// FromFunc returns a Dataset of n samples that read reads, as [Dataset.Read] says. Bad arguments are
// reported by [New].
func FromFunc(n int, fields []Field, read func(ctx context.Context, i int, row Row) error) Dataset {
	return &funcDataset{n, fields, read, false}
}

func (d *funcDataset) Len() int        { return d.n }
func (d *funcDataset) Fields() []Field { return d.fields }
func (d *funcDataset) String() string  { return fmt.Sprintf("FromFunc(%d)", d.n) }

func (d *funcDataset) overwrites() bool { return d.writesAll }
func (d *funcDataset) claims() bool     { return d.writesAll }

func (d *funcDataset) Read(ctx context.Context, i int, row Row) error { return d.read(ctx, i, row) }
