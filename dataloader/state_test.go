package dataloader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/pintensor/pin/pintensor"
)

// place is a batch as a sequence of epochs has it.
type place struct {
	epoch, index int
	samples      []int
}

func samePlace(a, b place) bool {
	return a.epoch == b.epoch && a.index == b.index && slices.Equal(a.samples, b.samples)
}

// follow returns the next n batches of l, over as many epochs as it takes.
func follow(t *testing.T, l *Loader, n int) []place {
	t.Helper()
	var got []place
	for len(got) < n {
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, place{b.Epoch, b.Index, slices.Clone(b.Indices)}); len(got) == n {
				break
			}
		}
	}
	return got
}

// throughJSON sends a State through JSON, as a checkpoint would.
func throughJSON(t testing.TB, s State) State {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back State
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

// A State taken in the body of any batch of three epochs continues with exactly the batches that followed,
// in a loader with other workers, and again from there.
func TestResumeAfterAnyBatch(t *testing.T) {
	e := newEngine(t)
	for name, cfg := range map[string]Config{
		"sequential": {BatchSize: 4},
		"shuffled":   {BatchSize: 4, Shuffle: true, Seed: 1<<63 + 1},
		"dropped":    {BatchSize: 4, Shuffle: true, LastBatch: DropLast},
		"ranked":     {BatchSize: 4, Shuffle: true, Rank: 1, WorldSize: 2},
		"batches":    {BatchSampler: growing{}},
		"weighted":   {BatchSize: 4, Sampler: weights(18, 1)},
	} {
		cfg.Pin = e
		cfg.Workers = 3
		l := newLoader(t, counting(18), cfg)
		total := 3*l.Len() + 1
		if cfg.BatchSampler != nil {
			total = 2 + 3 + 4 + 1
		}
		want := follow(t, newLoader(t, counting(18), cfg), total)
		states := []State{throughJSON(t, l.State())}
		for len(states) < total {
			for range l.Batches(t.Context()) {
				states = append(states, throughJSON(t, l.State()))
			}
			if after := throughJSON(t, l.State()); after.Epoch != states[len(states)-1].Epoch || after.Batch != 0 {
				t.Fatalf("%s: state at the end of an epoch: %+v", name, after)
			}
		}
		cfg.Workers, cfg.Prefetch = 1, 1
		again := newLoader(t, counting(18), cfg)
		for i := range total - 1 {
			if err := again.Restore(states[i]); err != nil {
				t.Fatal(err)
			}
			if again.State().Batch != states[i].Batch {
				t.Fatalf("%s: State after Restore differs", name)
			}
			got := follow(t, again, 1)
			second := again.State()
			if err := again.Restore(second); err != nil {
				t.Fatal(err)
			}
			got = append(got, follow(t, again, total-i-1)...)
			if !slices.EqualFunc(got, want[i:], samePlace) {
				t.Fatalf("%s: after batch %d: %v, want %v", name, i, got, want[i:])
			}
		}
	}
}

// growing is a BatchSampler with one batch more each epoch.
type growing struct{}

func (growing) Len(epoch int) int { return epoch + 2 }
func (growing) Batch(epoch, b int, dst []int) []int {
	for i := range b + 1 {
		dst = append(dst, (epoch+b+i)%18)
	}
	return dst
}

// An Unordered epoch resumes with exactly the batches that were not delivered yet.
func TestResumeUnordered(t *testing.T) {
	e := newEngine(t)
	rapid.Check(t, func(t *rapid.T) {
		slow := rapid.IntRange(0, 29).Draw(t, "slow sample")
		stopAt := rapid.IntRange(1, 9).Draw(t, "stop after")
		ds := failing(30, func(i int) error {
			if i == slow {
				time.Sleep(500 * time.Microsecond)
			}
			return nil
		})
		cfg := Config{BatchSize: 3, Workers: 3, Unordered: true, Pin: e}
		l, err := New(ds, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var got []int
		var s State
		for b, err := range l.Batches(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, b.Indices...); len(got) == stopAt*3 {
				s = l.State()
				break
			}
		}
		cfg.Unordered = rapid.Bool().Draw(t, "resume unordered")
		again, err := New(ds, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		text, _ := json.Marshal(s)
		var back State
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if err := again.Restore(back); err != nil {
			t.Fatal(err)
		}
		for b, err := range again.Batches(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b.Indices...)
		}
		slices.Sort(got)
		if !slices.Equal(got, upTo(30)) {
			t.Fatalf("stopped after %d batches, state %+v: samples %v", stopAt, s, got)
		}
		if next := again.State(); next.Epoch != 1 || next.Batch != 0 || len(next.Ahead) != 0 {
			t.Fatalf("state after the epoch: %+v", next)
		}
	})
}

func TestRestoreRefusesWhatDoesNotFit(t *testing.T) {
	e := newEngine(t)
	cfg := Config{BatchSize: 4, Shuffle: true, Seed: 5, Pin: e}
	l := newLoader(t, counting(20), cfg)
	follow(t, l, 2)
	good := l.State()
	for want, change := range map[string]func(*State){
		"State.Version = 0: want 1":                                           func(s *State) { *s = State{} },
		"State.Version = 2: want 1":                                           func(s *State) { s.Version = 2 },
		"State.Samples = 21: this loader has 20":                              func(s *State) { s.Samples = 21 },
		"State.Order = sequential: this loader has shuffled":                  func(s *State) { s.Order = "sequential" },
		"State.Seed = 6: this loader has 5":                                   func(s *State) { s.Seed = 6 },
		"State.BatchSize = 8: this loader has 4":                              func(s *State) { s.BatchSize = 8 },
		"State.LastBatch = DropLast: this loader has KeepLast":                func(s *State) { s.LastBatch = "DropLast" },
		"State.Rank = 0 of 0: this loader has 0 of 1":                         func(s *State) { s.WorldSize = 0 },
		"State.Rank = 2 of 2: this loader has 0 of 1":                         func(s *State) { s.Rank, s.WorldSize = 2, 2 },
		"State.Rank = -1 of 2: this loader has 0 of 1":                        func(s *State) { s.Rank, s.WorldSize = -1, 2 },
		"State.Data = \"x\": this loader has \"\"":                            func(s *State) { s.Data = "x" },
		"State.Fields = [x]: this loader has":                                 func(s *State) { s.Fields = []string{"x"} },
		"State.Epoch = -1: this loader has epochs 0 to ":                      func(s *State) { s.Epoch = -1 },
		fmt.Sprintf("State.Epoch = %d: this loader has epochs", math.MaxInt):  func(s *State) { s.Epoch = math.MaxInt },
		"State.Batch = 5: this loader has batches 0 to 4":                     func(s *State) { s.Batch = 5 },
		"State.Batch = -1: this loader has batches 0 to 4":                    func(s *State) { s.Batch = -1 },
		"State.Ahead = [2]: this loader has batches above 2, ascending, to 4": func(s *State) { s.Ahead = []int{2} },
		"State.Ahead = [4 3]: this loader has batches above 2":                func(s *State) { s.Ahead = []int{4, 3} },
	} {
		s := throughJSON(t, good)
		change(&s)
		err := l.Restore(s)
		if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if now := l.State(); now.Epoch != good.Epoch || now.Batch != good.Batch {
			t.Fatalf("a refused State moved the loader to %+v", now)
		}
	}
	both := good
	both.Seed, both.Samples = 0, 0
	if err := l.Restore(both); err == nil || !strings.Contains(err.Error(), "Seed") || !strings.Contains(err.Error(), "Samples") {
		t.Errorf("two differences: %v", err)
	}
}

// A type without a name has a text of its own, too.
func TestRestoreComparesUnnamedTypes(t *testing.T) {
	e := newEngine(t)
	of := func(dt reflect.Type) *Loader {
		read := func(context.Context, int, Row) error { return nil }
		return newLoader(t, FromFunc(4, []Field{{Dtype: tensor.Dtype{Type: dt}}}, read), Config{BatchSize: 2, Pin: e})
	}
	bytes, words := of(reflect.TypeFor[[4]uint8]()), of(reflect.TypeFor[[2]uint16]())
	if err := words.Restore(bytes.State()); !errors.Is(err, ErrState) {
		t.Errorf("a State of a set of [4]uint8 restored to one of [2]uint16: %v", err)
	}
	for b, err := range words.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := b.Host(0).Data().([][2]uint16); !ok || len(data) != 2 {
			t.Errorf("Host(0).Data() is %T", b.Host(0).Data())
		}
	}
}

