package dataloader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
)

// Errors say which part of what failed, down to the cause.
func TestSetErrorsNameThePart(t *testing.T) {
	leak.Check(t)
	broken := errors.New("broken")
	bad := FromFunc(4, numberFields, func(_ context.Context, i int, row Row) error {
		if i == 2 {
			return broken
		}
		return nil
	})
	good := numbered(t, 4, 1, false)
	other := must[Dataset](t)(Rename(bad, "x", "y"))
	for want, set := range map[string]Dataset{
		"Concat: set 1, sample 2: broken":                        must[Dataset](t)(Concat(good, bad)),
		"Zip: set 1, sample 2: broken":                           must[Dataset](t)(Zip(good, other)),
		"Interleave: set 1, sample 2: broken":                    must[Dataset](t)(Interleave(AllExhausted, nil, good, bad)),
		"Subset: set, sample 2: broken":                          must[Dataset](t)(Subset(bad, []int{0, 2})),
		"Repeat: set, sample 2: Concat: set 0, sample 2: broken": must[Dataset](t)(Repeat(must[Dataset](t)(Concat(bad, good)), 2)),
		"Cache: set, sample 2: broken":                           must[*Cached](t)(Cache(bad, 1000)),
		"Map: broken": must[Dataset](t)(Map(good, numberFields, func(_ context.Context, i int, in, out Row) error {
			return map[bool]error{true: broken}[i == 2]
		})),
		"MapInPlace: broken": must[Dataset](t)(MapInPlace(good, func(_ context.Context, i int, row Row) error {
			return map[bool]error{true: broken}[i == 2]
		})),
	} {
		rows := must[Rows](t)(MakeRows(set.Fields(), set.Len()))
		err := set.(BatchReader).ReadBatch(t.Context(), numbers(set.Len()), rows)
		if !errors.Is(err, broken) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v: ReadBatch: %v, want %q", set, err, want)
		}
		failed := 0
		for i := range set.Len() {
			if err := set.Read(t.Context(), i, rows.Row(i)); err != nil {
				if failed++; !errors.Is(err, broken) || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("%v: Read: %v, want %q", set, err, want)
				}
			}
		}
		if failed == 0 {
			t.Errorf("%v: no error of Read", set)
		}
	}
	for _, set := range []Dataset{
		must[Dataset](t)(Concat(good, good)), must[Dataset](t)(Zip(good, other)), must[Dataset](t)(Subset(good, []int{1})),
		must[Dataset](t)(Interleave(AllExhausted, nil, good)), must[*Cached](t)(Cache(good, 1000)), must[Dataset](t)(Repeat(good, 2)),
	} {
		rows := must[Rows](t)(MakeRows(set.Fields(), 1))
		for _, i := range []int{-1, set.Len()} {
			want := fmt.Sprintf("sample %d: want 0 to %d", i, set.Len()-1)
			if err := set.Read(t.Context(), i, rows.Row(0)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: Read: %v, want %q", set, err, want)
			}
			if err := set.(BatchReader).ReadBatch(t.Context(), []int{i}, rows); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: ReadBatch: %v, want %q", set, err, want)
			}
		}
	}
}

// A Loader reads sets that have only Read one sample after the other through whatever they are part of: no sample is
// read twice to find the bad one, and it is named.
func TestLoaderReadsSetsOfReadersOneByOne(t *testing.T) {
	e := newEngine(t)
	var reads atomic.Int64
	inner := failing(8, func(i int) error {
		reads.Add(1)
		return map[bool]error{true: errors.New("bad")}[i == 3]
	})
	for _, set := range []Dataset{
		must[Dataset](t)(Subset(inner, numbers(8))), must[Dataset](t)(Concat(inner)), must[Dataset](t)(Zip(inner)),
		must[Dataset](t)(MapInPlace(inner, func(context.Context, int, Row) error { return nil })),
		must[Dataset](t)(Interleave(AllExhausted, nil, inner)), must[*Cached](t)(Cache(inner, 1000)),
	} {
		reads.Store(0)
		l := newLoader(t, set, Config{BatchSize: 8, Workers: 1, SingleEpoch: true, OnError: SkipErrors, Pin: e})
		for b, err := range l.Batches(t.Context()) {
			if err != nil || b.Len() != 7 || b.Skipped[0].Index != 3 {
				t.Errorf("%v: %v", set, err)
			}
		}
		if n := reads.Load(); n != 8 {
			t.Errorf("%v: %d reads of 8 samples", set, n)
		}
	}
}

