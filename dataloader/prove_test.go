package dataloader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"
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
