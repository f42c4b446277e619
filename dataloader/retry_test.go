package dataloader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
)

var errBusy = errors.New("busy")

// flaky is a set whose sample bad says times times that it should be read again. It fails if a row is not as new.
func flaky(n, bad, times int, after time.Duration) Dataset {
	var mu sync.Mutex
	tries, first := make(map[int]int), make(map[int]uint64)
	return FromFunc(n, countFields, func(_ context.Context, i int, row Row) error {
		mu.Lock()
		defer mu.Unlock()
		tries[i]++
		word := row.Rand().Uint64()
		if tries[i] == 1 {
			first[i] = word
		}
		if word != first[i] {
			return errors.New("another Rand than the first time")
		}
		if Values[int64](row, 1)[0] != 0 {
			return errors.New("the row is not zeroed")
		}
		write(i, row)
		Values[int64](row, 1)[0] = int64(i) + 1
		if i == bad && tries[i] <= times {
			return fmt.Errorf("read %d: %w", tries[i], &RetryError{errBusy, after})
		}
		write(i, row)
		return nil
	})
}

func TestRetry(t *testing.T) {
	e := newEngine(t)
	ms := time.Millisecond
	for name, c := range map[string]struct {
		times    int
		after    time.Duration
		retries  int
		batched  bool
		min, max time.Duration // of the loop
		retried  int64
		fails    string // text of the error
	}{
		"once":              {1, 0, 0, false, 100 * ms, 150 * ms, 1, ""},
		"three times":       {3, 0, 0, false, 700 * ms, 1050 * ms, 3, ""},
		"too often":         {4, 0, 0, false, 700 * ms, 1050 * ms, 3, "dataloader: epoch 0, batch 1, sample 5: tried 4 times: read 4: busy"},
		"as long as told":   {1, 30 * time.Second, 0, false, 30 * time.Second, 30 * time.Second, 1, ""},
		"more than usually": {6, 0, 6, false, 6300 * ms, 9450 * ms, 6, ""},
		"never":             {1, 0, -1, false, 0, 0, 0, "dataloader: epoch 0, batch 1, sample 5: read 1: busy"},
		"whole batch":       {2, 0, 0, true, 300 * ms, 450 * ms, 2, ""},
		"whole, too often":  {8, 0, 0, true, 1400 * ms, 2100 * ms, 6, "dataloader: epoch 0, batch 1, sample 5: tried 4 times: read 8: busy"},
		"whole, then one":   {4, 0, 0, true, 700 * ms, 1050 * ms, 3, ""},
		"whole, then twice": {5, 0, 0, true, 800 * ms, 1200 * ms, 4, ""},
		"whole, never":      {1, 0, -1, true, 0, 0, 0, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			ds := flaky(12, 5, c.times, c.after)
			if c.batched {
				one := ds
				ds = batchedFunc{one, func(ctx context.Context, indices []int, rows Rows) error {
					for k, i := range indices {
						if err := one.Read(ctx, i, rows.Row(k)); err != nil {
							return err
						}
					}
					return nil
				}}
			}
			l := newLoader(t, ds, Config{BatchSize: 4, Workers: 2, Retries: c.retries, SingleEpoch: true, Timeout: 50 * ms, Pin: e})
			began, failed := time.Now(), false
			for b, err := range l.Batches(t.Context()) {
				if err == nil {
					err = verify(b, 4)
				}
				if err != nil {
					failed = true
					if err.Error() != c.fails || !errors.Is(err, errBusy) {
						t.Errorf("%s: %v, want %q", name, err, c.fails)
					}
				}
			}
			if failed != (c.fails != "") {
				t.Errorf("%s: failed = %v", name, failed)
			}
			if took := time.Since(began); took < c.min || took > c.max {
				t.Errorf("%s: took %v, want %v to %v", name, took, c.min, c.max)
			}
			if s := l.Stats(); s.Retried != c.retried || s.BatchReadErrors != 0 {
				t.Errorf("%s: %+v, want %d retries", name, s, c.retried)
			}
		})
	}
}

