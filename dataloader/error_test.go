package dataloader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
)

type diskError struct{ block int }

func (e *diskError) Error() string { return fmt.Sprintf("block %d is bad", e.block) }

// failing is the counting set, but that samples fails says so of fail.
func failing(n int, fail func(i int) error) Dataset {
	return FromFunc(n, countFields, func(_ context.Context, i int, row Row) error {
		write(i, row)
		return fail(i)
	})
}

// failingBatch is failing with a ReadBatch that fails if any of its samples does.
func failingBatch(n int, fail func(i int) error) Dataset {
	return batchedFunc{failing(n, fail), func(_ context.Context, indices []int, rows Rows) error {
		for k, i := range indices {
			write(i, rows.Row(k))
			if err := fail(i); err != nil {
				return err
			}
		}
		return nil
	}}
}

func TestErrorComesInItsBatchsPlace(t *testing.T) {
	e := newEngine(t)
	fail := func(i int) error {
		if i == 17 || i == 18 || i == 30 {
			return &diskError{i}
		}
		return nil
	}
	for _, workers := range []int{1, 2, 8} {
		for name, ds := range map[string]Dataset{"Read": failing(40, fail), "ReadBatch": failingBatch(40, fail)} {
			l := newLoader(t, ds, Config{BatchSize: 4, Workers: workers, Pin: e})
			for epoch := range 2 {
				turn := 0
				for b, err := range l.Batches(t.Context()) {
					if turn != 4 && turn != 7 {
						if err != nil {
							t.Fatalf("%s, batch %d: %v", name, turn, err)
						}
						if err := verify(b, 4); err != nil {
							t.Fatal(err)
						}
						if b.Index != turn {
							t.Fatalf("%s: batch %d came in turn %d", name, b.Index, turn)
						}
					} else {
						want := map[int]int{4: 17, 7: 30}[turn]
						var sample *SampleError
						var disk *diskError
						if b != nil || !errors.As(err, &sample) || !errors.As(err, &disk) {
							t.Fatalf("%s, batch %d: %v, %v", name, turn, b, err)
						}
						if sample.Epoch != epoch || sample.Batch != turn || sample.Index != want || disk.block != want {
							t.Fatalf("%s: %v, want epoch %d, batch %d, sample %d", name, err, epoch, turn, want)
						}
						if text := fmt.Sprintf("dataloader: epoch %d, batch %d, sample %d: block %d is bad", epoch, turn, want, want); err.Error() != text {
							t.Fatalf("text %q, want %q", err, text)
						}
					}
					turn++
				}
				if turn != 10 {
					t.Fatalf("%s: %d turns, want 10", name, turn)
				}
			}
		}
	}
}

func TestSkipErrors(t *testing.T) {
	e := newEngine(t)
	bad := func(i int) bool { return i%5 == 2 || i >= 20 && i < 24 }
	fail := func(i int) error {
		if bad(i) {
			return fmt.Errorf("sample %d: %w", i, fs.ErrNotExist)
		}
		return nil
	}
	for _, last := range []LastBatch{KeepLast, PadLast} {
		for _, workers := range []int{1, 5} {
			for name, ds := range map[string]Dataset{"Read": failing(30, fail), "ReadBatch": failingBatch(30, fail)} {
				l := newLoader(t, ds, Config{BatchSize: 4, Workers: workers, OnError: SkipErrors, LastBatch: last, Pin: e})
				var got, skipped []int
				for b, err := range l.Batches(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					rows := b.Len()
					if last == PadLast {
						rows = 4
					}
					if err := verify(b, rows); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					if b.Index == 5 {
						t.Fatalf("%s: batch 5, of which nothing is left, was delivered", name)
					}
					got = append(got, b.Indices...)
					for _, s := range b.Skipped {
						if !errors.Is(s, fs.ErrNotExist) || s.Batch != b.Index {
							t.Fatalf("%s: Skipped has %v in batch %d", name, s, b.Index)
						}
						skipped = append(skipped, s.Index)
					}
				}
				want := slices.DeleteFunc(upTo(30), bad)
				if !slices.Equal(got, want) {
					t.Errorf("%s, %v: samples %v, want %v", name, last, got, want)
				}
				if want := []int{2, 7, 12, 17, 27}; !slices.Equal(skipped, want) {
					t.Errorf("%s: skipped %v, want %v", name, skipped, want)
				}
				if s := l.Stats(); s.Skipped != 9 {
					t.Errorf("%s: Stats.Skipped = %d, want 9", name, s.Skipped)
				}
			}
		}
	}
}

