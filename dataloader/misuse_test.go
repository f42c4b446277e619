package dataloader

// What a loader survives of those who use it: orders without an end, samplers that change their mind, a
// Read that calls the loader, memory used after it was let go.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
)

// funcSampler and funcBatches are samplers made of functions.
type funcSampler struct {
	n     int
	index func(epoch, k int) int
}

func (s funcSampler) Len() int               { return s.n }
func (s funcSampler) Index(epoch, k int) int { return s.index(epoch, k) }

type funcBatches struct {
	length func(epoch int) int
	batch  func(epoch, b int, dst []int) []int
}

func (s funcBatches) Len(epoch int) int                   { return s.length(epoch) }
func (s funcBatches) Batch(epoch, b int, dst []int) []int { return s.batch(epoch, b, dst) }

// The largest int is how a sampler says that it has no end.
func TestOrdersWithoutEnd(t *testing.T) {
	e := newEngine(t)
	modulo := funcSampler{math.MaxInt, func(_, k int) int { return k % 10 }}
	endless := funcBatches{func(int) int { return math.MaxInt }, func(_, b int, dst []int) []int { return append(dst, b%10) }}
	for name, cfg := range map[string]Config{
		"sampler":           {BatchSize: 1, Sampler: modulo},
		"sampler, padded":   {BatchSize: 3, Sampler: modulo, LastBatch: PadLast},
		"sampler, a rank":   {BatchSize: 1, Sampler: modulo, Rank: 1, WorldSize: 3},
		"batches":           {BatchSampler: endless},
		"batches, a rank":   {BatchSampler: endless, Rank: 1, WorldSize: 3},
		"sampler, 3 a time": {BatchSize: 3, Sampler: modulo, Workers: 8, Unordered: true},
	} {
		cfg.Pin = e
		l := newLoader(t, counting(10), cfg)
		turns := 0
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := verify(b, b.Len()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if turns++; turns == 20 {
				break
			}
		}
		if turns != 20 {
			t.Errorf("%s: %d turns, want 20", name, turns)
		}
		if s := l.Stats(); s.PinnedLimit < 0 || cfg.BatchSampler == nil && s.PinnedBytes > s.PinnedLimit {
			t.Errorf("%s: Stats %+v", name, s)
		}
	}
}

// A BatchSampler whose Len is not pure, or panics, or which calls runtime.Goexit, ends a loop at most: the
// loader can be used again, and closed.
func TestBatchSamplersThatMisbehave(t *testing.T) {
	e := newEngine(t)
	one := func(_, _ int, dst []int) []int { return append(dst, 1) }
	for name, s := range map[string]funcBatches{
		"negative Len": {func(int) int { return -3 }, one},
		"Len shrinks": func() funcBatches {
			asked := 0
			var mu sync.Mutex
			return funcBatches{func(int) int { mu.Lock(); defer mu.Unlock(); asked++; return max(0, 6-asked) }, one}
		}(),
		"Len panics":  {func(int) int { panic("no length") }, one},
		"Len exits":   {func(int) int { runtime.Goexit(); return 0 }, one},
		"Batch exits": {func(int) int { return 4 }, func(_, _ int, dst []int) []int { runtime.Goexit(); return nil }},
		"all empty":   {func(int) int { return 4 }, func(_, _ int, dst []int) []int { return nil }},
	} {
		for _, world := range []int{1, 2} {
			l := newLoader(t, counting(10), Config{BatchSampler: s, Pin: e, Workers: 3, WorldSize: world})
			for range 2 {
				done := make(chan error, 1)
				go func() {
					defer close(done)
					defer func() {
						if p := recover(); p != nil && fmt.Sprint(p) != "no length" && !errors.Is(p.(error), errGoexit) {
							done <- fmt.Errorf("panic %v", p)
						}
					}()
					for b, err := range l.Batches(t.Context()) {
						if err == nil {
							err = verify(b, 1)
						}
						if err != nil {
							done <- err
							return
						}
					}
				}()
				if err := <-done; err != nil {
					t.Errorf("%s, %d ranks: %v", name, world, err)
				}
			}
			if l.run != nil || l.starting {
				t.Errorf("%s, %d ranks: a loop is still said to run", name, world)
			}
		}
	}
}

