package dataloader

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/leak"
)

// numbered is a set of n samples with the numbers from first on, in two fields, by a function or in tensors.
func numbered(t testing.TB, n, first int, inTensors bool) Dataset {
	t.Helper()
	if !inTensors {
		return FromFunc(n, numberFields, func(_ context.Context, i int, row Row) error {
			Values[int64](row, 0)[0] = int64(first + i)
			Values[int16](row, 1)[1] = int16(first + i) // and not [0]: rows are zeroed
			return nil
		})
	}
	a, b := make([]int64, n), make([]int16, 2*n)
	for i := range n {
		a[i], b[2*i+1] = int64(first+i), int16(first+i)
	}
	set, err := FromTensors(
		tensor.New(tensor.WithShape(n), tensor.WithBacking(a)), tensor.New(tensor.WithShape(n, 2), tensor.WithBacking(b)))
	if err != nil {
		t.Fatal(err)
	}
	return must[Dataset](t)(Rename(set, "number", "pair"))
}

var numberFields = []Field{{Name: "number", Dtype: tensor.Int64}, {Name: "pair", Dtype: tensor.Int16, Shape: tensor.Shape{2}}}

// fatal is what a test and rapid's T have in common.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// contents reads a set of numbered's fields in each way there is, and returns its numbers.
func contents(t fatal, ds Dataset) []int {
	t.Helper()
	n := ds.Len()
	got := make([]int, n)
	check := func(rows Rows, k, i int) {
		number, pair := Values[int64](rows.Row(k), 0)[0], Values[int16](rows.Row(k), 1)
		if got[i] == 0 {
			got[i] = int(number)
		}
		if int(number) != got[i] || pair[0] != 0 || int(pair[1]) != got[i] {
			t.Fatalf("%v: sample %d is %d, %v, want %d", ds, i, number, pair, got[i])
		}
	}
	for i := range n {
		rows, err := MakeRows(ds.Fields(), 1)
		if err == nil {
			err = ds.Read(context.Background(), i, rows.Row(0))
		}
		if err != nil {
			t.Fatalf("%v: sample %d: %v", ds, i, err)
		}
		check(rows, 0, i)
	}
	order := make([]int, 0, 2*n+1)
	for i := range n {
		order = append(order, (i*7+3)%n, i) // neighbours, and others; some twice
	}
	for part := range slices.Chunk(order, 5) {
		rows, err := MakeRows(ds.Fields(), len(part)+2)
		if err == nil {
			err = ds.(BatchReader).ReadBatch(context.Background(), part, rows.rows(1, len(part)))
		}
		if err != nil {
			t.Fatalf("%v: samples %v: %v", ds, part, err)
		}
		for k, i := range part {
			check(rows, k+1, i)
		}
		for _, k := range []int{0, len(part) + 1} {
			if slices.Max(RowsValues[int64](rows.rows(k, 1), 0)) != 0 || slices.Max(RowsValues[int16](rows.rows(k, 1), 1)) != 0 {
				t.Fatalf("%v: a row beside those asked for was written", ds)
			}
		}
	}
	return got
}

// span is first, first+1, ... up to n numbers.
func span(first, n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = first + i
	}
	return s
}