func TestSetsRefuse(t *testing.T) {
	leak.Check(t)
	ten, five := numbered(t, 10, 1, false), numbered(t, 5, 1, false)
	scalar := FromFunc(10, []Field{{Name: "number", Dtype: tensor.Int64}}, ten.Read)
	single := FromFunc(10, []Field{{Name: "number", Dtype: tensor.Int64}, {Name: "pair", Dtype: tensor.Int16, Shape: tensor.Shape{3}}}, ten.Read)
	named := must[Dataset](t)(Rename(ten, "a", "b"))
	hollow := FromFunc(10, numberFields, nil)
	huge := FromFunc(maxInt, numberFields, ten.Read)
	one := func(_ any, err error) error { return err }
	for want, err := range map[string]error{
		"Subset: set is nil":                                                one(Subset(nil, nil)),
		"Subset: set: FromFunc: read is nil":                                one(Subset(hollow, nil)),
		"Subset: indices[1] = 10: want 0 to 9":                              one(Subset(ten, []int{0, 10})),
		"Subset: indices[0] = -1: want 0 to 9":                              one(Subset(ten, []int{-1})),
		"Repeat: times = -1: want 0 to":                                     one(Repeat(ten, -1)),
		"Repeat: times = 2: want 0 to 1":                                    one(Repeat(huge, 2)),
		"Concat: no sets":                                                   one(Concat()),
		"Concat: set 1 is nil":                                              one(Concat(ten, nil)),
		"Concat: set 1 has 1 fields: want 2, as set 0 has":                  one(Concat(ten, scalar)),
		`Concat: set 2: field 1 is "pair" int16 (3): want "pair" int16 (2)`: one(Concat(ten, five, single)),
		`Concat: set 1: field 0 is "a" int64 (): want "number" int64 ()`:    one(Concat(ten, named)),
		"Concat: the sets up to number 1 have more than":                    one(Concat(huge, huge)),
		"Zip: no sets": one(Zip()),
		"Zip: set 1 has 5 samples: want 10, as set 0 has":                    one(Zip(ten, five)),
		`Zip: field 0 of set 0 and field 0 of set 1 are both named "number"`: one(Zip(ten, ten)),
		"Rename: 1 names: want 2":                                            one(Rename(ten, "a")),
		`fields 0 and 1 are both named "a"`:                                  one(Rename(ten, "a", "a")),
		"RandomSplit: sizes [4 5] add up to 9: want 10":                      one(RandomSplit(ten, 0, 4, 5)),
		"RandomSplit: sizes [4 7] add up to more than 10":                    one(RandomSplit(ten, 0, 4, 7)),
		"RandomSplit: sizes [9223372036854775807 9223372036854775807] add":   one(RandomSplit(ten, 0, maxInt, maxInt)),
		"RandomSplit: sizes[0] = -1: want >= 0":                              one(RandomSplit(ten, 0, -1, 11)),
		"RandomSplit: sizes [] add up to 0: want 10":                         one(RandomSplit(ten, 0)),
		"RandomSplitFractions: fractions [0.5 0.4] add up to 0.9: want 1":    one(RandomSplitFractions(ten, 0, 0.5, 0.4)),
		"RandomSplitFractions: fractions[0] = NaN: want 0 to 1":              one(RandomSplitFractions(ten, 0, math.NaN())),
		"RandomSplitFractions: fractions[1] = -0.5: want 0 to 1":             one(RandomSplitFractions(ten, 0, 1, -0.5, 0.5)),
		"Map: set is nil":                  one(Map(nil, numberFields, nil)),
		"Map: fn is nil":                   one(Map(ten, numberFields, nil)),
		"Map: Dataset.Fields(): no fields": one(Map(ten, nil, func(context.Context, int, Row, Row) error { return nil })),
		"MapInPlace: fn is nil":            one(MapInPlace(ten, nil)),
		"Overwriting: set is nil":          one(Overwriting(nil)),
		"Overwriting: set: FromFunc: read": one(Overwriting(hollow)),
		"Cache: maxBytes = 51: want 4 for each of 10 samples, and 12 for one": one(Cache(ten, 51)),
		"Cache: maxBytes = -1":                                                one(Cache(ten, -1)),
		"Cache: maxBytes = 9223372036854775807: want":                         one(Cache(huge, math.MaxInt64)),
		"Interleave: stop = 3: want FirstExhausted":                           one(Interleave(3, nil, ten)),
		"Interleave: 1 weights: want 2":                                       one(Interleave(FirstExhausted, []int{1}, ten, ten)),
		"Interleave: weights[1] = 0: want > 0":                                one(Interleave(FirstExhausted, []int{1, 0}, ten, ten)),
		"Interleave: weights [1 65536]: want a sum of at most 65536":          one(Interleave(FirstExhausted, []int{1, 65536}, ten, ten)),
		"Interleave: set 1 has no samples: want at least one with CycleUntil": one(Interleave(CycleUntilAllExhausted, nil, ten, FromFunc(0, numberFields, ten.Read))),
		"Interleave: set 1: field 0 is":                                       one(Interleave(FirstExhausted, nil, ten, named)),
		"Interleave: the sets make more than 9223372036854775807 samples":     one(Interleave(CycleUntilAllExhausted, nil, huge, ten)),
		"Interleave: no sets: want at least one":                              one(Interleave(FirstExhausted, nil)),
		"Concat: set 0: Len() = -1: want >= 0":                                one(Concat(FromFunc(-1, numberFields, ten.Read))),
		"Concat: set 0: Dataset.Fields(): no fields":                          one(Concat(FromFunc(1, nil, ten.Read))),
	} {
		if err == nil || strings.Count(err.Error(), "dataloader: ") != 1 || !strings.Contains(err.Error(), "dataloader: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
