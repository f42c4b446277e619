package dataloader

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/pintensor"
)

func TestCancelEndsTheLoop(t *testing.T) {
	e := newEngine(t)
	cause := errors.New("enough")
	for _, workers := range []int{1, 4} {
		l := newLoader(t, counting(100), Config{BatchSize: 4, Workers: workers, Pin: e})
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		turns, failures := 0, 0
		for b, err := range l.Batches(ctx) {
			if err != nil {
				if b != nil || !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
					t.Errorf("%v, %v", b, err)
				}
				failures++
				continue
			}
			if turns++; turns == 3 {
				cancel(cause)
			}
		}
		if turns != 3 || failures != 1 {
			t.Errorf("%d turns and %d errors, want 3 and 1", turns, failures)
		}
		if s := l.State(); s.Epoch != 0 || s.Batch != 3 {
			t.Errorf("state after cancelling: epoch %d, batch %d", s.Epoch, s.Batch)
		}
		for range l.Batches(ctx) {
			failures++
		}
		if failures != 2 {
			t.Errorf("a loop with a cancelled context has %d turns, want one error", failures-1)
		}
		if got := len(epoch(t, l)); got != 25 || l.State().Epoch != 2 {
			t.Errorf("next epoch has %d batches, state %+v", got, l.State())
		}
	}
	var none context.Context
	l := newLoader(t, counting(3), Config{BatchSize: 1, Pin: e})
	for _, err := range l.Batches(none) {
		if err == nil || !strings.Contains(err.Error(), "ctx is nil") {
			t.Errorf("nil context: %v", err)
		}
	}
}

// A Read that waits for its context ends with it, and the consumer gets the context's error, not Read's.
func TestCancelReachesReaders(t *testing.T) {
	e := newEngine(t)
	started := make(chan bool, 100)
	ds := FromFunc(8, countFields, func(ctx context.Context, i int, row Row) error {
		started <- true
		<-ctx.Done()
		return errors.New("interrupted")
	})
	l := newLoader(t, ds, Config{BatchSize: 2, Workers: 3, Pin: e})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	turns := 0
	for _, err := range l.Batches(ctx) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		turns++
	}
	if turns != 1 {
		t.Errorf("%d turns, want 1", turns)
	}
}

func TestCloseEndsARunningLoop(t *testing.T) {
	e := newEngine(t)
	l := newLoader(t, counting(1000), Config{BatchSize: 1, Pin: e})
	var closed error
	turns, failures := 0, 0
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("error %v", err)
			}
			failures++
			continue
		}
		if turns++; turns == 5 {
			done := make(chan bool)
			go func() { closed = l.Close(); close(done) }()
			<-done
			if err := verify(b, 1); err != nil {
				t.Errorf("the batch in the body, after Close: %v", err)
			}
		}
	}
	if turns != 5 || failures != 1 || closed != nil {
		t.Errorf("%d turns, %d errors, Close: %v", turns, failures, closed)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	for _, err := range l.Batches(t.Context()) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("loop after Close: %v", err)
		}
	}
	if err := l.Restore(l.State()); !errors.Is(err, ErrClosed) {
		t.Errorf("Restore after Close: %v", err)
	}
}

// Close while the loop waits for a batch, whose reader ends with its context.
func TestCloseWakesAWaitingLoop(t *testing.T) {
	e := newEngine(t)
	started := make(chan bool, 1)
	ds := FromFunc(1, countFields, func(ctx context.Context, i int, row Row) error {
		started <- true
		<-ctx.Done()
		return ctx.Err()
	})
	l := newLoader(t, ds, Config{BatchSize: 1, Pin: e})
	go func() { <-started; l.Close() }()
	for _, err := range l.Batches(t.Context()) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("error %v", err)
		}
	}
}

// A Close just when a loop starts.
func TestCloseWhileALoopStarts(t *testing.T) {
	sampler := &closingBatches{}
	l := newLoader(t, counting(10), Config{BatchSampler: sampler})
	sampler.l = l
	turns := 0
	for _, err := range l.Batches(t.Context()) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("error %v", err)
		}
		turns++
	}
	if turns != 1 {
		t.Errorf("%d turns, want one error", turns)
	}
}

// closingBatches closes its loader when it is asked how many batches there are.
type closingBatches struct{ l *Loader }

func (c *closingBatches) Len(int) int { c.l.Close(); return 5 }

func (c *closingBatches) Batch(_, b int, dst []int) []int { return append(dst, b) }

