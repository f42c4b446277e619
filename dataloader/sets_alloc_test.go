//go:build !race

package dataloader

// Under the race detector a sync.Pool forgets on purpose.

import (
	"context"
	"errors"
	"testing"

	"github.com/pintensor/pin/internal/leak"
)

// What sets of sets add to a read is no memory.
func TestSetsAllocateNothing(t *testing.T) {
	leak.Check(t)
	for _, tensors := range []bool{false, true} {
		ten := numbered(t, 10, 1, tensors)
		keep := func(_ context.Context, _ int, in, out Row) error { copy(out.Bytes(0), in.Bytes(0)); return nil }
		for _, set := range []Dataset{
			must[Dataset](t)(Subset(ten, numbers(10))), must[Dataset](t)(Concat(ten, ten)), must[Dataset](t)(Repeat(ten, 2)),
			must[Dataset](t)(Zip(ten, must[Dataset](t)(Rename(ten, "a", "b")))), must[*Cached](t)(Cache(ten, 1000)),
			must[Dataset](t)(Interleave(AllExhausted, nil, ten, ten)), must[[]Dataset](t)(RandomSplit(ten, 1, 10))[0],
			must[Dataset](t)(Map(ten, numberFields, keep)),
			must[Dataset](t)(MapInPlace(ten, func(context.Context, int, Row) error { return nil })),
		} {
			rows := must[Rows](t)(MakeRows(set.Fields(), 10))
			indices, ctx := numbers(10), context.Background()
			read := func() {
				err := set.(BatchReader).ReadBatch(ctx, indices, rows)
				if err = errors.Join(err, set.Read(ctx, 3, rows.Row(0))); err != nil {
					t.Fatal(err)
				}
			}
			read()
			if n := testing.AllocsPerRun(100, read); n > 0.5 {
				t.Errorf("%v: %v allocations for two reads", set, n)
			}
		}
	}
}