// A ReadBatch that fails though each sample can be read is not passed over in silence.
func TestReadBatchThatFailsAlone(t *testing.T) {
	e := newEngine(t)
	broken := errors.New("broken")
	ds := batchedFunc{counting(8), func(context.Context, []int, Rows) error { return broken }}
	l := newLoader(t, ds, Config{BatchSize: 4, Workers: 1, Pin: e})
	for _, err := range l.Batches(t.Context()) {
		var sample *SampleError
		if !errors.Is(err, broken) || !errors.As(err, &sample) || sample.Index != -1 {
			t.Errorf("error %v", err)
		}
	}
	l = newLoader(t, ds, Config{BatchSize: 4, Workers: 1, OnError: SkipErrors, Pin: e})
	if got := flat(epoch(t, l)); !slices.Equal(got, upTo(8)) {
		t.Errorf("samples %v", got)
	}
	if s := l.Stats(); s.BatchReadErrors != 2 {
		t.Errorf("Stats.BatchReadErrors = %d, want 2", s.BatchReadErrors)
	}
}

func TestPanicReachesTheConsumer(t *testing.T) {
	e := newEngine(t)
	for _, workers := range []int{1, 4} {
		for name, value := range map[string]any{"error": &diskError{9}, "text": "boom"} {
			ds := failing(24, func(i int) error {
				if i == 9 {
					panic(value)
				}
				return nil
			})
			l := newLoader(t, ds, Config{BatchSize: 4, Workers: workers, OnError: SkipErrors, Pin: e})
			turns := 0
			func() {
				defer func() {
					p, ok := recover().(*PanicError)
					if !ok {
						t.Fatalf("%s: recovered %v, want a *PanicError", name, p)
					}
					if p.Batch != 2 || p.Index != 9 || p.Value != value || !strings.Contains(string(p.Stack), "error_test.go") {
						t.Errorf("%s: %v", name, p)
					}
					if text := p.Error(); !strings.Contains(text, "batch 2, sample 9: panic: ") || !strings.Contains(text, "error_test.go") {
						t.Errorf("%s: text %q", name, text)
					}
					if disk := (*diskError)(nil); errors.As(p, &disk) != (name == "error") {
						t.Errorf("%s: errors.As finds %v", name, disk)
					}
				}()
				for _, err := range l.Batches(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					turns++
				}
			}()
			if turns != 2 {
				t.Errorf("%s: %d turns before the panic, want 2", name, turns)
			}
			if s := l.State(); s.Batch != 3 {
				t.Errorf("%s: State.Batch = %d after the panic of batch 2", name, s.Batch)
			}
		}
	}
}

// What a data set does wrong besides panicking.
func TestMisuseInRead(t *testing.T) {
	e := newEngine(t)
	for name, read := range map[string]func(row Row){
		"dataloader: Values[float64]: field 0 is \"value\" float32 (2, 3)": func(row Row) { Values[float64](row, 0) },
		"dataloader: Row.Bytes(2): want a field from 0 to 1":               func(row Row) { row.Bytes(2) },
		"dataloader: Row.Bytes(-1): want a field from 0 to 1":              func(row Row) { Values[float64](row, -1) },
		"runtime.Goexit was called in a worker":                            func(Row) { runtime.Goexit() },
	} {
		for _, workers := range []int{1, 3} {
			ds := FromFunc(9, countFields, func(_ context.Context, i int, row Row) error { read(row); return nil })
			l := newLoader(t, ds, Config{BatchSize: 2, Workers: workers, Pin: e})
			func() {
				defer func() {
					p, ok := recover().(*PanicError)
					if !ok || fmt.Sprint(p.Value) != name || p.Index != 0 {
						t.Errorf("recovered %v, want %q at sample 0", p, name)
					}
				}()
				for range l.Batches(t.Context()) {
					t.Error("a turn")
				}
			}()
		}
	}
}