// A second Close does not return before memory has been given back.
func TestCloseTwiceAtOnce(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var returned atomic.Int32
		l, err := New(stubborn(4, 2, release, &returned), Config{BatchSize: 4, Workers: 1, Timeout: 3 * time.Second, Pin: e})
		if err != nil {
			t.Fatal(err)
		}
		for range l.Batches(t.Context()) {
		}
		began := time.Now()
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- l.Close() }()
		}
		first := <-done
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("a Close took %v, want 3s", took)
		}
		if second := <-done; (first == nil) == (second == nil) {
			t.Errorf("Close: %v, and %v", first, second)
		}
		close(release)
		synctest.Wait()
	})
}

func TestPulledLoop(t *testing.T) {
	l := newLoader(t, counting(10), Config{BatchSize: 2})
	next, stop := iter.Pull2(l.Batches(t.Context()))
	for range 2 {
		if b, err, ok := next(); err != nil || !ok || verify(b, 2) != nil {
			t.Fatal(err, ok)
		}
	}
	stop()
	if got := len(epoch(t, l)); got != 5 {
		t.Errorf("%d batches after a loop that was stopped", got)
	}
}

// The body's own panic leaves the loader whole.
func TestPanicInTheBody(t *testing.T) {
	l := newLoader(t, counting(10), Config{BatchSize: 2})
	mustPanic(t, "the loop", func() {
		for range l.Batches(t.Context()) {
			panic("in the body")
		}
	})
	if got := flat(epoch(t, l)); len(got) != 10 {
		t.Errorf("samples %v", got)
	}
}

// stubborn is a set whose sample bad hangs, whatever its context says, until release is closed.
func stubborn(n, bad int, release chan struct{}, returned *atomic.Int32) Dataset {
	return FromFunc(n, countFields, func(_ context.Context, i int, row Row) error {
		if i == bad {
			<-release
			returned.Add(1)
		}
		write(i, row)
		return nil
	})
}

func TestTimeoutNamesTheSample(t *testing.T) {
	e := newEngine(t)
	for _, unordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			var returned atomic.Int32
			l, err := New(stubborn(100, 21, release, &returned), Config{BatchSize: 4, Workers: 3, Timeout: 2 * time.Second, Unordered: unordered, SingleEpoch: true, Pin: e})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			turns := 0
			var last error
			for b, err := range l.Batches(t.Context()) {
				if last = err; err == nil {
					if err := verify(b, 4); err != nil {
						t.Fatal(err)
					}
				}
				turns++
			}
			var sample *SampleError
			if !errors.Is(last, ErrTimeout) || !errors.As(last, &sample) || sample.Index != 21 || sample.Batch != 5 ||
				!strings.Contains(last.Error(), "2s") {
				t.Errorf("error %v", last)
			}
			want := 6
			if unordered {
				want = 25
			}
			if turns != want {
				t.Errorf("%d turns, want %d", turns, want)
			}
			if took := time.Since(began); took != 4*time.Second {
				t.Errorf("the loop took %v, want 2s and 2s for the reader to end", took)
			}
			if s := l.Stats(); s.Stuck != 1 {
				t.Errorf("Stats.Stuck = %d, want 1", s.Stuck)
			}
			began = time.Now()
			err = l.Close()
			if !errors.Is(err, ErrTimeout) || !errors.As(err, &sample) || sample.Index != 21 {
				t.Errorf("Close: %v", err)
			}
			if took := time.Since(began); took != 2*time.Second {
				t.Errorf("Close took %v", took)
			}
			if s := l.Stats(); s.Slots != 1 {
				t.Errorf("%d slots while a reader writes to one", s.Slots)
			}
			close(release)
			synctest.Wait()
			if returned.Load() != 1 {
				t.Error("the reader has not returned")
			}
			if s := l.Stats(); s.Slots != 0 || s.PinnedBytes != 0 {
				t.Errorf("%d slots of %d bytes after the reader returned", s.Slots, s.PinnedBytes)
			}
		})
	}
}

