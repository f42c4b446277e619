package dataloader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime/trace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
)

// Where the time goes, and what is said of it, for loops that wait for different things.
func TestStatsVerdict(t *testing.T) {
	e := newEngine(t)
	ms := time.Millisecond
	for name, c := range map[string]struct {
		read  func(i int) time.Duration
		body  time.Duration
		cfg   Config
		want  string
		check func(s Stats) bool
	}{
		"slow reads": {func(int) time.Duration { return 10 * ms }, ms, Config{Workers: 2},
			"reading is the limit; 2 workers, 4 batches ahead: more Workers, a ReadBatch, or a cheaper Read would help",
			func(s Stats) bool { return s.Busy == 100*10*ms && s.Idle < s.Looped/10 && s.Waited > s.Looped/2 }},
		"slow training": {func(int) time.Duration { return ms }, 10 * ms, Config{Workers: 2},
			"waiting 0% of it: data keeps up with training; 2 workers, 4 batches ahead",
			func(s Stats) bool { return s.Idle > s.Looped && s.Waited <= 2*ms }},
		"uneven reads": {func(i int) time.Duration {
			if i%25 == 0 {
				return 100 * ms
			}
			return 0
		}, 0, Config{Workers: 4, Prefetch: 8},
			"a few slow samples hold up the rest; 4 workers, 8 batches ahead: more Prefetch, or Unordered, would help",
			func(s Stats) bool { return s.Idle > s.Busy }},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := c.cfg
			cfg.BatchSize, cfg.Pin, cfg.SingleEpoch = 2, e, true
			ds := FromFunc(100, countFields, func(_ context.Context, i int, row Row) error {
				time.Sleep(c.read(i))
				write(i, row)
				return nil
			})
			l, err := New(ds, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if s := l.Stats().String(); !strings.HasPrefix(s, "no loop yet; up to ") {
				t.Errorf("%s: before: %s", name, s)
			}
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(c.body)
				if s := l.Stats(); b.Index == 20 && c.body > ms && s.Ready != 4 {
					t.Errorf("%s: %d batches ready", name, s.Ready)
				}
			}
			s := l.Stats()
			if !strings.Contains(s.String(), c.want) || !strings.HasPrefix(s.String(), "100 samples in ") {
				t.Errorf("%s: %v, want %q", name, s, c.want)
			}
			if !c.check(s) {
				t.Errorf("%s: %+v", name, s)
			}
			if s.Bytes != 100*32 || s.Rate() != 100/s.Looped.Seconds() {
				t.Errorf("%s: %d bytes, %v samples/s", name, s.Bytes, s.Rate())
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if after := l.Stats(); after.Busy != s.Busy || after.Looped != s.Looped || after.Idle != s.Idle {
				t.Errorf("%s: after Close %+v, before %+v", name, after, s)
			}
		})
	}
}

// What is said of times, whatever they are.
func TestVerdictOfTimes(t *testing.T) {
	leak.Check(t)
	for want, s := range map[string]Stats{
		"data keeps up with training":         {Looped: 100, Waited: 4, Busy: 100},
		"reading is the limit":                {Looped: 100, Waited: 50, Busy: 90, Copying: 5, Landing: 5, Idle: 10},
		"a few slow samples hold up the rest": {Looped: 100, Waited: 50, Busy: 60, Idle: 40},
		"issuing copies is the limit":         {Looped: 100, Waited: 50, Busy: 20, Copying: 60, Landing: 10},
		"copies to the device are the limit":  {Looped: 100, Waited: 50, Busy: 20, Copying: 10, Landing: 60},
		"no loop yet":                         {},
	} {
		if got := s.String(); !strings.Contains(got, want) {
			t.Errorf("%+v: %s, want %q", s, got, want)
		}
	}
}

// Workers that wait for a copy before they use its memory again say so.
func TestStatsOfCopies(t *testing.T) {
	e := newEngine(t)
	dev := openDriver(t, soft.New(soft.Config{Delay: func(op soft.Op) time.Duration {
		if op.Call == "CopyHtoD" {
			return time.Millisecond
		}
		return 0
	}}))
	l := newLoader(t, counting(40), Config{BatchSize: 2, Workers: 1, Prefetch: 1, Stream: newStream(t, dev), Pin: e})
	epoch(t, l)
	// 20 copies of a millisecond through the memory of two batches.
	if s := l.Stats(); s.Landing < 10*time.Millisecond || s.Copying <= 0 {
		t.Errorf("%+v", s)
	}
}

// Times are counted once, however loops follow each other.
func TestStatsOverLoops(t *testing.T) {
	e := newEngine(t)
	for _, single := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLoader(t, slowly(10), Config{BatchSize: 1, Workers: 1, Prefetch: 1, SingleEpoch: single, Pin: e})
			for range 3 {
				epoch(t, l)
				time.Sleep(time.Minute) // between loops
			}
			s := l.Stats()
			reads := 30 * time.Second
			if !single {
				reads += time.Second // ahead
			}
			if s.Busy != reads || s.Looped > 31*time.Second || s.Looped < 28*time.Second || s.Waited > s.Looped {
				t.Errorf("single %v: %+v", single, s)
			}
			for b := range l.Batches(t.Context()) {
				if b.Index == 3 {
					break
				}
			}
			if s := l.Stats(); s.Busy < 34*time.Second || s.Busy > 36*time.Second {
				t.Errorf("single %v: after a break %+v", single, s)
			}
		})
	}
}