func TestSetsOfSets(t *testing.T) {
	leak.Check(t)
	for _, tensors := range []bool{false, true} {
		ten, three, none := numbered(t, 10, 1, tensors), numbered(t, 3, 100, tensors), numbered(t, 0, 1, tensors)
		negative := func(_ context.Context, i int, row Row) error {
			Values[int64](row, 0)[0] *= -1
			Values[int16](row, 1)[1] *= -1
			return nil
		}
		negated := must[Dataset](t)(MapInPlace(three, negative))
		copied := must[Dataset](t)(Map(three, numberFields, func(_ context.Context, i int, in, out Row) error {
			copy(Values[int64](out, 0), Values[int64](in, 0))
			copy(Values[int16](out, 1), Values[int16](in, 1))
			Values[int16](in, 1)[0] = 7 // which a sample read later must not find
			return nil
		}))
		concat := must[Dataset](t)(Concat(none, ten, none, three, none))
		for _, test := range []struct {
			set  Dataset
			want []int
		}{
			{must[Dataset](t)(Subset(ten, []int{9, 0, 0, 4})), []int{10, 1, 1, 5}},
			{must[Dataset](t)(Subset(ten, nil)), nil},
			{must[Dataset](t)(Repeat(three, 3)), []int{100, 101, 102, 100, 101, 102, 100, 101, 102}},
			{must[Dataset](t)(Repeat(three, 0)), nil},
			{must[Dataset](t)(Repeat(none, 1<<40)), nil},
			{concat, append(span(1, 10), span(100, 3)...)},
			{must[Dataset](t)(Subset(concat, []int{12, 2, 11})), []int{102, 3, 101}},
			{must[Dataset](t)(Concat(must[Dataset](t)(Repeat(three, 1)), concat)), append(span(100, 3), append(span(1, 10), span(100, 3)...)...)},
			{negated, []int{-100, -101, -102}},
			{copied, span(100, 3)},
			{must[Dataset](t)(Rename(ten, "number", "pair")), span(1, 10)},
			{must[*Cached](t)(Cache(ten, 1<<20)), span(1, 10)},
			{must[*Cached](t)(Cache(ten, 4*10+12)), span(1, 10)},   // room for one
			{must[*Cached](t)(Cache(ten, 4*10+5*12)), span(1, 10)}, // and for five
			{must[*Cached](t)(Cache(none, 0)), nil},
			{must[Dataset](t)(Interleave(FirstExhausted, nil, ten, three)), []int{1, 100, 2, 101, 3, 102, 4}},
			{must[Dataset](t)(Interleave(AllExhausted, nil, ten, none, three)), []int{1, 100, 2, 101, 3, 102, 4, 5, 6, 7, 8, 9, 10}},
			{must[Dataset](t)(Interleave(FirstExhausted, []int{20, 10}, ten, three)), []int{1, 100, 2, 3, 101, 4, 5, 102, 6, 7}},
			{must[Dataset](t)(Interleave(CycleUntilAllExhausted, []int{1, 2}, three, three)), []int{100, 100, 101, 102, 101, 100, 101, 102}},
			{must[Dataset](t)(Interleave(FirstExhausted, nil, ten, none)), []int{1}},
			{must[Dataset](t)(Interleave(AllExhausted, nil, none)), nil},
			{must[Dataset](t)(Overwriting(must[Dataset](t)(Repeat(three, 1)))), span(100, 3)},
			{must[Dataset](t)(Overwriting(copied)), span(100, 3)},
			{must[Dataset](t)(Overwriting(concat)), append(span(1, 10), span(100, 3)...)},
		} {
			if got := contents(t, test.set); !slices.Equal(got, test.want) {
				t.Errorf("%v: %v, want %v", test.set, got, test.want)
			}
			whole := tensors
			switch test.set.(type) {
			case *mapped, *overwriting:
				whole = true
			}
			if overwrites(test.set) != whole {
				t.Errorf("%v overwrites: %v, want %v", test.set, !whole, whole)
			}
			if has := batchReaderOf(test.set) != nil; has != tensors {
				t.Errorf("%v is a BatchReader: %v, want %v", test.set, has, tensors)
			}
		}
	}
}

