package dataloader

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/pintensor/pin/internal/leak"
)

// A Loader over a cache, with samples that come twice and workers that want the same ones at once.
func TestCacheReadsASampleOnce(t *testing.T) {
	e := newEngine(t)
	const n = 60
	for _, batched := range []bool{false, true} {
		for _, room := range []int{1, 17, n, 1000} {
			var reads atomic.Int64
			ds := failing(n, func(int) error { reads.Add(1); return nil })
			if batched {
				inner := ds
				ds = batchedFunc{ds, func(ctx context.Context, indices []int, rows Rows) error {
					for k, i := range indices {
						if err := inner.Read(ctx, i, rows.Row(k)); err != nil {
							return err
						}
					}
					return nil
				}}
			}
			c := must[*Cached](t)(Cache(ds, 4*n+int64(room)*32))
			draws := must[Sampler](t)(RandomWithReplacement(n, 10*n, 1))
			l := newLoader(t, c, Config{BatchSize: 8, Sampler: draws, Workers: 4, SingleEpoch: true, Pin: e})
			for range 3 {
				for b, err := range l.Batches(t.Context()) {
					if err == nil {
						err = verify(b, b.Len())
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			s := c.Stats()
			if want := int64(min(room, n)); s.Samples != want || s.Limit != want || s.Bytes != want*32 {
				t.Errorf("room for %d: %+v", room, s)
			}
			if s.Misses != reads.Load() || s.Hits+s.Misses < 3*10*n {
				t.Errorf("room for %d: %+v, %d reads", room, s, reads.Load())
			}
			before := reads.Load()
			rows := must[Rows](t)(MakeRows(c.Fields(), n))
			if err := c.ReadBatch(t.Context(), numbers(n), rows); err != nil {
				t.Fatal(err)
			}
			if got, want := reads.Load()-before, int64(n-min(room, n)); got != want {
				t.Errorf("room for %d: %d reads of %d samples when full, want %d", room, got, n, want)
			}
		}
	}
}

// An error is not remembered, and neither is the sample.
func TestCacheForgetsErrors(t *testing.T) {
	leak.Check(t)
	fails := true
	c := must[*Cached](t)(Cache(failing(3, func(i int) error { return map[bool]error{true: errors.New("busy")}[fails && i == 1] }), 1000))
	rows := must[Rows](t)(MakeRows(c.Fields(), 3))
	if err := c.ReadBatch(t.Context(), numbers(3), rows); err == nil {
		t.Fatal("no error")
	}
	fails = false
	rows = must[Rows](t)(MakeRows(c.Fields(), 3))
	for range 2 {
		if err := c.Read(t.Context(), 1, rows.Row(1)); err != nil || Values[int64](rows.Row(1), 1)[0] != 1 {
			t.Errorf("%v, %v", Values[int64](rows.Row(1), 1), err)
		}
	}
}
