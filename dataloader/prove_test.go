package dataloader

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/leak"
)

// claims is a set that says that it writes whole rows.
type claims struct{ Dataset }

func (claims) Overwrites() bool { return true }

// claimsBatches says so, and has a ReadBatch of its own.
type claimsBatches struct {
	claims
	readBatch func(ctx context.Context, indices []int, rows Rows) error
}

func (c claimsBatches) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	return c.readBatch(ctx, indices, rows)
}

var proofFields = []Field{
	{Name: "image", Dtype: tensor.Uint8, Shape: tensor.Shape{5, 7}},
	{Name: "one-hot", Dtype: tensor.Float32, Shape: tensor.Shape{10}},
	{Name: "weight", Dtype: tensor.Float64},
	{Name: "label", Dtype: tensor.Int64},
	{Name: "wave", Dtype: tensor.Complex128, Shape: tensor.Shape{2}},
}

// A set that says that it writes whole rows and doesn't is an error, the first time it does not, that no policy
// skips.
func TestOverwritesIsProven(t *testing.T) {
	e := newEngine(t)
	fill := func(row Row, but ...string) {
		for f, field := range proofFields {
			if !slices.Contains(but, field.Name) {
				for k := range row.Bytes(f) {
					row.Bytes(f)[k] = byte(k)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		read  func(row Row)
		batch func(row Row) // of ReadBatch; nil: there is none
		want  string        // in the error
	}{
		"all of it":       {read: func(row Row) { fill(row) }},
		"all, in batches": {read: func(row Row) { fill(row) }, batch: func(row Row) { fill(row) }},
		"one hot": {read: func(row Row) {
			fill(row, "one-hot")
			Values[float32](row, 1)[0] = 1
		}, want: `element 1 of field "one-hot"`},
		"no scalar":        {read: func(row Row) { fill(row, "label") }, want: `element 0 of field "label"`},
		"no float64":       {read: func(row Row) { fill(row, "weight") }, want: `element 0 of field "weight"`},
		"half an image":    {read: func(row Row) { fill(row, "image"); clear(row.Bytes(0)[:14]) }, want: `element 16 of field "image"`},
		"half of a wave":   {read: func(row Row) { fill(row, "wave"); Values[complex128](row, 4)[0] = 1i }, want: `element 1 of field "wave"`},
		"not in ReadBatch": {read: func(row Row) { fill(row) }, batch: func(row Row) { fill(row, "label") }, want: `element 0 of field "label"`},
	} {
		for _, policy := range []ErrorPolicy{StopOnError, SkipErrors} {
			set := Dataset(claims{FromFunc(30, proofFields, func(_ context.Context, _ int, row Row) error { c.read(row); return nil })})
			if c.batch != nil {
				set = claimsBatches{set.(claims), func(_ context.Context, indices []int, rows Rows) error {
					for k := range indices {
						c.batch(rows.Row(k))
					}
					return nil
				}}
			}
			l := newLoader(t, set, Config{BatchSize: 2, Workers: 2, OnError: policy, SingleEpoch: true, Pin: e})
			errs, batches := []error(nil), 0
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					errs = append(errs, err)
				} else if batches++; len(b.Skipped) > 0 {
					t.Errorf("%s, %v: skipped: %v", name, policy, b.Skipped)
				}
			}
			if c.want == "" {
				if len(errs) > 0 || batches != 15 || l.unproven.Load() > 0 {
					t.Errorf("%s, %v: %d batches, %d proofs left, %v", name, policy, batches, l.unproven.Load(), errs)
				}
				continue
			}
			if batches != 0 || len(errs) != 15 {
				t.Errorf("%s, %v: %d batches and %d errors: want an error each", name, policy, batches, len(errs))
			}
			var sample *SampleError
			for _, err := range errs {
				if !errors.As(err, &sample) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "Overwrites() is true") {
					t.Errorf("%s, %v: %v, want %q", name, policy, err, c.want)
					break
				}
			}
		}
	}
}