// Each sample of a batch is tried as often as Retries says, also where ReadBatch was called that often before it came to
// the sample.
func TestRetryEachOfABatch(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		const n = 12
		var mu sync.Mutex
		tries := make(map[int]int)
		read := func(_ context.Context, i int, row Row) error {
			mu.Lock()
			defer mu.Unlock()
			if tries[i]++; tries[i] == 1 {
				return &RetryError{Err: errBusy}
			}
			write(i, row)
			return nil
		}
		ds := batchedFunc{FromFunc(n, countFields, read), func(ctx context.Context, indices []int, rows Rows) error {
			for k, i := range indices {
				if err := read(ctx, i, rows.Row(k)); err != nil {
					return err
				}
			}
			return nil
		}}
		l := newLoader(t, ds, Config{BatchSize: 6, Workers: 1, OnError: SkipErrors, SingleEpoch: true, Pin: e})
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for _, skipped := range b.Skipped {
				t.Errorf("skipped, though it was tried %d times: %v", tries[skipped.Index], skipped)
			}
			if err := verify(b, 6); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestRetryErrorWithoutAnError(t *testing.T) {
	leak.Check(t)
	if got := (&SampleError{Err: &RetryError{}}).Error(); !strings.Contains(got, "a RetryError without an Err") {
		t.Error(got)
	}
}

// The end of a loop does not wait for a pause.
func TestRetryEndsWithTheLoop(t *testing.T) {
	e := newEngine(t)
	for _, how := range []string{"cancel", "close"} {
		synctest.Test(t, func(t *testing.T) {
			l := newLoader(t, flaky(4, 1, 100, time.Hour), Config{BatchSize: 2, Workers: 1, Pin: e})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Second, func() {
				if how == "cancel" {
					cancel()
				} else if err := l.Close(); err != nil {
					t.Error(err)
				}
			})
			want := map[string]error{"cancel": context.Canceled, "close": ErrClosed}[how]
			began := time.Now()
			for _, err := range l.Batches(ctx) {
				if !errors.Is(err, want) {
					t.Errorf("%s: %v", how, err)
				}
			}
			if took := time.Since(began); took != time.Second {
				t.Errorf("%s: took %v", how, took)
			}
		})
	}
}

// Pauses depend on the sample and the try alone, and spread.
func TestRetryPauses(t *testing.T) {
	newEngine(t)
	s := &slot{buffer: buffer{seed: 3, epoch: 1}}
	seen := make(map[time.Duration]bool)
	for index := range 50 {
		for n := 1; n < 30; n++ {
			low := min(firstPause<<min(n-1, 20), longestPause)
			p := s.pauseOf(n, index, 0)
			if p < low || p > low+low/2 || p != s.pauseOf(n, index, 0) {
				t.Fatalf("pause %d of sample %d: %v", n, index, p)
			}
			seen[p] = true
		}
	}
	if len(seen) < 49*29 {
		t.Errorf("%d different pauses of %d", len(seen), 50*29)
	}
}

// As many samples as the share may fail, and not one more.
func TestMaxSkipped(t *testing.T) {
	e := newEngine(t)
	for bad := 9; bad <= 12; bad++ {
		ds := failing(100, func(i int) error {
			if i%8 == 0 && i/8 < bad {
				return fmt.Errorf("sample %d: %w", i, errBad)
			}
			return nil
		})
		l := newLoader(t, ds, Config{BatchSize: 10, OnError: SkipErrors, MaxSkipped: 0.1, Pin: e})
		for want := range 2 {
			var last error
			samples, turns := 0, 0
			for b, err := range l.Batches(t.Context()) {
				if turns++; err == nil {
					samples += b.Len()
					if b.Epoch != want {
						t.Errorf("%d bad: epoch %d", bad, b.Epoch)
					}
				}
				last = err
			}
			var sample *SampleError
			switch {
			case bad <= 10 && (last != nil || samples != 100-bad):
				t.Errorf("%d bad: %d samples, error %v", bad, samples, last)
			case bad > 10 && (!errors.Is(last, ErrSkipped) || !errors.Is(last, errBad) || !errors.As(last, &sample) || sample.Index != 80+8*(bad-11) || turns != 9):
				t.Errorf("%d bad: %d turns, error %v", bad, turns, last)
			}
		}
	}
	// With no known length: of at least 10,000.
	endless := funcBatches{func(int) int { return 1 << 40 }, func(_, b int, dst []int) []int { return append(dst, b%7, 7) }}
	ds := FromFunc(8, []Field{{Dtype: tensor.Uint8}}, func(_ context.Context, i int, _ Row) error {
		if i == 7 {
			return errBad
		}
		return nil
	})
	l := newLoader(t, ds, Config{BatchSampler: endless, OnError: SkipErrors, MaxSkipped: 0.01, Pin: e})
	turns := 0
	for _, err := range l.Batches(t.Context()) {
		if turns++; err != nil && (!errors.Is(err, ErrSkipped) || turns != 101) {
			t.Errorf("turn %d: %v", turns, err)
		}
	}
	if turns != 101 {
		t.Errorf("%d turns, want 100 and an error", turns)
	}
}
