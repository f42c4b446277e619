package dataloader

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
)

// load is a data set whose reads take a simulated time, and a loop whose body does.
type load struct {
	name string
	read func(i int, others int) time.Duration // with so many other reads at the same time
	body time.Duration
}

var loads = []load{
	{"cheap", func(int, int) time.Duration { return 20 * time.Microsecond }, 2 * time.Millisecond},
	{"waits for a network", func(int, int) time.Duration { return 20 * time.Millisecond }, 2 * time.Millisecond},
	{"uneven", func(i, _ int) time.Duration {
		if i%40 == 0 {
			return 150 * time.Millisecond
		}
		return time.Millisecond
	}, time.Millisecond},
	{"four cores", func(_, others int) time.Duration { // more readers than cores gain nothing
		return time.Duration(max(1, float64(others+1)/4) * float64(5*time.Millisecond))
	}, time.Millisecond},
	{"a disk with one head", func(_, others int) time.Duration { // more than two disturb each other
		return time.Duration(math.Pow(max(1, float64(others+1)/2), 1.5) * float64(2*time.Millisecond))
	}, time.Millisecond},
}

func (c load) set(n int) Dataset {
	var reading atomic.Int64
	return batchedFunc{counting(n), func(_ context.Context, indices []int, rows Rows) error {
		others := int(reading.Add(1)) - 1
		var took time.Duration
		for _, i := range indices {
			took += c.read(i, others)
		}
		time.Sleep(took) // once: a bubble's sleeps cost real time
		reading.Add(-1)
		for k, i := range indices {
			write(i, rows.Row(k))
		}
		return nil
	}}
}

// rate returns how many batches a second the load gives in the last of so many epochs.
func (c load) rate(t *testing.T, e *pintensor.Engine, cfg Config, epochs, last int) (rate float64, s Stats) {
	synctest.Test(t, func(t *testing.T) {
		cfg.BatchSize, cfg.Shuffle, cfg.Pin = 4, true, e
		l, err := New(c.set(800), cfg)
		if err != nil {
			t.Fatal(err)
		}
		var began time.Time
		for epoch := range epochs {
			if epoch == epochs-last {
				began = time.Now()
			}
			for _, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if l.run.spinners > 0 { // no time passes meanwhile, but for the test
					l.run.mu.Lock()
					l.run.spinners = 0
					l.run.mu.Unlock()
				}
				time.Sleep(c.body)
			}
		}
		rate, s = float64(last*l.Len())/time.Since(began).Seconds(), l.Stats()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return rate, s
}

// What is found is at most a tenth slower than the best of many fixed settings.
func TestTuningFindsTheBestSetting(t *testing.T) {
	leak.Check(t)
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // what the search begins with
	for _, c := range loads {
		best, at := 0.0, ""
		for _, workers := range []int{1, 2, 4, 8, 32} {
			for _, prefetch := range []int{2, 16, 128} {
				if rate, _ := c.rate(t, e, Config{Workers: workers, Prefetch: prefetch}, 3, 2); rate > best {
					best, at = rate, fmt.Sprintf("%d workers, %d batches ahead", workers, prefetch)
				}
			}
		}
		got, s := c.rate(t, e, Config{}, 40, 10)
		t.Logf("%s: %.0f batches/s with %d workers, %d ahead; best %.0f with %s", c.name, got, s.Workers, s.Prefetch, best, at)
		if got < 0.9*best {
			t.Errorf("%s: %.0f batches/s with %d workers and %d batches ahead, best %.0f with %s", c.name, got, s.Workers, s.Prefetch, best, at)
		}
		if s.PinnedBytes > s.PinnedLimit {
			t.Errorf("%s: %d bytes, more than the %d promised", c.name, s.PinnedBytes, s.PinnedLimit)
		}
	}
}

// Only what Config leaves open is changed.
func TestTuningLeavesWhatIsSet(t *testing.T) {
	leak.Check(t)
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	slow := loads[1]
	if _, s := slow.rate(t, e, Config{Workers: 2, Prefetch: 3}, 5, 1); s.Workers != 2 || s.Prefetch != 3 {
		t.Errorf("2 workers and 3 batches became %d and %d", s.Workers, s.Prefetch)
	}
	if _, s := slow.rate(t, e, Config{Workers: 2}, 5, 1); s.Workers != 2 {
		t.Errorf("2 workers became %d", s.Workers)
	}
	if _, s := slow.rate(t, e, Config{Prefetch: 40}, 20, 1); s.Workers < 16 || s.Prefetch != 40 {
		t.Errorf("%d workers, and 40 batches became %d", s.Workers, s.Prefetch)
	}
}

// The order is the same while the setting changes, in loops that are left, too.
func TestTuningKeepsTheOrder(t *testing.T) {
	e := newEngine(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	synctest.Test(t, func(t *testing.T) {
		ds := loads[1].set(400)
		cfg := Config{BatchSize: 4, Shuffle: true, Pin: e}
		auto := newLoader(t, ds, cfg)
		cfg.Workers, cfg.Prefetch = 1, 1
		fixed := newLoader(t, ds, cfg)
		for n := range 12 {
			var got, want []place
			for _, l := range []*Loader{auto, fixed} {
				for b, err := range l.Batches(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if err := verify(b, 4); err != nil {
						t.Fatal(err)
					}
					p := place{b.Epoch, b.Index, slices.Clone(b.Indices)}
					if l == auto {
						got = append(got, p)
					} else {
						want = append(want, p)
					}
					if n%4 == 3 && b.Index == 60 {
						break
					}
				}
			}
			if !slices.EqualFunc(got, want, samePlace) {
				t.Fatalf("loop %d: order differs", n)
			}
		}
		if s := auto.Stats(); s.Workers == fixed.Stats().Workers {
			t.Error("nothing was changed")
		}
	})
}

// An engine that has no memory for more batches costs no batch.
func TestTuningWithoutMemory(t *testing.T) {
	leak.Check(t)
	fields := []Field{{Dtype: tensor.Uint8, Shape: tensor.Shape{64 << 10}}}
	for _, batches := range []int64{5, 9, 30} { // that there is memory for
		e, err := pintensor.NewEngine(pintensor.WithLimit(batches * 64 << 10))
		if err != nil {
			t.Fatal(err)
		}
		ds := FromFunc(400, fields, func(_ context.Context, i int, row Row) error { return nil })
		l := newLoader(t, ds, Config{BatchSize: 1, Workers: 2, Pin: e})
		for range 3 {
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatalf("memory for %d batches: %v", batches, err)
				}
				if b.Index == 20 && !l.shallow.Load() {
					l.tuner.change(l.run, setting{2, 60})
					for began := time.Now(); !l.shallow.Load() && batches < 17 && time.Since(began) < 10*time.Second; {
						time.Sleep(time.Millisecond)
					}
				}
				if b.Index == 100 && b.Epoch == 1 {
					break
				}
			}
			if s := l.Stats(); s.Slots > batches {
				t.Errorf("%d slots, memory for %d: %+v", s.Slots, batches, s)
			}
			if l.shallow.Load() != (batches < 17) { // 8 for each worker, and one in the loop's hands
				t.Errorf("memory for %d batches: shallow = %v", batches, l.shallow.Load())
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