// Memory for one huge batch is given back once only small ones have come for a while.
func TestSlotsShrink(t *testing.T) {
	e := newEngine(t)
	sizes := funcBatches{func(int) int { return 200 }, func(epoch, b int, dst []int) []int {
		n := b % 3 // none, too
		if epoch == 0 && b%50 == 0 {
			n = 5000
		}
		for i := range n {
			dst = append(dst, (b+i)%10)
		}
		return dst
	}}
	l := newLoader(t, counting(10), Config{BatchSampler: sizes, Prefetch: 1, Workers: 1, Pin: e})
	row := int64(l.layout.total)
	small, _ := l.layout.blockBytes(2)
	for epoch := range 4 {
		for b, err := range l.Batches(t.Context()) {
			if err == nil {
				err = verify(b, b.Len())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := l.Stats().PinnedBytes; epoch == 0 && got < 5000*row || epoch > 1 && got > 2*int64(small) {
			t.Errorf("after epoch %d slots have %d bytes", epoch, got)
		}
	}
	if lent := e.Stats().Lent.Current; lent > 4*64<<10 {
		t.Errorf("the engine still lends %d bytes", lent)
	}
}

// A goroutine may end in the loop's body, as t.FailNow ends one.
func TestGoexitInTheBody(t *testing.T) {
	l := newLoader(t, counting(40), Config{BatchSize: 2, Workers: 3})
	for want := range 3 {
		var wg sync.WaitGroup
		wg.Go(func() {
			for b, err := range l.Batches(t.Context()) {
				if err != nil || b.Epoch != want {
					t.Errorf("epoch %d: %v", want, err)
				}
				if b.Index == want {
					runtime.Goexit()
				}
			}
		})
		wg.Wait()
	}
	if got := flat(epoch(t, l)); len(got) != 40 {
		t.Errorf("samples %v", got)
	}
}

// A Read that calls its own loader gets an answer: it must not wait for itself without end.
func TestReadThatCallsItsLoader(t *testing.T) {
	e := newEngine(t)
	for name, c := range map[string]struct {
		call func(ctx context.Context, l *Loader) error
		want error // of each batch; nil: none
		took time.Duration
	}{
		"Batches": {func(ctx context.Context, l *Loader) (err error) {
			for _, err = range l.Batches(ctx) {
				return err
			}
			return nil
		}, ErrRunning, 0},
		"Restore":  {func(_ context.Context, l *Loader) error { return l.Restore(l.State()) }, ErrRunning, 0},
		"SetEpoch": {func(_ context.Context, l *Loader) error { l.SetEpoch(3); return nil }, nil, 0},
		"Stats":    {func(_ context.Context, l *Loader) error { l.Stats(); l.Len(); return nil }, nil, 0},
		"Close":    {func(_ context.Context, l *Loader) error { return l.Close() }, ErrClosed, defaultGrace},
	} {
		synctest.Test(t, func(t *testing.T) {
			var l *Loader
			ds := FromFunc(6, countFields, func(ctx context.Context, i int, row Row) error {
				write(i, row)
				return c.call(ctx, l)
			})
			l, err := New(ds, Config{BatchSize: 2, Workers: 1, Pin: e})
			if err != nil {
				t.Fatal(err)
			}
			began, turns := time.Now(), 0
			for _, err := range l.Batches(t.Context()) {
				if !errors.Is(err, c.want) {
					t.Errorf("%s: %v, want %v", name, err, c.want)
				}
				turns++
			}
			if want := 3; turns != want && c.took == 0 {
				t.Errorf("%s: %d turns, want %d", name, turns, want)
			}
			if took := time.Since(began); took != c.took {
				t.Errorf("%s: the loop took %v, want %v", name, took, c.took)
			}
			if err := l.Close(); err != nil {
				t.Errorf("%s: Close: %v", name, err)
			}
		})
	}
}

// closesInLen is a BatchSampler that calls close when a loop asks it how many batches there are.
type closesInLen struct {
	fixedBatches
	close func()
}

func (s closesInLen) Len(epoch int) int {
	s.close()
	return s.fixedBatches.Len(epoch)
}

// Once Close has returned nothing is read, not even where a loop was about to begin.
func TestCloseWhileALoopBegins(t *testing.T) {
	for range 50 {
		var closed atomic.Bool
		ds := FromFunc(256, countFields, func(_ context.Context, i int, row Row) error {
			if closed.Load() {
				t.Errorf("sample %d was read after Close", i)
			}
			write(i, row)
			return nil
		})
		var l *Loader
		armed := false
		batches := closesInLen{make(fixedBatches, 256), func() {
			if !armed {
				return
			}
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			closed.Store(true)
		}}
		for i := range batches.fixedBatches {
			batches.fixedBatches[i] = []int{i}
		}
		l = newLoader(t, ds, Config{BatchSampler: batches, Workers: 64})
		armed = true
		turns := 0
		for _, err := range l.Batches(t.Context()) {
			if turns++; !errors.Is(err, ErrClosed) {
				t.Errorf("turn %d: %v, want ErrClosed", turns, err)
			}
		}
		if turns != 1 {
			t.Errorf("%d turns, want 1", turns)
		}
	}
}

// Loops whose readers were stuck are forgotten once those have returned: a loader may live for long.
func TestStuckLoopsAreForgotten(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		ds := FromFunc(10, countFields, func(_ context.Context, i int, row Row) error {
			if i == 4 {
				time.Sleep(time.Minute)
			}
			write(i, row)
			return nil
		})
		l, err := New(ds, Config{BatchSize: 1, Workers: 2, Prefetch: 9, Timeout: time.Second, Pin: e})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			for range l.Batches(t.Context()) {
			}
			if n := l.Stats().Stuck; n != 1 || len(l.leftover) != 1 {
				t.Errorf("%d loops stuck, %d remembered, want 1", n, len(l.leftover))
			}
			time.Sleep(time.Minute)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Indices of a batch that was released must not turn into another batch's.
func TestIndicesOfAReleasedBatch(t *testing.T) {
	l := newLoader(t, counting(40), Config{BatchSize: 4, Prefetch: 1})
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Index%2 == 0 {
			b.Keep()
		}
		if err := b.Release(); err != nil {
			t.Fatal(err)
		}
		if b.Indices != nil || b.Len() != 4 {
			t.Errorf("batch %d: Indices %v, Len() = %d after Release", b.Index, b.Indices, b.Len())
		}
	}
}

// A longer epoch allocates next to nothing more than a short one: only Batches, 64 at a time.
func TestNothingIsAllocatedPerBatch(t *testing.T) {
	e := newEngine(t)
	dev := openDriver(t, soft.New(soft.Config{}))
	perEpoch := func(batches int, stream *asynccopy.Stream) float64 {
		l := newLoader(t, counting(batches*4), Config{BatchSize: 4, Shuffle: true, Workers: 2, Prefetch: 4, Pin: e, Stream: stream})
		loop := func() {
			for _, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		loop()
		return testing.AllocsPerRun(5, loop)
	}
	if per := (perEpoch(1100, nil) - perEpoch(100, nil)) / 1000; per > 0.1 {
		t.Errorf("%.2f allocations a batch", per)
	}
	// On the software device the copy allocates an operation and its event.
	stream := newStream(t, dev)
	if per := (perEpoch(1100, stream) - perEpoch(100, stream)) / 1000; per > 6 {
		t.Errorf("%.2f allocations a batch on the device", per)
	}
}

// Loaders may share a stream; each gets its own batches.
func TestLoadersShareAStream(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *asynccopy.Device) {
		e := newEngine(t)
		load, read := newStream(t, dev), newStream(t, dev)
		var wg sync.WaitGroup
		for k := range 3 {
			l := newLoader(t, counting(60+k), Config{BatchSize: 7, Workers: 2, Shuffle: true, Seed: uint64(k), Stream: load, Pin: e})
			wg.Go(func() {
				for range 3 {
					for b, err := range l.Batches(t.Context()) {
						if err == nil {
							err = equalOnDevice(t.Context(), read, b)
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		wg.Wait()
	})
}

// equalOnDevice returns an error unless field 1 of b, read back from the device, is what Indices says.
func equalOnDevice(ctx context.Context, s *asynccopy.Stream, b *Batch) error {
	download, err := s.ToHost(b.Device(1), true)
	if err != nil {
		return err
	}
	back, err := download.Wait(ctx)
	if err != nil {
		return err
	}
	for k, value := range back.Data().([]int64) {
		if value != int64(b.Indices[k]) {
			return fmt.Errorf("batch %d: row %d is of sample %d, want %d", b.Index, k, value, b.Indices[k])
		}
	}
	return pintensor.Release(back)
}

// A device, a stream or an engine closed while a loop runs costs batches, not memory and not the program.
func TestClosedUnderARunningLoop(t *testing.T) {
	for _, what := range []string{"device", "stream"} {
		t.Run(what, func(t *testing.T) {
			e := newEngine(t)
			dev := openDriver(t, soft.New(soft.Config{}))
			stream := newStream(t, dev)
			l := newLoader(t, counting(400), Config{BatchSize: 4, Workers: 3, Prefetch: 2, Stream: stream, Pin: e})
			failed := 0
			for b, err := range l.Batches(t.Context()) {
				var batch *SampleError
				switch {
				case err != nil && (!errors.Is(err, asynccopy.ErrClosed) || !errors.As(err, &batch)):
					t.Fatalf("error %v, want ErrClosed of package asynccopy in the batch's place", err)
				case err != nil:
					failed++
				case b.Index == 5 && what == "device":
					closeDevice(t, dev)
				case b.Index == 5:
					if err := stream.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if failed < 100-6-3 || failed > 100-6 {
				t.Errorf("%d batches failed of the 94 after the %s was closed, of which at most 3 were made before", failed, what)
			}
		})
	}
}
