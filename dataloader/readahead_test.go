package dataloader

// Reading the next epoch while this one is still consumed, and what must not follow from it.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
)

// slowly is the counting set, each sample of which takes a second.
func slowly(n int) Dataset {
	return FromFunc(n, countFields, func(_ context.Context, i int, row Row) error {
		time.Sleep(time.Second)
		write(i, row)
		return nil
	})
}

// firstWaits returns how long the first batch of each of three epochs takes, when the body takes as long as a
// batch.
func firstWaits(t *testing.T, l *Loader) []time.Duration {
	var waits []time.Duration
	for range 3 {
		began, first := time.Now(), true
		for _, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if first {
				waits, first = append(waits, time.Since(began)), false
			}
			time.Sleep(2 * time.Second)
		}
	}
	return waits
}

func TestNoPauseBetweenEpochs(t *testing.T) {
	e := newEngine(t)
	for _, unordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg := Config{BatchSize: 2, Workers: 2, Prefetch: 4, Unordered: unordered, Pin: e}
			l := newLoader(t, slowly(20), cfg)
			if waits := firstWaits(t, l); waits[0] == 0 || waits[1] != 0 || waits[2] != 0 {
				t.Errorf("first batches after %v: want a wait before the first alone", waits)
			}
			if s := l.Stats(); s.PinnedBytes > s.PinnedLimit {
				t.Errorf("%d bytes, more than the %d promised", s.PinnedBytes, s.PinnedLimit)
			}
			cfg.SingleEpoch = true
			if waits := firstWaits(t, newLoader(t, slowly(20), cfg)); waits[1] == 0 || waits[1] != waits[0] || waits[2] != waits[0] {
				t.Errorf("SingleEpoch: first batches after %v: want equal waits", waits)
			}
		})
	}
}

// How far workers read ahead: Prefetch batches, of the next epoch and no further one, and nobody is left when
// they have.
func TestReadAheadIsBounded(t *testing.T) {
	e := newEngine(t)
	for _, c := range []struct{ samples, prefetch, want int }{{8, 3, 3}, {2, 5, 2}, {1, 1, 1}, {0, 2, 0}} {
		for _, single := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var reads atomic.Int32
				ds := failing(c.samples, func(int) error { reads.Add(1); return nil })
				l := newLoader(t, ds, Config{BatchSize: 1, Workers: 2, Prefetch: c.prefetch, SingleEpoch: single, Pin: e})
				for want := range 3 {
					if got := epoch(t, l); len(got) != c.samples {
						t.Errorf("%+v: %v", c, got)
					}
					synctest.Wait()
					ahead := c.want
					if single {
						ahead = 0
					}
					if got := int(reads.Load()); got != (want+1)*c.samples+ahead {
						t.Errorf("%+v: %d reads after epoch %d, want %d and %d ahead", c, got, want, (want+1)*c.samples, ahead)
					}
					if r := l.standing; r != nil && r.live != 0 {
						t.Errorf("%+v: %d workers between loops", c, r.live)
					}
					if s := l.Stats(); s.PinnedBytes > s.PinnedLimit {
						t.Errorf("%+v: %d bytes, more than the %d promised", c, s.PinnedBytes, s.PinnedLimit)
					}
				}
			})
		}
	}
}

// Contexts that end between loops do not reach what was read ahead; one that ends in the last turn does, and
// costs no batch.
func TestContextsOfTwoLoops(t *testing.T) {
	e := newEngine(t)
	for _, when := range []string{"after", "in the last turn", "before the next"} {
		synctest.Test(t, func(t *testing.T) {
			ds := FromFunc(8, countFields, func(ctx context.Context, i int, row Row) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Second):
				}
				write(i, row)
				return nil
			})
			l := newLoader(t, ds, Config{BatchSize: 2, Workers: 2, Prefetch: 2, Pin: e})
			for want := range 4 {
				ctx, cancel := context.WithCancel(t.Context())
				turns := 0
				for b, err := range l.Batches(ctx) {
					if err != nil || b.Epoch != want {
						t.Fatalf("%s: epoch %d: %v, %v", when, want, b, err)
					}
					if turns++; turns == 4 && when == "in the last turn" {
						cancel()
					}
				}
				if turns != 4 {
					t.Errorf("%s: %d turns", when, turns)
				}
				if when == "after" {
					cancel()
				}
				synctest.Wait()
				cancel()
			}
		})
	}
}