func TestSetEpochAndRestore(t *testing.T) {
	e := newEngine(t)
	l := newLoader(t, counting(20), Config{BatchSize: 4, Pin: e})
	follow(t, l, 2)
	s := l.State()
	l.SetEpoch(7)
	if now := l.State(); now.Epoch != 7 || now.Batch != 0 {
		t.Errorf("State after SetEpoch(7): %+v", now)
	}
	if err := l.Restore(s); err != nil {
		t.Fatal(err)
	}
	if got := follow(t, l, 1)[0]; got.epoch != 0 || got.index != 2 {
		t.Errorf("after SetEpoch and Restore: %+v", got)
	}
	if got := follow(t, l, 1)[0]; got.epoch != 1 || got.index != 0 {
		t.Errorf("after a break of a restored epoch: %+v", got)
	}
}

// Epochs without batches pass, too.
func TestEmptySetAdvancesEpochs(t *testing.T) {
	l := newLoader(t, counting(0), Config{BatchSize: 4, LastBatch: PadLast, Shuffle: true})
	for want := range 3 {
		if s := l.State(); s.Epoch != want {
			t.Fatalf("epoch %d, want %d", s.Epoch, want)
		}
		if err := l.Restore(l.State()); err != nil {
			t.Fatal(err)
		}
		if got := epoch(t, l); len(got) != 0 {
			t.Fatalf("batches %v", got)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	e := newEngine(t)
	order, batches := fixedSampler{0}, fixedBatches{{0}}
	for want, cfg := range map[string]Config{
		"Config.BatchSize = 0: want > 0":                                                    {},
		"Config.BatchSize = -3: want > 0":                                                   {BatchSize: -3},
		"Config.Workers = -1: want 0 to 4096":                                               {BatchSize: 1, Workers: -1},
		"Config.Workers = 5000: want 0 to 4096":                                             {BatchSize: 1, Workers: 5000},
		"Config.Prefetch = 65537: want 0 to 65536":                                          {BatchSize: 1, Prefetch: 65537},
		"Config.Prefetch = -1: want 0 to 65536":                                             {BatchSize: 1, Prefetch: -1},
		"Config.Timeout = -1s: want >= 0":                                                   {BatchSize: 1, Timeout: -time.Second},
		"Config.LastBatch = 3: want KeepLast, DropLast or PadLast":                          {BatchSize: 1, LastBatch: 3},
		"Config.OnError = -1: want StopOnError or SkipErrors":                               {BatchSize: 1, OnError: -1},
		"Config.MaxSkipped = -0.1: want a share from 0 to 1":                                {BatchSize: 1, OnError: SkipErrors, MaxSkipped: -0.1},
		"Config.MaxSkipped = NaN: want a share from 0 to 1":                                 {BatchSize: 1, OnError: SkipErrors, MaxSkipped: math.NaN()},
		"Config.MaxSkipped = 0.5: want 0 unless OnError is SkipErrors":                      {BatchSize: 1, MaxSkipped: 0.5},
		"Config.WorldSize = -2: want >= 0":                                                  {BatchSize: 1, WorldSize: -2},
		"Config.Rank = 2: want 0 to 1 (WorldSize is 2)":                                     {BatchSize: 1, WorldSize: 2, Rank: 2},
		"Config.Rank = 1: want 0 to 0 (WorldSize is 0)":                                     {BatchSize: 1, Rank: 1},
		"Config.Rank = -1: want 0 to 0 (WorldSize is 0)":                                    {BatchSize: 1, Rank: -1},
		"Config.Shuffle = true: want false with a Sampler, which is the order":              {BatchSize: 1, Shuffle: true, Sampler: order},
		"Config.BatchSize = 2: want 0 with a BatchSampler, which makes the batches":         {BatchSize: 2, BatchSampler: batches},
		"Config.Shuffle = true: want false with a BatchSampler, which is the order":         {Shuffle: true, BatchSampler: batches},
		"Config.Sampler = dataloader.fixedSampler: want nil with a BatchSampler":            {Sampler: order, BatchSampler: batches},
		"Config.LastBatch = DropLast: want KeepLast with a BatchSampler":                    {LastBatch: DropLast, BatchSampler: batches},
		"Config.BatchSize = 4611686018427387904: a batch of samples of 32 bytes takes more": {BatchSize: 1 << 62, LastBatch: PadLast},
		"Config.Sampler: Len() = -1: want >= 0":                                             {BatchSize: 1, Sampler: negative{}},
	} {
		cfg.Pin = e
		if l, err := New(counting(3), cfg); err == nil || !strings.Contains(err.Error(), "dataloader: "+want) {
			t.Errorf("New = %v, %v, want error %q", l, err, want)
		}
	}
	// A batch larger than the data set needs no more memory than the data set.
	l := newLoader(t, counting(3), Config{BatchSize: 1 << 40, Pin: e})
	if got := epoch(t, l); len(got) != 1 || len(got[0]) != 3 {
		t.Errorf("batches %v", got)
	}
}

type negative struct{}

func (negative) Len() int           { return -1 }
func (negative) Index(_, _ int) int { return 0 }

// What Prefetch 0 stands for: two batches a worker, within a budget that knows how small memory comes at least.
func TestPrefetchByDefault(t *testing.T) {
	e := newEngine(t)
	of := func(bytes int) []Field {
		return []Field{{Dtype: tensor.Uint8, Shape: tensor.Shape{bytes}}, {Dtype: tensor.Uint8}}
	}
	for _, c := range []struct {
		bytes          int // of a sample
		workers, asked int
		want           int
	}{
		{100, 3, 0, 6},
		{100, 1, 0, 2},
		{100, 4096, 0, 256 << 20 / (32 << 10)},
		{8 << 20, 16, 0, 256 << 20 / (32<<20 + 256)},
		{1 << 30, 16, 0, 2},
		{1 << 30, 16, 7, 7},
	} {
		ds := FromFunc(10, of(c.bytes), func(context.Context, int, Row) error { return nil })
		l := newLoader(t, ds, Config{BatchSize: 4, Workers: c.workers, Prefetch: c.asked, Pin: e})
		if got := l.Stats().Prefetch; got != c.want {
			t.Errorf("samples of %d bytes, %d workers, Prefetch %d: %d batches, want %d", c.bytes, c.workers, c.asked, got, c.want)
		}
	}
}

func TestDatasetIsChecked(t *testing.T) {
	e := newEngine(t)
	read := func(context.Context, int, Row) error { return nil }
	one := func(f Field) []Field { return []Field{f} }
	f32 := tensor.Float32
	for want, ds := range map[string]Dataset{
		"New: ds is nil: want a Dataset":                               nil,
		"Dataset.Len() = -1: want >= 0":                                FromFunc(-1, countFields, read),
		"FromFunc: read is nil: want a function":                       FromFunc(1, countFields, nil),
		"Dataset.Fields(): no fields: want at least one":               FromFunc(1, nil, read),
		`field 0 ("x"): its Dtype is not set`:                          FromFunc(1, one(Field{Name: "x"}), read),
		`field 0 ("x"): its Dtype string: want a type of at least one`: FromFunc(1, one(Field{Name: "x", Dtype: tensor.String}), read),
		`field 0 ("x"): its Dtype *int: want a type of at least one`:   FromFunc(1, one(Field{Name: "x", Dtype: tensor.Dtype{Type: reflect.TypeFor[*int]()}}), read),
		`field 0 ("x"): its Shape (2, 0): want every dimension > 0`:    FromFunc(1, one(Field{Name: "x", Dtype: f32, Shape: tensor.Shape{2, 0}}), read),
		`field 0 ("x"): its Shape (-2): want every dimension > 0`:      FromFunc(1, one(Field{Name: "x", Dtype: f32, Shape: tensor.Shape{-2}}), read),
		"a sample takes more than":                                     FromFunc(1, one(Field{Name: "x", Dtype: f32, Shape: tensor.Shape{1 << 40, 1 << 40}}), read),
		`fields 0 and 1 are both named "x"`:                            FromFunc(1, []Field{{Name: "x", Dtype: f32}, {Name: "x", Dtype: f32}}, read),
	} {
		if l, err := New(ds, Config{BatchSize: 1, Pin: e}); err == nil || !strings.Contains(err.Error(), "dataloader: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, %v, want error %q", l, err, want)
		}
	}
}

func TestDefaultEngine(t *testing.T) {
	newEngine(t)
	before := pintensor.Default().Stats().Lent.Current
	l, err := New(counting(10), Config{BatchSize: 5})
	if err != nil {
		t.Fatal(err)
	}
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if !pintensor.Default().Owns(b.Host(0)) {
			t.Error("the batch is not in memory of the default engine")
		}
		if err := pintensor.Release(b.Host(0)); err == nil {
			t.Error("a batch's tensor could be released under the loader")
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if after := pintensor.Default().Stats().Lent.Current; after != before {
		t.Errorf("%d bytes lent, %d before", after, before)
	}
}
