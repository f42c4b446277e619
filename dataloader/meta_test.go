package dataloader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"gorgonia.org/tensor"
)

// named writes samples with their name attached, but for every third.
func named(_ context.Context, i int, row Row) error {
	write(i, row)
	if i%3 != 2 {
		row.SetMeta(fmt.Sprint("sample ", i))
	}
	if i == 4 {
		return errors.New("bad")
	}
	return nil
}

// What is attached to a sample comes with it, however it is read, and whatever is left out of the batch.
func TestBatchMeta(t *testing.T) {
	e := newEngine(t)
	one := FromFunc(12, countFields, named)
	batched := batchedFunc{one, func(ctx context.Context, indices []int, rows Rows) error {
		for k, i := range indices {
			if slices.Contains(indices, 4) {
				rows.Row(k).SetMeta("of a ReadBatch that failed")
			}
			if err := named(ctx, i, rows.Row(k)); err != nil {
				return err
			}
		}
		return nil
	}}
	copied := must[Dataset](t)(Map(one, countFields, func(_ context.Context, i int, in, out Row) error {
		if in.Meta() != out.Meta() || (in.Meta() == nil) != (i%3 == 2) {
			return fmt.Errorf("attached: %v and %v", in.Meta(), out.Meta())
		}
		write(i, out)
		return nil
	}))
	for _, ds := range []Dataset{one, batched, must[Dataset](t)(Repeat(batched, 1)), copied,
		must[Dataset](t)(Zip(one, must[Dataset](t)(Rename(counting(12), "a", "b"))))} {
		for _, cfg := range []Config{{BatchSize: 5}, {BatchSize: 5, LastBatch: PadLast, Workers: 3}, {BatchSize: 3, Shuffle: true, Workers: 2}, {BatchSize: 12}} {
			cfg.OnError, cfg.Pin = SkipErrors, e
			l := newLoader(t, ds, cfg)
			count := 0
			var kept [][]any
			var indices [][]int
			for range 2 {
				for b, err := range l.Batches(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					kept, indices = append(kept, b.Meta), append(indices, slices.Clone(b.Indices))
				}
			}
			for j, meta := range kept {
				if meta == nil && slices.ContainsFunc(indices[j], func(i int) bool { return i%3 != 2 }) || meta != nil && len(meta) != len(indices[j]) {
					t.Fatalf("%v: %v attached to %v", ds, meta, indices[j])
				}
				for k, v := range meta {
					var want any
					if i := indices[j][k]; i%3 != 2 {
						want = fmt.Sprint("sample ", i)
						count++
					}
					if v != want {
						t.Errorf("%v, %+v: %v attached to sample %d, want %v", ds, cfg, v, indices[j][k], want)
					}
				}
			}
			if count != 14 {
				t.Errorf("%v: %d samples with something attached, want 14", ds, count)
			}
		}
	}
}

func TestCacheRemembersMeta(t *testing.T) {
	e := newEngine(t)
	c := must[*Cached](t)(Cache(FromFunc(4, []Field{{Dtype: tensor.Int64}}, func(_ context.Context, i int, row Row) error {
		if i != 1 {
			row.SetMeta(i * 10)
		}
		return nil
	}), 1000))
	l := newLoader(t, c, Config{BatchSize: 4, Pin: e})
	for range 3 {
		for b, err := range l.Batches(t.Context()) {
			if err != nil || !slices.Equal(b.Meta, []any{0, nil, 20, 30}) {
				t.Errorf("%v, %v", b.Meta, err)
			}
		}
	}
}