// A run that read ahead and is not wanted ends: its readers are told, and Close need not wait for them.
func TestReadAheadIsDropped(t *testing.T) {
	e := newEngine(t)
	for _, how := range []string{"SetEpoch", "Restore", "Close"} {
		synctest.Test(t, func(t *testing.T) {
			var told atomic.Int32
			ds := FromFunc(4, countFields, func(ctx context.Context, i int, row Row) error {
				select {
				case <-ctx.Done():
					told.Add(1)
					return ctx.Err()
				case <-time.After(time.Second):
				}
				write(i, row)
				return nil
			})
			l := newLoader(t, ds, Config{BatchSize: 1, Workers: 2, Prefetch: 4, Pin: e})
			start := l.State()
			epoch(t, l)
			synctest.Wait() // for readers of the next epoch
			began, want := time.Now(), 5
			switch how {
			case "SetEpoch":
				l.SetEpoch(5)
			case "Restore":
				if err := l.Restore(start); err != nil {
					t.Fatal(err)
				}
				want = 0
			case "Close":
				if err := l.Close(); err != nil || told.Load() == 0 {
					t.Errorf("Close: %v, %d readers told", err, told.Load())
				}
				if time.Since(began) != 0 {
					t.Errorf("Close took %v", time.Since(began))
				}
				return
			}
			for b, err := range l.Batches(t.Context()) {
				if err != nil || b.Epoch != want {
					t.Errorf("%s: %v, %v, want epoch %d", how, b, err, want)
				}
			}
			if told.Load() == 0 {
				t.Errorf("%s: no reader was told", how)
			}
		})
	}
}

// A reader of the next epoch that hangs is reported by Close, and by a loop that waits for it, not by this one.
func TestStuckInTheNextEpoch(t *testing.T) {
	e := newEngine(t)
	for _, unordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var reads atomic.Int32 // of sample 0
			ds := failing(4, func(i int) error {
				if i == 0 && reads.Add(1) > 1 {
					time.Sleep(time.Hour)
				}
				return nil
			})
			l, err := New(ds, Config{BatchSize: 1, Workers: 2, Prefetch: 2, Unordered: unordered, Timeout: time.Second, Pin: e})
			if err != nil {
				t.Fatal(err)
			}
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatalf("in epoch 0: %v", err)
				}
				if b.Index >= 2 {
					time.Sleep(5 * time.Second) // the next epoch is being read
				}
			}
			var sample *SampleError
			for b, err := range l.Batches(t.Context()) {
				if err != nil && (!errors.Is(err, ErrTimeout) || !errors.As(err, &sample) || sample.Epoch != 1 || sample.Index != 0) {
					t.Errorf("in epoch 1: %v, %v", b, err)
				}
			}
			if sample == nil {
				t.Error("no error in epoch 1")
			}
			if err := l.Close(); !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "epoch 1, batch 0, sample 0") {
				t.Errorf("Close: %v", err)
			}
			time.Sleep(time.Hour)
		})
	}
}

// What goes wrong in the next epoch is reported there, also where only BatchSampler.Len knows how long it is.
func TestErrorsOfTheNextEpoch(t *testing.T) {
	e := newEngine(t)
	for name, length := range map[string]func(epoch int) int{
		"none": nil,
		"panic": func(epoch int) int {
			if epoch == 1 {
				panic("no length")
			}
			return 3
		},
		"exit": func(epoch int) int {
			if epoch == 1 {
				runtime.Goexit()
			}
			return 3
		},
		"empty": func(epoch int) int { return 3 * (1 - epoch) },
	} {
		cfg := Config{BatchSize: 1, Workers: 2, Pin: e}
		if length != nil {
			cfg.BatchSize, cfg.BatchSampler = 0, funcBatches{length, func(_, b int, dst []int) []int { return append(dst, b) }}
		}
		l := newLoader(t, counting(3), cfg)
		for range 3 {
			done := make(chan any)
			go func() {
				defer close(done)
				defer func() {
					if p := recover(); p != nil {
						done <- p
					}
				}()
				for b, err := range l.Batches(t.Context()) {
					if err != nil || verify(b, 1) != nil {
						t.Errorf("%s: %v, %v", name, b, err)
					}
				}
			}()
			at := l.State().Epoch
			if p := <-done; p != nil && (name != "panic" || p != "no length" || at != 1) {
				t.Errorf("%s: panic %v", name, p)
			}
		}
	}
	reads := atomic.Int32{}
	l := newLoader(t, failing(3, func(i int) error {
		if i == 1 && reads.Add(1) > 1 {
			return errBad
		}
		return nil
	}), Config{BatchSize: 1, Workers: 1, Pin: e})
	for want := range 2 {
		for b, err := range l.Batches(t.Context()) {
			var sample *SampleError
			if errors.As(err, &sample) != (want == 1 && b == nil) || sample != nil && (sample.Epoch != 1 || sample.Batch != 1 || sample.Index != 1) {
				t.Errorf("epoch %d: %v, %v", want, b, err)
			}
		}
	}
}