func TestSamplerOutOfRange(t *testing.T) {
	e := newEngine(t)
	for _, cfg := range []Config{
		{BatchSize: 2, Sampler: fixedSampler{0, 1, 2, 10, 4}},
		{BatchSampler: fixedBatches{{0, 1}, {2, -1}, {4}}},
	} {
		cfg.Pin, cfg.OnError = e, SkipErrors
		l := newLoader(t, counting(10), cfg)
		turns := 0
		for b, err := range l.Batches(t.Context()) {
			if turns == 1 {
				if err == nil || !strings.Contains(err.Error(), "batch 1: ") || !strings.Contains(err.Error(), "want 0 to 9") {
					t.Errorf("error %v", err)
				}
			} else if err != nil || b.Index != turns {
				t.Errorf("batch %d: %v", turns, err)
			}
			turns++
		}
		if turns != 3 {
			t.Errorf("%d turns, want 3", turns)
		}
	}
}

type fixedSampler []int

func (s fixedSampler) Len() int           { return len(s) }
func (s fixedSampler) Index(_, k int) int { return s[k] }

type fixedBatches [][]int

func (s fixedBatches) Len(int) int                   { return len(s) }
func (s fixedBatches) Batch(_, b int, _ []int) []int { return s[b] }

func TestSamplerPanics(t *testing.T) {
	e := newEngine(t)
	for _, cfg := range []Config{
		{BatchSize: 2, Sampler: panickingSampler{}},
		{BatchSampler: panickingBatches{}},
	} {
		cfg.Pin = e
		l := newLoader(t, counting(10), cfg)
		func() {
			defer func() {
				if p, ok := recover().(*PanicError); !ok || p.Index != -1 {
					t.Errorf("recovered %v", p)
				}
			}()
			for range l.Batches(t.Context()) {
			}
		}()
	}
}

type panickingSampler struct{}

func (panickingSampler) Len() int           { return 3 }
func (panickingSampler) Index(_, k int) int { panic("no such place") }

type panickingBatches struct{}

func (panickingBatches) Len(int) int                   { return 3 }
func (panickingBatches) Batch(_, b int, _ []int) []int { panic("no such batch") }

// What is no fault of a sample is not skipped, and nothing is read again for it: the loop has it in place of each batch.
func TestFatalErrorIsNotSkipped(t *testing.T) {
	e := newEngine(t)
	closed := errors.New("the decoder is closed")
	for name, read := range map[string]func(i int) error{
		"fatal":          func(int) error { return &FatalError{closed} },
		"wrapped":        func(i int) error { return fmt.Errorf("file %d: %w", i, &FatalError{closed}) },
		"for one sample": func(i int) error { return map[bool]error{true: &FatalError{closed}}[i%4 == 2] },
	} {
		each := FromFunc(12, countFields, func(_ context.Context, i int, row Row) error { write(i, row); return read(i) })
		for _, set := range []Dataset{each, batchHalves{each}} {
			l := newLoader(t, set, Config{BatchSize: 4, Workers: 2, OnError: SkipErrors, SingleEpoch: true, Pin: e})
			turns := 0
			for b, err := range l.Batches(t.Context()) {
				turns++
				var sample *SampleError
				if b != nil || !errors.Is(err, closed) || !errors.As(err, &sample) || sample.Batch != turns-1 {
					t.Errorf("%s, %T: turn %d: %v, %v", name, set, turns, b, err)
				}
			}
			if s := l.Stats(); turns != 3 || s.Skipped > 0 || s.Retried > 0 {
				t.Errorf("%s, %T: %d turns, %d skipped, %d tried again: want an error for each of 3 batches", name, set, turns, s.Skipped, s.Retried)
			}
		}
	}
	if text := (&FatalError{}).Error(); text == "" {
		t.Error("a FatalError without an Err says nothing")
	}
}
