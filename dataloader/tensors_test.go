package dataloader

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
)

func arange(shape ...int) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(tensor.Range(tensor.Float32, 0, tensor.Shape(shape).TotalSize())))
}

func TestFromTensors(t *testing.T) {
	e := newEngine(t)
	view, err := arange(20, 8).Slice(tensor.S(3, 13), tensor.S(2, 5))
	if err != nil {
		t.Fatal(err)
	}
	transposed := arange(3, 10)
	if err := transposed.T(); err != nil {
		t.Fatal(err)
	}
	bytes := tensor.New(tensor.WithShape(10), tensor.WithBacking([]byte{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}))
	rows, err := arange(20, 2).Slice(tensor.S(5, 15)) // contiguous, but not from its memory's start
	if err != nil {
		t.Fatal(err)
	}
	tensors := []*tensor.Dense{arange(10, 2, 2), bytes, view.(*tensor.Dense), transposed, rows.(*tensor.Dense)}
	ds, err := FromTensors(tensors...)
	if err != nil {
		t.Fatal(err)
	}
	for f := range tensors { // what they are now, whatever happens to their memory
		tensors[f] = tensors[f].Clone().(*tensor.Dense)
	}
	for name, set := range map[string]Dataset{"ReadBatch": ds, "Read": struct{ Dataset }{ds}} {
		l := newLoader(t, set, Config{BatchSize: 3, Shuffle: true, Workers: 2, Pin: e})
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for f, whole := range tensors {
				got := b.Host(f)
				if want := append(tensor.Shape{b.Len()}, whole.Shape()[1:]...); !got.Shape().Eq(want) || got.Dtype() != whole.Dtype() {
					t.Fatalf("%s: tensor %d has shape %v of %v, want %v of %v", name, f, got.Shape(), got.Dtype(), want, whole.Dtype())
				}
				for k, i := range b.Indices {
					if !sameRow(t, got, k, whole, i) {
						t.Fatalf("%s: tensor %d, row %d is not sample %d", name, f, k, i)
					}
				}
				got.Zero() // must not reach the set
			}
		}
	}
}

// sameRow compares row k of a with row i of b element by element.
func sameRow(t *testing.T, a *tensor.Dense, k int, b *tensor.Dense, i int) bool {
	t.Helper()
	n := a.Shape().TotalSize() / a.Shape()[0]
	for j := range n {
		at := append([]int{k}, unravel(j, a.Shape()[1:])...)
		want := append([]int{i}, at[1:]...)
		x, err := a.At(at...)
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.At(want...)
		if err != nil {
			t.Fatal(err)
		}
		if x != y {
			return false
		}
	}
	return true
}

func unravel(j int, shape []int) []int {
	at := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		at[i] = j % shape[i]
		j /= shape[i]
	}
	return at
}

func TestFromTensorsRefuses(t *testing.T) {
	leak.Check(t)
	masked := arange(4)
	masked.MaskedEqual(float32(2))
	for want, ts := range map[string][]*tensor.Dense{
		"no tensors: want at least one":                          nil,
		"tensor 1: is nil":                                       {arange(4), nil},
		"tensor 0: is a scalar":                                  {tensor.New(tensor.FromScalar(float32(1)))},
		"tensor 1: shape (3, 2): want 4 samples, as in tensor 0": {arange(4), arange(3, 2)},
		"tensor 0: its Dtype string":                             {tensor.New(tensor.WithShape(1), tensor.WithBacking([]string{"x"}))},
		"tensor 0: has a mask":                                   {masked},
	} {
		if ds, err := FromTensors(ts...); err == nil || !strings.Contains(err.Error(), "dataloader: FromTensors: "+want) {
			t.Errorf("%v, %v, want error %q", ds, err, want)
		}
	}
}

func TestMakeRows(t *testing.T) {
	leak.Check(t)
	rows, err := MakeRows(countFields, 3)
	if err != nil {
		t.Fatal(err)
	}
	for k := range rows.Len() {
		if err := counting(10).Read(t.Context(), k+4, rows.Row(k)); err != nil {
			t.Fatal(err)
		}
		if got := Values[float32](rows.Row(k), 0); len(got) != 6 || got[5] != float32((k+4)*10+5) {
			t.Errorf("row %d: %v", k, got)
		}
		rows.Row(k).Rand().Uint64()
	}
	if got := RowsValues[int64](rows, 1); len(got) != 3 || got[2] != 6 {
		t.Errorf("field 1: %v", got)
	}
	mustPanic(t, "Row(3)", func() { rows.Row(3) })
	mustPanic(t, "Row(-1)", func() { rows.Row(-1) })
	for want, call := range map[string]func() (Rows, error){
		"n = -1: want >= 0": func() (Rows, error) { return MakeRows(countFields, -1) },
		"no fields":         func() (Rows, error) { return MakeRows(nil, 1) },
		"want at most":      func() (Rows, error) { return MakeRows(countFields, math.MaxInt/64) },
	} {
		if _, err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want error %q", err, want)
		}
	}
}

// Read by hand, a row that isn't there is an error and no other row.
func TestTensorsHaveNoOtherRows(t *testing.T) {
	set := must[Dataset](t)(FromTensors(tensor.New(tensor.WithShape(3), tensor.WithBacking([]int64{1, 2, 3}))))
	rows, err := MakeRows(set.Fields(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{-1, 3, 1 << 61, 1 << 62, -1 << 61} { // times 8 bytes some of these are 0
		for _, err := range []error{set.Read(t.Context(), i, rows.Row(0)), set.(BatchReader).ReadBatch(t.Context(), []int{i}, rows)} {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("FromTensors: sample %d: want 0 to 2", i)) {
				t.Errorf("sample %d: %v", i, err)
			}
		}
	}
}

// Rows for a GPU, which are written past the caches, are the same, in sets made of tensors too, and what Map reads for itself is
// not written so.
func TestRowsForAGPU(t *testing.T) {
	numbers, labels := arange(40, 256), arange(40) // rows of 1 KiB, of whole cache lines
	tensors := must[Dataset](t)(FromTensors(numbers, labels))
	named := must[Dataset](t)(Rename(tensors, "x", "y"))
	forGPU := false
	kept := must[Dataset](t)(Map(named, named.Fields(), func(_ context.Context, _ int, in, out Row) error {
		forGPU = forGPU || in.b.nonTemporal
		copy(out.Bytes(0), in.Bytes(0))
		copy(out.Bytes(1), in.Bytes(1))
		return nil
	}))
	zip := must[Dataset](t)(Zip(must[Dataset](t)(FromTensors(numbers)), must[Dataset](t)(Rename(must[Dataset](t)(FromTensors(labels)), "y"))))
	for _, set := range []Dataset{tensors, named, kept, zip} {
		rows, err := MakeRows(set.Fields(), 20)
		if err != nil {
			t.Fatal(err)
		}
		rows.b.nonTemporal = true
		for first := range 21 {
			indices := make([]int, 20)
			for k := range indices {
				indices[k] = (first + 7*k) % 40
			}
			if err := set.(BatchReader).ReadBatch(t.Context(), indices, rows); err != nil {
				t.Fatal(err)
			}
			for k, i := range indices {
				x, y := Values[float32](rows.Row(k), 0), Values[float32](rows.Row(k), 1)
				if x[0] != float32(256*i) || x[255] != float32(256*i+255) || y[0] != float32(i) {
					t.Fatalf("%v: row %d is of sample %v, label %v, want %d", set, k, x[0]/256, y[0], i)
				}
			}
		}
	}
	if forGPU {
		t.Error("what Map reads for itself is written as if for a GPU")
	}
}