func TestStatsInLogs(t *testing.T) {
	leak.Check(t)
	s := Stats{Batches: 2, Samples: 8, Bytes: 1234567, Skipped: 1, Retried: 2, Looped: 4 * time.Second, Waited: 2 * time.Second, Busy: time.Second, Workers: 1, Prefetch: 2, Stuck: 1}
	const want = "8 samples in 4s (2/s, 1.2 MB), waiting 50% of it: reading is the limit; 1 workers, 2 batches ahead: " +
		"more Workers, a ReadBatch, or a cheaper Read would help, 1 skipped, 2 retried, 1 loops stuck"
	if got := s.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (Stats{Samples: 8, Looped: 255478}).String(), "8 samples in 255µs ("; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q...", got, want)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("loader", "data", s)
	for _, want := range []string{`data.limit="reading is the limit"`, "data.samples=8", "data.wait_share=0.5", "data.looped_ns=4000000000", "data.stuck=1"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log %s: want %s", log.String(), want)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Stats
	if err := json.Unmarshal(text, &back); err != nil || back != s {
		t.Errorf("%s: %v", text, err)
	}
}

// Progress tells of each turn once, also of errors, of batches left out, after a break and a Restore.
func TestProgress(t *testing.T) {
	e := newEngine(t)
	ds := failing(12, func(i int) error {
		if i == 4 || i == 5 || i == 8 {
			return errBad
		}
		return nil
	})
	for _, policy := range []ErrorPolicy{StopOnError, SkipErrors} {
		var got []Progress
		l := newLoader(t, ds, Config{BatchSize: 2, OnError: policy, Pin: e, Progress: func(p Progress) { got = append(got, p) }})
		var s State
		for b, err := range l.Batches(t.Context()) {
			if err == nil && b.Index == 1 {
				s = l.State()
			}
		}
		want := []Progress{{0, 6, 1, 2}, {0, 6, 2, 2}, {0, 6, 3, 0}, {0, 6, 4, 2}, {0, 6, 5, 0}, {0, 6, 6, 2}}
		if policy == SkipErrors {
			want[4].Samples = 1
		}
		if err := l.Restore(s); err != nil {
			t.Fatal(err)
		}
		for b := range l.Batches(t.Context()) {
			if b != nil {
				break
			}
		}
		want = append(want, want[2], want[3])
		if len(got) != len(want) {
			t.Fatalf("%v: %v, want %v", policy, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%v: turn %d: %+v, want %+v", policy, i, got[i], want[i])
			}
		}
	}
}

// Reads, copies and waits are in the traces of the runtime and of the device.
func TestSpans(t *testing.T) {
	e := newEngine(t)
	var runtimeTrace, deviceTrace bytes.Buffer
	if err := trace.Start(&runtimeTrace); err != nil {
		t.Skip(err) // the test itself is traced
	}
	spans := asynccopy.NewTrace(&deviceTrace)
	dev, err := asynccopy.OpenDriver(drivertest.Checked(t, soft.New(soft.Config{})), 0, asynccopy.WithTrace(spans))
	if err != nil {
		t.Fatal(err)
	}
	ds := FromFunc(20, []Field{{Dtype: tensor.Int64}}, func(_ context.Context, i int, row Row) error {
		time.Sleep(time.Millisecond)
		if i == 7 {
			panic("in a span")
		}
		return nil
	})
	l := newLoader(t, ds, Config{BatchSize: 4, Stream: newStream(t, dev), Pin: e})
	func() {
		defer func() { recover() }()
		for range l.Batches(t.Context()) {
		}
	}()
	if err := errors.Join(l.Close(), dev.Close(), spans.Close()); err != nil {
		t.Fatal(err)
	}
	trace.Stop()
	for _, name := range []string{spanRead, spanCopy, spanWait} {
		if !strings.Contains(deviceTrace.String(), name) {
			t.Errorf("the device's trace has no %s", name)
		}
		if !bytes.Contains(runtimeTrace.Bytes(), []byte(name)) {
			t.Errorf("the runtime's trace has no %s", name)
		}
	}
}

// BenchmarkSpan is what spans cost where nobody looks.
func BenchmarkSpan(b *testing.B) {
	l := new(Loader)
	b.ReportAllocs()
	for b.Loop() {
		if l.spanned() {
			b.Fatal("traced")
		}
	}
}

func TestNobodyLooksForNothing(t *testing.T) {
	leak.Check(t)
	l := new(Loader)
	if n := testing.AllocsPerRun(100, func() { l.spanned() }); n != 0 || l.spanned() {
		t.Errorf("%v allocations, spanned %v", n, l.spanned())
	}
}