// What can't be told from a sample has no canary: it would be a bool that is neither true nor false.
func TestNoCanaryInFewBytes(t *testing.T) {
	leak.Check(t)
	rows, err := MakeRows([]Field{{Dtype: tensor.Bool}, {Dtype: tensor.Uint8, Shape: tensor.Shape{7}}, {Dtype: tensor.Uint8, Shape: tensor.Shape{8}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows.b.plant(0)
	if rows.Bytes(0)[0] != 0 || slices.Max(rows.Bytes(1)) != 0 || rows.Bytes(2)[0] != canary[0] {
		t.Errorf("%v, %v, %v", rows.Bytes(0), rows.Bytes(1), rows.Bytes(2))
	}
}

// Once it is proven rows are what they are from before.
func TestOverwritesIsProvenOnce(t *testing.T) {
	planted := 0
	set := claims{FromFunc(100, []Field{{Dtype: tensor.Float32}}, func(_ context.Context, i int, row Row) error {
		if string(row.Bytes(0)) == string(canary[:4]) {
			planted++
		}
		Values[float32](row, 0)[0] = float32(i)
		return nil
	})}
	l := newLoader(t, set, Config{BatchSize: 3, Workers: 1, SingleEpoch: true})
	for _, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if planted != proofs {
		t.Errorf("%d rows had the canary, want %d", planted, proofs)
	}
}

// Memory of a set that is read in place of zeroed memory has no canary in a batch, also where a sample was skipped.
func TestNoCanaryInABatch(t *testing.T) {
	set := claims{FromFunc(8, proofFields, func(_ context.Context, i int, row Row) error {
		if i%2 == 0 {
			return errBad
		}
		for f := range proofFields {
			clear(row.Bytes(f))
		}
		return nil
	})}
	l := newLoader(t, set, Config{BatchSize: 4, Workers: 1, OnError: SkipErrors, LastBatch: PadLast, SingleEpoch: true})
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Skipped) != 2 {
			t.Errorf("%d skipped", len(b.Skipped))
		}
		for f := range proofFields {
			for _, x := range b.Host(f).Raw {
				if x != 0 {
					t.Fatalf("field %d: %v", f, b.Host(f).Raw)
				}
			}
		}
	}
}

// Sets that do write whole rows are never refused, whatever their fields are and whatever they are made into, and
// batches have what they wrote.
func TestWholeRowsAreNeverRefused(t *testing.T) {
	e := newEngine(t)
	dtypes := []tensor.Dtype{tensor.Bool, tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int32, tensor.Float32, tensor.Int64, tensor.Float64, tensor.Complex64, tensor.Complex128}
	rapid.Check(t, func(rt *rapid.T) {
		var fields []Field
		for range rapid.IntRange(1, 3).Draw(rt, "fields") {
			shape := tensor.Shape(rapid.SliceOfN(rapid.IntRange(1, 5), 0, 3).Draw(rt, "shape"))
			fields = append(fields, Field{Dtype: rapid.SampledFrom(dtypes).Draw(rt, "dtype"), Shape: shape})
		}
		const n = 23
		contents := func(i, f int, row []byte) {
			r := rand.New(rand.NewPCG(uint64(i), uint64(f)))
			for k := range row {
				row[k] = byte(r.Uint32() & 1) // bools too
			}
		}
		read := func(_ context.Context, i int, row Row) error {
			for f := range fields {
				contents(i, f, row.Bytes(f))
			}
			return nil
		}
		var set Dataset = claims{FromFunc(n, fields, read)}
		if rapid.Bool().Draw(rt, "ReadBatch") {
			set = claimsBatches{set.(claims), func(ctx context.Context, indices []int, rows Rows) error {
				for k, i := range indices {
					if err := read(ctx, i, rows.Row(k)); err != nil {
						return err
					}
				}
				return nil
			}}
		}
		var err error
		switch rapid.SampledFrom([]string{"", "Subset", "MapInPlace", "Map", "Cache", "Concat"}).Draw(rt, "in") {
		case "Subset":
			set, err = Subset(set, numbers(n))
		case "MapInPlace":
			set, err = MapInPlace(set, func(context.Context, int, Row) error { return nil })
		case "Map":
			set, err = Map(set, fields, func(_ context.Context, _ int, in, out Row) error {
				for f := range fields {
					copy(out.Bytes(f), in.Bytes(f))
				}
				return nil
			})
		case "Cache":
			set, err = Cache(set, 1<<20)
		case "Concat":
			set, err = Concat(set)
		}
		if err != nil {
			rt.Fatal(err)
		}
		l, err := New(set, Config{BatchSize: rapid.IntRange(1, 9).Draw(rt, "batch"), Workers: rapid.IntRange(1, 3).Draw(rt, "workers"), Shuffle: true, SingleEpoch: true, Pin: e})
		if err != nil {
			rt.Fatal(err)
		}
		defer l.Close()
		for range 2 {
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					rt.Fatal(err)
				}
				for f := range fields {
					raw := b.Host(f).Raw
					size := len(raw) / b.Len()
					for k, i := range b.Indices {
						want := make([]byte, size)
						contents(i, f, want)
						if string(raw[k*size:(k+1)*size]) != string(want) {
							rt.Fatalf("sample %d, field %d: %v, want %v", i, f, raw[k*size:(k+1)*size], want)
						}
					}
				}
			}
		}
	})
}
