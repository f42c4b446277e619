package dataloader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// faulty is a stream of n items where item 3 is an error, and reading item 6 is one.
func faulty(n int) Source[int] {
	src := streamOf(n)
	src.Open = func(context.Context, int, int) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for k := range n {
				var err error
				if k == 3 {
					err = errors.New("line is garbled")
				}
				if !yield(k, err) {
					return
				}
			}
		}
	}
	src.Read = func(_ context.Context, k int, row Row) error {
		write(k, row)
		return map[bool]error{true: errors.New("no picture")}[k == 6]
	}
	return src
}

func TestStreamErrorsComeInPlace(t *testing.T) {
	e := newEngine(t)
	set := must[Dataset](t)(FromStream(faulty(10)))
	l := newLoader(t, set, Config{BatchSize: 2, Workers: 3, Pin: e})
	var got []string
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, fmt.Sprint(b.Index, b.Indices))
	}
	want := []string{
		"0 [0 1]", "dataloader: epoch 0, batch 1, sample 3: line is garbled", "2 [4 5]",
		"dataloader: epoch 0, batch 3, sample 6: no picture", "4 [8 9]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	l = newLoader(t, set, Config{BatchSize: 2, OnError: SkipErrors, Pin: e})
	if got, want := epoch(t, l), [][]int{{0, 1}, {2}, {4, 5}, {7}, {8, 9}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v, want %v", got, want)
	}
	if s := l.Stats(); s.Skipped != 2 {
		t.Errorf("%+v", s)
	}
}

func TestStreamPanics(t *testing.T) {
	e := newEngine(t)
	broken := errors.New("broken")
	for name, open := range map[string]func() iter.Seq2[int, error]{
		"Open": func() iter.Seq2[int, error] { panic(broken) },
		"sequence": func() iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				if yield(1, nil) && yield(2, nil) {
					panic(broken)
				}
			}
		},
	} {
		src := streamOf(1)
		src.Open = func(context.Context, int, int) iter.Seq2[int, error] { return open() }
		l := newLoader(t, must[Dataset](t)(FromStream(src)), Config{BatchSize: 1, Workers: 2, Pin: e})
		func() {
			defer func() {
				p, ok := recover().(*PanicError)
				if !ok || !errors.Is(p, broken) || p.Index != -1 || !strings.Contains(string(p.Stack), "TestStreamPanics") {
					t.Errorf("%s: panic %v", name, p)
				}
			}()
			for _, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			t.Errorf("%s: no panic", name)
		}()
	}
	for want, open := range map[string]func() iter.Seq2[int, error]{
		"Source.Open returned nil": func() iter.Seq2[int, error] { return nil },
		"runtime.Goexit":           func() iter.Seq2[int, error] { runtime.Goexit(); return nil },
	} {
		src := streamOf(1)
		src.Open = func(context.Context, int, int) iter.Seq2[int, error] { return open() }
		l := newLoader(t, must[Dataset](t)(FromStream(src)), Config{BatchSize: 1, Pin: e})
		turns := 0
		for _, err := range l.Batches(t.Context()) {
			if turns++; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
		if turns != 1 {
			t.Errorf("%d turns, want one with an error %q", turns, want)
		}
	}
}

// Leaving a loop, at any batch, ends the goroutines that read the stream: also of one without an end.
func TestStreamIsLeft(t *testing.T) {
	e := newEngine(t)
	src := streamOf(1, 1, 1)
	ended := make(chan bool, 100)
	src.Interleave = 3
	src.Open = func(_ context.Context, _, shard int) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			defer func() { ended <- true }()
			for k := 0; yield(1000*shard+k%1000, nil); k++ {
			}
		}
	}
	for _, unordered := range []bool{false, true} {
		l := newLoader(t, must[Dataset](t)(FromStream(src)), Config{BatchSize: 4, Workers: 3, Unordered: unordered, Pin: e})
		for leave := range 5 {
			turns := 0
			for _, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if turns++; turns > leave {
					break
				}
			}
			if n := len(ended); n != 3 {
				t.Fatalf("%d of 3 readers have ended", n)
			}
			for range 3 {
				<-ended
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, err := range l.Batches(ctx) {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			cancel()
		}
		for _, err := range l.Batches(t.Context()) {
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for range 6 {
			<-ended
		}
	}
}

func TestStreamRefuses(t *testing.T) {
	e := newEngine(t)
	change := func(do func(s *Source[int])) error {
		src := streamOf(1, 1)
		do(&src)
		_, err := FromStream(src)
		return err
	}
	load := func(cfg Config, do func(s *Source[int])) error {
		src := streamOf(1, 1)
		do(&src)
		cfg.BatchSize, cfg.Pin = 1, e
		if cfg.BatchSampler != nil {
			cfg.BatchSize = 0
		}
		_, err := New(must[Dataset](t)(FromStream(src)), cfg)
		return err
	}
	none := func(*Source[int]) {}
	set := must[Dataset](t)(FromStream(streamOf(1)))
	_, inside := Concat(set)
	rows := must[Rows](t)(MakeRows(set.Fields(), 1))
	for want, err := range map[string]error{
		"FromStream: Source.Open = nil: want a function":                      change(func(s *Source[int]) { s.Open = nil }),
		"FromStream: Source.Read = nil: want a function":                      change(func(s *Source[int]) { s.Read = nil }),
		"FromStream: Source.Shards = -1: want >= 0":                           change(func(s *Source[int]) { s.Shards = -1 }),
		"FromStream: Source.Interleave = -1: want 0 to":                       change(func(s *Source[int]) { s.Interleave = -1 }),
		"FromStream: Source.Ahead = -1: want 0 to":                            change(func(s *Source[int]) { s.Ahead = -1 }),
		"FromStream: Source.ShuffleBuffer = -1: want >= 0":                    change(func(s *Source[int]) { s.ShuffleBuffer = -1 }),
		"Config.Sampler = dataloader.fixedSampler: want nil with a stream":    load(Config{Sampler: fixedSampler{}}, none),
		"Config.BatchSampler = dataloader.fixedBatches: want nil with a stre": load(Config{BatchSampler: fixedBatches{}}, none),
		"Config.WorldSize = 3: want at most 2, the shards":                    load(Config{WorldSize: 3}, func(s *Source[int]) { s.SplitByShard = true }),
		"Dataset.Fields(): no fields":                                         load(Config{}, func(s *Source[int]) { s.Fields = nil }),
		"Concat: set 0 is a stream":                                           inside,
		"only a Loader can read it":                                           set.Read(t.Context(), 0, rows.Row(0)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