// A slow epoch of reads that each take less than the timeout has none.
func TestTimeoutIsOfOneRead(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		ds := FromFunc(20, countFields, func(_ context.Context, i int, row Row) error {
			time.Sleep(900 * time.Millisecond)
			write(i, row)
			return nil
		})
		l, err := New(ds, Config{BatchSize: 5, Workers: 2, Timeout: time.Second, Pin: e})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := flat(epoch(t, l)); len(got) != 20 {
				t.Errorf("samples %v", got)
			}
		}
		s := l.Stats()
		if s.Busy != 2*20*900*time.Millisecond {
			t.Errorf("Stats.Busy = %v", s.Busy)
		}
		if s.Looped != 18*time.Second || s.Waited != s.Looped {
			t.Errorf("Stats.Looped = %v, Waited = %v, want 18s each", s.Looped, s.Waited)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Breaking out of a loop with a reader that hangs comes back within the bound, the next loop works, and the
// reader's memory is neither used again before it returns nor lost when it does.
func TestBreakWithAStuckReader(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var returned, calls atomic.Int32
		hang := make(chan struct{}, 1)
		ds := FromFunc(40, countFields, func(_ context.Context, i int, row Row) error {
			if i == 5 && calls.Add(1) == 1 {
				hang <- struct{}{}
				<-release
				returned.Add(1)
			}
			write(i, row)
			return nil
		})
		l, err := New(ds, Config{BatchSize: 4, Workers: 2, Pin: e})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			<-hang
			break
		}
		if took := time.Since(began); took != defaultGrace {
			t.Errorf("break took %v, want %v", took, defaultGrace)
		}
		for range 3 {
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if err := verify(b, 4); err != nil {
					t.Fatal(err)
				}
			}
		}
		close(release)
		synctest.Wait()
		if s := l.Stats(); s.Stuck != 0 || returned.Load() != 1 {
			t.Errorf("Stats.Stuck = %d after the reader returned", s.Stuck)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// Memory that the engine does not have is an error in the batch's place.
func TestEngineLimit(t *testing.T) {
	newEngine(t)
	small, err := pintensor.NewEngine(pintensor.WithLimit(64 << 10))
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	l := newLoader(t, counting(8000), Config{BatchSize: 4000, Workers: 1, Pin: small})
	turns := 0
	for b, err := range l.Batches(t.Context()) {
		var batch *SampleError
		if b != nil || !errors.Is(err, pintensor.ErrLimit) || !errors.As(err, &batch) || batch.Index != -1 || batch.Batch != turns ||
			!strings.HasSuffix(err.Error(), "this loader has up to 3 batches of 128000 bytes in memory: a smaller Config.BatchSize or Config.Prefetch needs less") {
			t.Fatalf("batch %d: %v, %v", turns, b, err)
		}
		turns++
	}
	if turns != 2 {
		t.Errorf("%d turns, want 2", turns)
	}
}

// 100 epochs leave memory where it was.
func TestMemoryStaysSteady(t *testing.T) {
	e := newEngine(t)
	const prefetch = 8 // left open it grows where that may help, in any epoch
	l := newLoader(t, counting(300), Config{BatchSize: 7, Shuffle: true, Workers: 4, Prefetch: prefetch, Pin: e})
	measure := func() (heap, pinned int64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc), e.Stats().Lent.Current
	}
	for range 5 {
		epoch(t, l)
	}
	heap, pinned := measure()
	limit := pinned / l.Stats().Slots * (prefetch + 1) // a batch's memory is made when it is first needed, which may be late
	for range 100 {
		epoch(t, l)
	}
	heapAfter, pinnedAfter := measure()
	if pinned == 0 || pinnedAfter > limit || heapAfter > heap+64<<10 {
		t.Errorf("heap %d, then %d; pinned %d, then %d, of at most %d", heap, heapAfter, pinned, pinnedAfter, limit)
	}
}

// A batch may be released by another goroutine while its loop is left, and its memory is another run's at once.
func TestReleaseWhileTheLoopIsLeft(t *testing.T) {
	e := newEngine(t)
	rows := make([]float32, 160)
	for i := range rows {
		rows[i] = float32(i / 4)
	}
	set := must[Dataset](t)(FromTensors(tensor.New(tensor.WithShape(40, 4), tensor.WithBacking(rows))))
	l := newLoader(t, set, Config{BatchSize: 4, Workers: 2, Shuffle: true, Pin: e})
	var releasing sync.WaitGroup
	for n := range 3000 {
		turn := 0
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for k, i := range b.Indices {
				if got := b.Host(0).Float32s()[4*k]; got != float32(i) {
					t.Fatalf("loop %d: sample %d is %v", n, i, got)
				}
			}
			if turn++; turn%3 == 0 {
				releasing.Go(func() { _ = b.Release() }) // ErrReleased after the turn
			}
			if turn == 6 {
				break
			}
		}
	}
	releasing.Wait()
}

// What a slot is given back with happens in one step: a moment later it can be another run's.
func TestGivenBackInOneStep(t *testing.T) {
	l := newLoader(t, counting(1), Config{BatchSize: 1, Workers: 1})
	r := newRun(t.Context(), l, position{})
	for _, dead := range []bool{false, true} {
		s := r.adopt(false)
		s.held = true
		if dead {
			r.shut()
			r.collect()
		}
		if err := r.release(s, true); err != nil {
			t.Fatal(err)
		}
		if onStack := r.top.Load() == s; onStack == dead || s.held {
			t.Errorf("run over: %v: on the stack of those given back: %v, held: %v", dead, onStack, s.held)
		}
		r.top.Store(nil)
	}
}
