package dataloader

import (
	"context"
	"errors"
	"testing"

	"gorgonia.org/tensor"
)

func TestKeepAndRelease(t *testing.T) {
	l := newLoader(t, counting(60), Config{BatchSize: 3, Workers: 3, Prefetch: 2})
	var kept []*Batch
	for range 2 {
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if b.Index%2 == 0 {
				b.Keep()
				b.Keep()
				kept = append(kept, b)
			}
		}
	}
	for _, b := range kept {
		if err := verify(b, 3); err != nil {
			t.Errorf("kept batch: %v", err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, b := range kept {
		if err := verify(b, 3); err != nil {
			t.Errorf("kept batch after Close: %v", err)
		}
		if err := b.Release(); err != nil {
			t.Errorf("Release: %v", err)
		}
		if err := b.Release(); !errors.Is(err, ErrReleased) {
			t.Errorf("second Release: %v", err)
		}
	}
}

func TestKeptSlotsAreUsedAgain(t *testing.T) {
	l := newLoader(t, counting(300), Config{BatchSize: 3, Workers: 2, Prefetch: 2})
	for range 3 {
		var last *Batch
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			b.Keep()
			if last != nil {
				if err := last.Release(); err != nil {
					t.Fatal(err)
				}
			}
			if err := verify(b, 3); err != nil {
				t.Fatal(err)
			}
			last = b
		}
		last.Release()
	}
	if s := l.Stats(); s.Slots > 5 {
		t.Errorf("%d slots for 3 batches in memory and one kept", s.Slots)
	}
}

func TestReleaseWithinTheTurn(t *testing.T) {
	l := newLoader(t, counting(20), Config{BatchSize: 2, Prefetch: 1})
	turns := 0
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Release(); err != nil {
			t.Fatal(err)
		}
		if err := b.Release(); !errors.Is(err, ErrReleased) {
			t.Fatalf("second Release: %v", err)
		}
		turns++
	}
	if turns != 10 {
		t.Errorf("%d turns, want 10", turns)
	}
}

// A batch used after its turn must be loud, not another batch's data.
func TestExpiredBatchIsLoud(t *testing.T) {
	l := newLoader(t, counting(300), Config{BatchSize: 2, Prefetch: 2})
	var stale []*Batch
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		stale = append(stale, b)
		for _, old := range stale[:len(stale)-1] {
			mustPanic(t, "Host", func() { old.Host(0) })
		}
	}
	for _, b := range stale {
		mustPanic(t, "Host", func() { b.Host(0) })
		mustPanic(t, "Device", func() { b.Device(0) })
		mustPanic(t, "Keep", func() { b.Keep() })
		if err := b.Release(); !errors.Is(err, ErrReleased) {
			t.Fatalf("Release: %v", err)
		}
		if b.Indices != nil {
			t.Fatal("Indices of a batch that is over")
		}
	}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	f()
}

// A loop's body may change the shape and the contents of what it gets; the next batch must not notice.
func TestBodyMayChangeItsTensors(t *testing.T) {
	l := newLoader(t, counting(60), Config{BatchSize: 3, Prefetch: 1, Workers: 1})
	for range 2 {
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if err := verify(b, 3); err != nil {
				t.Fatal(err)
			}
			x := b.Host(0)
			switch b.Index % 4 {
			case 0:
				if err := x.Reshape(18); err != nil {
					t.Fatal(err)
				}
			case 1:
				if err := x.T(); err != nil {
					t.Fatal(err)
				}
			case 2:
				x.Memset(float32(-1))
			case 3:
				tensor.ReturnTensor(x)
			}
		}
	}
}

// Rows are zeroed, or a Read that sets one element of a one-hot row would find an older sample's.
func TestRowsAreZeroed(t *testing.T) {
	fields := []Field{{Name: "onehot", Dtype: tensor.Float64, Shape: tensor.Shape{10}}}
	for _, batched := range []bool{false, true} {
		ds := FromFunc(100, fields, func(_ context.Context, i int, row Row) error {
			Values[float64](row, 0)[i%10] = 1
			return nil
		})
		if batched {
			ds = batchedFunc{ds, func(_ context.Context, indices []int, rows Rows) error {
				for k, i := range indices {
					Values[float64](rows.Row(k), 0)[i%10] = 1
				}
				return nil
			}}
		}
		l := newLoader(t, ds, Config{BatchSize: 4, Prefetch: 1, Shuffle: true})
		for range 3 {
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				sum := 0.0
				for _, v := range b.Host(0).Data().([]float64) {
					sum += v
				}
				if sum != 4 {
					t.Fatalf("batch %d has %v ones, want 4", b.Index, sum)
				}
			}
		}
	}
}