// What comes, whatever a program does between and in loops, is what comes without reading ahead.
func TestReadAheadChangesNothing(t *testing.T) {
	leak.Check(t)
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(rt, "samples")
		cfg := Config{
			BatchSize: rapid.IntRange(1, 4).Draw(rt, "batch"), Workers: rapid.IntRange(1, 3).Draw(rt, "workers"),
			Prefetch: rapid.IntRange(1, 4).Draw(rt, "prefetch"), Shuffle: rapid.Bool().Draw(rt, "shuffle"), Pin: e,
			WorldSize: rapid.IntRange(1, 2).Draw(rt, "world"),
		}
		type step struct{ kind, arg int }
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{rapid.IntRange(0, 5).Draw(t, "kind"), rapid.IntRange(0, 5).Draw(t, "arg")}
		}), 1, 8).Draw(rt, "steps")
		run := func(cfg Config) (trace []string) {
			l, err := New(counting(n), cfg)
			if err != nil {
				rt.Fatal(err)
			}
			defer l.Close()
			states := []State{l.State()}
			for _, s := range steps {
				switch s.kind {
				case 0:
					l.SetEpoch(s.arg)
				case 1:
					if err := l.Restore(states[s.arg%len(states)]); err != nil {
						rt.Fatal(err)
					}
				}
				turns := 0
				for b, err := range l.Batches(context.Background()) {
					if err == nil {
						err = verify(b, b.Len())
					}
					if err != nil {
						rt.Fatal(err)
					}
					trace = append(trace, fmt.Sprint(b.Epoch, b.Index, b.Indices))
					states = append(states, l.State())
					if s.kind == 2 && turns == s.arg {
						l.SetEpoch(s.arg)
					}
					if s.kind == 3 && turns == s.arg {
						break
					}
					turns++
				}
				at := l.State()
				trace = append(trace, fmt.Sprint("at ", at.Epoch, at.Batch, l.Len()))
			}
			return trace
		}
		got := run(cfg)
		cfg.SingleEpoch, cfg.Workers, cfg.Prefetch = true, 1, 1
		if want := run(cfg); !slices.Equal(got, want) {
			rt.Fatalf("reading ahead:\n%v\nnot:\n%v", got, want)
		}
	})
}

// A device that is closed while the next epoch is read ahead on it costs that alone: Close of the loader has nothing to
// report.
func TestReadAheadOnAClosedDevice(t *testing.T) {
	e := newEngine(t)
	for range 20 {
		dev := openDriver(t, soft.New(soft.Config{}))
		l, err := New(counting(40), Config{BatchSize: 2, Workers: 2, Stream: newStream(t, dev), Pin: e})
		if err != nil {
			t.Fatal(err)
		}
		epoch(t, l)
		closeDevice(t, dev)
		if err := l.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
}

// A Read between two loops that calls its own loader must not begin one that waits for itself.
func TestReadAheadThatCallsItsLoader(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		var l *Loader
		refused := 0
		ds := FromFunc(2, countFields, func(ctx context.Context, i int, row Row) error {
			for range l.Batches(ctx) {
				refused++
			}
			write(i, row)
			return nil
		})
		l = newLoader(t, ds, Config{BatchSize: 1, Workers: 1, Prefetch: 1, Pin: e})
		for range 3 {
			if got := epoch(t, l); len(got) != 2 {
				t.Errorf("batches %v", got)
			}
			synctest.Wait()
		}
		if refused != 7 {
			t.Errorf("%d loops were refused, want one a read: 7", refused)
		}
	})
}

// An epoch that is followed by none that has a number.
func TestReadAheadOfTheLastEpoch(t *testing.T) {
	l := newLoader(t, counting(3), Config{BatchSize: 1})
	l.SetEpoch(maxEpoch)
	for range 2 {
		if got := epoch(t, l); len(got) != 3 {
			t.Errorf("batches %v", got)
		}
	}
	if got := l.State().Epoch; got != maxEpoch+2 || maxEpoch != math.MaxInt/2 {
		t.Errorf("epoch %d", got)
	}
}
