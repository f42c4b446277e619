package dataloader

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gorgonia.org/tensor"
)

// halves are two numbers a sample, of which read writes only so many.
func halves(writes int) Dataset {
	return FromFunc(30, []Field{{Name: "half", Dtype: tensor.Int64, Shape: tensor.Shape{2}}}, func(_ context.Context, i int, row Row) error {
		for k := range writes {
			Values[int64](row, 0)[k] = int64(i + 1)
		}
		return nil
	})
}

// doubled maps both numbers of halves, or as many as it writes.
func doubled(t *testing.T, ds Dataset, writes int) Dataset {
	return must[Dataset](t)(Map(ds, ds.Fields(), func(_ context.Context, _ int, in, out Row) error {
		for k := range writes {
			Values[int64](out, 0)[k] = 2 * Values[int64](in, 0)[k]
		}
		return nil
	}))
}

// batchHalves has a ReadBatch that does what Read does.
type batchHalves struct{ Dataset }

func (h batchHalves) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	for k, i := range indices {
		if err := h.Read(ctx, i, rows.Row(k)); err != nil {
			return err
		}
	}
	return nil
}

// Who says of a set that it writes whole rows though it does not is told so, wherever the set is: also where its rows are
// in memory that no batch has.
func TestOverwritingIsProven(t *testing.T) {
	e := newEngine(t)
	over := func(ds Dataset) Dataset { return must[Dataset](t)(Overwriting(ds)) }
	subset := func(ds Dataset) Dataset { return must[Dataset](t)(Subset(ds, numbers(20))) }
	for name, c := range map[string]struct {
		set  Dataset
		lies bool
	}{
		"FromFunc":                       {over(halves(2)), false},
		"FromFunc, lies":                 {over(halves(1)), true},
		"ReadBatch":                      {over(batchHalves{halves(2)}), false},
		"ReadBatch, lies":                {over(batchHalves{halves(1)}), true},
		"Map":                            {over(doubled(t, halves(2), 2)), false},
		"Map, lies":                      {over(doubled(t, halves(2), 1)), true},
		"Map of ReadBatch, lies":         {over(doubled(t, batchHalves{halves(2)}, 1)), true},
		"Map, of zeroed rows":            {over(doubled(t, halves(1), 2)), false},
		"Map of a set that lies":         {doubled(t, over(halves(1)), 2), true},
		"Map of a ReadBatch that lies":   {doubled(t, over(batchHalves{halves(1)}), 2), true},
		"Map of a Map that lies":         {doubled(t, over(doubled(t, halves(2), 1)), 2), true},
		"Map of part of a set that lies": {doubled(t, subset(over(halves(1))), 2), true},
		"part of a set that lies":        {subset(over(halves(1))), true},
		"a set that is said to, twice":   {over(over(halves(2))), false},
	} {
		l := newLoader(t, c.set, Config{BatchSize: 3, Workers: 2, OnError: SkipErrors, Pin: e})
		for range 2 {
			for b, err := range l.Batches(t.Context()) {
				if !c.lies && err != nil || c.lies && (!errors.Is(err, errUnwritten) || !strings.Contains(err.Error(), `element 1 of field "half"`)) {
					t.Errorf("%s: %v", name, err)
				}
				if err != nil {
					continue
				}
				for k, i := range b.Indices {
					want := [2]int64{int64(i + 1), int64(i + 1)}
					if strings.HasPrefix(name, "Map") {
						want = [2]int64{2 * want[0], 2 * want[1]}
					}
					if name == "Map, of zeroed rows" {
						want[1] = 0
					}
					if got := b.Host(0).Int64s()[2*k : 2*k+2]; got[0] != want[0] || got[1] != want[1] {
						t.Errorf("%s: sample %d has %d, want %d", name, i, got, want)
					}
				}
			}
		}
	}
}

// A set is the same as before it was said to write whole rows: States are of both.
func TestOverwritingIsTheSameSet(t *testing.T) {
	for _, set := range []Dataset{halves(2), doubled(t, halves(2), 2), must[Dataset](t)(Subset(halves(2), numbers(20))), batchHalves{halves(2)}} {
		over := must[Dataset](t)(Overwriting(set))
		l := newLoader(t, set, Config{BatchSize: 3, Workers: 1})
		for range l.Batches(t.Context()) {
			break
		}
		if err := newLoader(t, over, Config{BatchSize: 3, Workers: 1}).Restore(l.State()); err != nil {
			t.Errorf("%v: %v", set, err)
		}
		if describeSet(over) != describeSet(set) {
			t.Errorf("%v is called %v", describeSet(set), describeSet(over))
		}
	}
}

// Overwriting rows are not zeroed.
func TestOverwritingSavesZeroing(t *testing.T) {
	for _, ds := range []Dataset{halves(2), batchHalves{halves(2)}} {
		if l := newLoader(t, must[Dataset](t)(Overwriting(ds)), Config{BatchSize: 3}); l.zero {
			t.Errorf("%v: the loader zeroes its rows", ds)
		}
	}
	m := must[Dataset](t)(Overwriting(doubled(t, halves(2), 0))).(*mapped)
	rows, err := MakeRows(m.Fields(), 1)
	if err != nil {
		t.Fatal(err)
	}
	rows.Bytes(0)[0] = 7
	if err := m.Read(t.Context(), 3, rows.Row(0)); err != nil || rows.Bytes(0)[0] != 7 {
		t.Errorf("Map zeroed its row: %v, %v", rows.Bytes(0)[0], err)
	}
}
