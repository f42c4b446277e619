package dataloader

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"gorgonia.org/tensor"

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

// Samples of different sizes come out of memory as they went in, and take no more of it than they may.
func TestCacheOfUnevenSamples(t *testing.T) {
	e := newEngine(t)
	const n = 50
	fields := []Field{
		{Name: "word", Dtype: tensor.Int64, Shape: tensor.Shape{-1, 2}, Pad: &Padding{Value: int64(-1)}},
		{Name: "number", Dtype: tensor.Float32},
		{Name: "text", Dtype: tensor.Uint8, Shape: tensor.Shape{-1}, Pad: &Padding{}},
	}
	var reads atomic.Int64
	ds := FromFunc(n, fields, func(_ context.Context, i int, row Row) error {
		reads.Add(1)
		if i%7 > 0 { // else it has no elements
			word, err := Ragged[int64](row, 0, i%7, 2)
			if err != nil {
				return err
			}
			for k := range word {
				word[k] = int64(i*100 + k)
			}
		}
		text, err := Ragged[uint8](row, 2, i%3+1)
		if err != nil {
			return err
		}
		text[0] = uint8(i)
		Values[float32](row, 1)[0] = float32(i)
		row.SetMeta(i)
		return nil
	})
	bytes := int64(0)
	for i := range n {
		bytes += int64(2*8 + i%7*2*8 + 4 + 8 + i%3 + 1)
	}
	for _, room := range []int64{8*n + 33, 8*n + bytes/2, 8*n + bytes + 32*n, 1 << 20} {
		c := must[*Cached](t)(Cache(ds, room))
		l := newLoader(t, c, Config{BatchSize: 8, Shuffle: true, Workers: 4, Pin: e})
		for range 3 {
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				word, text := b.Host(0), b.Host(2)
				for k, i := range b.Indices {
					for j := range word.Shape()[1] * 2 {
						want := int64(i*100 + j)
						if j >= i%7*2 {
							want = -1
						}
						if got := word.Int64s()[k*word.Shape()[1]*2+j]; got != want {
							t.Fatalf("sample %d: element %d of its word is %d, want %d", i, j, got, want)
						}
					}
					if got := text.Uint8s()[k*text.Shape()[1]]; got != uint8(i) || b.Host(1).Float32s()[k] != float32(i) || b.Meta[k] != i {
						t.Fatalf("sample %d: text %d, number %v, meta %v", i, got, b.Host(1).Float32s()[k], b.Meta[k])
					}
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		s := c.Stats()
		if 8*n+s.Bytes+32*s.Samples > room || s.Limit != 0 || s.Misses != reads.Swap(0) {
			t.Errorf("room for %d: %+v", room, s)
		}
		if all := room >= 8*n+bytes+32*n; all && (s.Samples != n || s.Bytes != bytes) || !all && s.Samples == n {
			t.Errorf("room for %d, %d needed: %+v", room, 8*n+bytes+32*n, s)
		}
	}
	if _, err := Cache(ds, 8*n); err == nil {
		t.Error("no error for a cache that nothing fits into")
	}
}