// Interleave beside one that counts along.
func TestInterleaveIsItsDefinition(t *testing.T) {
	leak.Check(t)
	rapid.Check(t, func(r *rapid.T) {
		stop := StopRule(rapid.IntRange(0, 2).Draw(r, "stop"))
		weights := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 4).Draw(r, "weights")
		sets, sizes, next := []Dataset{}, make([]int, len(weights)), 0
		for j := range weights {
			least := 0
			if stop == CycleUntilAllExhausted {
				least = 1
			}
			sizes[j] = rapid.IntRange(least, 30).Draw(r, "size")
			sets = append(sets, numbered(t, sizes[j], 1000*j+1, true))
			next += sizes[j]
		}
		set, err := Interleave(stop, weights, sets...)
		if err != nil {
			r.Fatal(err)
		}
		got := contents(r, set)
		came := make([]int, len(weights))
		sum := 0
		for _, w := range weights {
			sum += w
		}
		for k, v := range got {
			j := v / 1000
			if want := 1000*j + 1 + came[j]%sizes[j]; v != want {
				r.Fatalf("place %d is %d, want %d: %v", k, v, want, got)
			}
			came[j]++
			// As long as none has run out the shares are exact after each pattern, and nearly so within.
			if stop != AllExhausted || k < slices.Min(sizes) {
				for j, w := range weights {
					if share := float64(k+1) * float64(w) / float64(sum); math.Abs(float64(came[j])-share) > 2 || (k+1)%sum == 0 && came[j]*sum != (k+1)*w {
						r.Fatalf("after %d places %d are of set %d of weight %d: %v", k+1, came[j], j, w, got)
					}
				}
			}
		}
		switch stop {
		case AllExhausted:
			if !slices.Equal(came, sizes) {
				r.Fatalf("%v samples came, want %v", came, sizes)
			}
		case FirstExhausted: // one set is at its end, and would be next
			if !slices.ContainsFunc(numbers(len(sizes)), func(j int) bool { return came[j] == sizes[j] }) {
				r.Fatalf("%v of %v samples came", came, sizes)
			}
		case CycleUntilAllExhausted:
			short := 0
			for j := range came {
				if came[j] < sizes[j] {
					r.Fatalf("%v of %v samples came", came, sizes)
				}
				if came[j] == sizes[j] {
					short++
				}
			}
			if short == 0 {
				r.Fatalf("%v of %v samples came: it ended late", came, sizes)
			}
		}
	})
}

func TestRandomSplitIsExact(t *testing.T) {
	leak.Check(t)
	for _, n := range []int{0, 1, 10, 1000, 5000} {
		set := numbered(t, n, 1, true)
		all := func(sets []Dataset) (sizes, whole []int) {
			for _, s := range sets {
				sizes = append(sizes, s.Len())
				whole = append(whole, contents(t, s)...)
			}
			return sizes, whole
		}
		sizes, first := all(must[[]Dataset](t)(RandomSplit(set, 3, n/2, 0, n-n/2)))
		if !slices.Equal(sizes, []int{n / 2, 0, n - n/2}) {
			t.Errorf("sizes %v", sizes)
		}
		_, again := all(must[[]Dataset](t)(RandomSplit(set, 3, n/2, 0, n-n/2)))
		_, other := all(must[[]Dataset](t)(RandomSplit(set, 4, n)))
		if !slices.Equal(first, again) || n >= 10 && (slices.Equal(first, other) || slices.IsSorted(first)) {
			t.Errorf("n = %d: the same seed does not divide alike, or others do", n)
		}
		slices.Sort(first)
		if !slices.Equal(first, span(1, n)) {
			t.Errorf("n = %d: not each sample once", n)
		}
	}
	hundred := numbered(t, 100, 1, true)
	for _, test := range []struct {
		n         int
		fractions []float64
		want      []int
	}{
		{100, []float64{0.29, 0.71}, []int{29, 71}},
		{100, []float64{0.8, 0.1, 0.1}, []int{80, 10, 10}},
		{10, []float64{1. / 3, 1. / 3, 1. / 3}, []int{3, 4, 3}},
		{1, []float64{0.5, 0.5}, []int{1, 0}},
		{100, []float64{0, 1, 0}, []int{0, 100, 0}},
		{0, []float64{0.5, 0.5}, []int{0, 0}},
	} {
		var got []int
		for _, s := range must[[]Dataset](t)(RandomSplitFractions(must[Dataset](t)(Subset(hundred, numbers(test.n))), 1, test.fractions...)) {
			got = append(got, s.Len())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%v of %d: %v, want %v", test.fractions, test.n, got, test.want)
		}
	}
}

func TestZipPutsSetsSideBySide(t *testing.T) {
	e := newEngine(t)
	for _, tensors := range []bool{false, true} {
		left := numbered(t, 20, 1, tensors)
		right := must[Dataset](t)(Rename(numbered(t, 20, 500, tensors), "right", "right pair"))
		deep := must[Dataset](t)(Zip(must[Dataset](t)(Rename(left, "a", "b")), must[Dataset](t)(Rename(right, "c", "d"))))
		set := must[Dataset](t)(Zip(left, deep, right))
		if f := set.Fields(); len(f) != 8 || f[0].Name != "number" || f[4].Name != "c" || f[7].Name != "right pair" {
			t.Errorf("fields %v", f)
		}
		l := newLoader(t, set, Config{BatchSize: 7, Shuffle: true, Workers: 3, Pin: e})
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for k, i := range b.Indices {
				for f, want := range map[int]int{0: i + 1, 2: i + 1, 4: i + 500, 6: i + 500} {
					number, pair := b.Host(f).Data().([]int64)[k], b.Host(f + 1).Data().([]int16)[2*k:2*k+2]
					if int(number) != want || pair[0] != 0 || int(pair[1]) != want {
						t.Fatalf("sample %d, field %d: %d, %v, want %d", i, f, number, pair, want)
					}
				}
			}
		}
		if has := batchReaderOf(set) != nil; has != tensors || overwrites(set) != tensors {
			t.Errorf("%v is a BatchReader: %v, want %v", set, has, tensors)
		}
	}
}

