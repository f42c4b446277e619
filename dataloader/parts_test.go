package dataloader

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/leak"
)

// big is a set of samples so large that each is a part of its batch of its own.
func big(n int, read func(i int) error) Dataset {
	fields := []Field{{Name: "big", Dtype: tensor.Uint8, Shape: tensor.Shape{partBytes}}}
	return FromFunc(n, fields, func(_ context.Context, i int, row Row) error {
		row.Bytes(0)[i] = 1
		return read(i)
	})
}

// Of several samples that fail in different parts, the first row's error is the batch's, whoever is first in
// time.
func TestFirstRowsErrorWins(t *testing.T) {
	e := newEngine(t)
	for _, workers := range []int{1, 4} {
		second := make(chan bool)
		ds := big(4, func(i int) error {
			switch i {
			case 1:
				if workers > 1 {
					<-second
				}
			case 3:
				close(second)
			default:
				return nil
			}
			return fmt.Errorf("sample %d", i)
		})
		l := newLoader(t, ds, Config{BatchSize: 4, Workers: workers, Pin: e})
		for _, err := range l.Batches(t.Context()) {
			var sample *SampleError
			if !errors.As(err, &sample) || sample.Index != 1 {
				t.Errorf("%d workers: error %v, want sample 1's", workers, err)
			}
		}
	}
}

// Many workers on few batches, each slot passing through all of them: on one that is still being left it must
// not be filled anew.
func TestSharedSlotsUnderStress(t *testing.T) {
	e := newEngine(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	l := newLoader(t, counting(160), Config{BatchSize: 16, Workers: 16, Prefetch: 1, Shuffle: true, Pin: e})
	for range 100 {
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if err := verify(b, 16); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.pool {
		if s.active != 0 || s.pending != 0 {
			t.Errorf("a slot in the pool has %d workers and %d parts left", s.active, s.pending)
		}
	}
}

// More parts than the channel for them holds, and one worker: it does them all itself.
func TestManyPartsOneWorker(t *testing.T) {
	l := newLoader(t, big(20, func(int) error { return nil }), Config{BatchSize: 20, Workers: 1, Prefetch: 1})
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		data := b.Host(0).Data().([]byte)
		for i := range 20 {
			if data[i*partBytes+i] != 1 {
				t.Errorf("sample %d was not read", i)
			}
		}
	}
}

// A worker that exits in its first part leaves other parts to do.
func TestGoexitInTheOnlyWorker(t *testing.T) {
	l := newLoader(t, big(4, func(i int) error {
		if i == 0 {
			runtime.Goexit()
		}
		return nil
	}), Config{BatchSize: 4, Workers: 1})
	defer func() {
		if p, ok := recover().(*PanicError); !ok || p.Index != 0 || !errors.Is(p, errGoexit) {
			t.Errorf("recovered %v", p)
		}
	}()
	for range l.Batches(t.Context()) {
	}
}

// The timeout runs from the start of the read that hangs, not from when the loop began to wait.
func TestTimeoutStartsWithTheRead(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		ds := FromFunc(4, countFields, func(ctx context.Context, i int, row Row) error {
			time.Sleep(time.Second)
			if i == 3 {
				<-ctx.Done()
			}
			return nil
		})
		l, err := New(ds, Config{BatchSize: 4, Workers: 1, Timeout: 2 * time.Second, Pin: e})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, err := range l.Batches(t.Context()) {
			var sample *SampleError
			if !errors.Is(err, ErrTimeout) || !errors.As(err, &sample) || sample.Index != 3 {
				t.Errorf("error %v", err)
			}
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("took %v, want 3s of reading and the timeout of 2s", took)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Kept batches that come back all at once do not stay in memory.
func TestManyKeptBatchesComeBack(t *testing.T) {
	l := newLoader(t, counting(100), Config{BatchSize: 2, Workers: 2, Prefetch: 3, SingleEpoch: true})
	var kept []*Batch
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		b.Keep()
		kept = append(kept, b)
	}
	if s := l.Stats(); s.Slots != 0 || len(kept) != 50 {
		t.Errorf("%d slots besides %d kept", s.Slots, len(kept))
	}
	for _, b := range kept {
		if err := b.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if s := l.Stats(); s.Slots != 4 || s.PinnedBytes != 4*2*fieldAlign || s.PinnedLimit != s.PinnedBytes {
		t.Errorf("%d slots of %d bytes, at most %d, want 4", s.Slots, s.PinnedBytes, s.PinnedLimit)
	}
}

// A sampler that is not as long as the set, dealt to ranks.
func TestRanksOfASampler(t *testing.T) {
	e := newEngine(t)
	for rank, want := range [][]int{{9, 7, 1}, {8, 5, 9}} {
		l := newLoader(t, counting(20), Config{BatchSize: 1, Sampler: fixedSampler{9, 8, 7, 5, 1}, Rank: rank, WorldSize: 2, Pin: e})
		if got := flat(epoch(t, l)); !slices.Equal(got, want) {
			t.Errorf("rank %d: %v, want %v", rank, got, want)
		}
	}
}

// Whatever rounding does to the table, a sample of weight zero is never drawn, and shares are right.
func TestWeightedTable(t *testing.T) {
	leak.Check(t)
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1), rapid.Float64Range(0, 1e300)), 1, 50).Draw(t, "weights")
		drawn, err := Weighted(weights, 1, 0)
		if slices.Max(weights) == 0 {
			if err == nil {
				t.Fatal("no weight above zero, and no error")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		s, largest, sum := drawn.(*weighted), slices.Max(weights), 0.0
		share := make([]float64, len(weights))
		for i, w := range weights {
			sum += w / largest
			own := float64(s.columns[i].threshold) / (1 << 63) / 2
			share[i] += own
			share[s.columns[i].alias] += 1 - own
			if w == 0 && (s.columns[i].threshold > 0 || weights[s.columns[i].alias] == 0) {
				t.Fatalf("sample %d of weight 0 can be drawn", i)
			}
		}
		for i, w := range weights {
			if want := w / largest / sum * float64(len(weights)); share[i] < want-1e-9 || share[i] > want+1e-9 {
				t.Fatalf("sample %d has share %v of a column, want %v", i, share[i], want)
			}
		}
	})
}