// A part of a Zip has no fields but its own.
func TestZipKeepsPartsApart(t *testing.T) {
	leak.Check(t)
	greedy := FromFunc(3, []Field{{Name: "mine", Dtype: tensor.Int64}}, func(_ context.Context, i int, row Row) error {
		Values[int64](row, 1)[0] = 666
		return nil
	})
	set := must[Dataset](t)(Zip(greedy, numbered(t, 3, 1, true)))
	rows := must[Rows](t)(MakeRows(set.Fields(), 1))
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "want a field from 0 to 0") {
			t.Errorf("panic %v", got)
		}
	}()
	set.Read(t.Context(), 0, rows.Row(0))
	t.Error("no panic")
}

// The generator is the outer sample's, in whatever it is wrapped, and whichever way it is read.
func TestRowRandThroughSets(t *testing.T) {
	leak.Check(t)
	fields := []Field{{Name: "random", Dtype: tensor.Uint64}}
	draw := func(_ context.Context, i int, row Row) error {
		Values[uint64](row, 0)[0] = row.Rand().Uint64()
		return nil
	}
	plain := FromFunc(9, fields, draw)
	zero := must[Dataset](t)(FromTensors(tensor.New(tensor.WithShape(9), tensor.WithBacking(make([]uint64, 9)))))
	values := func(ds Dataset, field int) []uint64 {
		rows := must[Rows](t)(MakeRows(ds.Fields(), 9))
		if err := ds.(BatchReader).ReadBatch(t.Context(), numbers(9), rows); err != nil {
			t.Fatal(err)
		}
		batched := slices.Clone(RowsValues[uint64](rows, field))
		rows = must[Rows](t)(MakeRows(ds.Fields(), 9))
		for i := range 9 {
			if err := ds.Read(t.Context(), i, rows.Row(i)); err != nil {
				t.Fatal(err)
			}
		}
		if got := RowsValues[uint64](rows, field); !slices.Equal(got, batched) {
			t.Errorf("%v: %v by Read, %v by ReadBatch", ds, got, batched)
		}
		return batched
	}
	want := values(must[Dataset](t)(Repeat(plain, 1)), 0)
	if len(slices.Compact(slices.Sorted(slices.Values(want)))) != 9 {
		t.Errorf("samples share numbers: %v", want)
	}
	for name, set := range map[string]Dataset{
		"Map over tensors": must[Dataset](t)(Map(zero, fields, func(ctx context.Context, i int, _, out Row) error { return draw(ctx, i, out) })),
		"Map, in's": must[Dataset](t)(Map(zero, fields, func(_ context.Context, i int, in, out Row) error {
			Values[uint64](out, 0)[0] = in.Rand().Uint64()
			return nil
		})),
		"MapInPlace": must[Dataset](t)(MapInPlace(zero, draw)),
		"Subset":     must[Dataset](t)(Subset(plain, []int{8, 8, 8, 8, 0, 0, 0, 0, 0})),
		"Zip":        must[Dataset](t)(Zip(plain, zero)),
		"Zip in Map": must[Dataset](t)(Map(must[Dataset](t)(Zip(plain, zero)), fields, func(_ context.Context, _ int, in, out Row) error {
			Values[uint64](out, 0)[0] = Values[uint64](in, 0)[0]
			return nil
		})),
	} {
		if got := values(set, 0); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	second := must[Dataset](t)(Rename(plain, "second"))
	if got := values(must[Dataset](t)(Zip(plain, second)), 1); slices.Equal(got, want) || got[0] == want[0] {
		t.Errorf("the second set of a Zip draws what the first drew")
	}
}
