package dataloader

// States of another number of ranks, and of samplers and sets that only their fingerprints tell apart.

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
)

// weights is a sampler of n draws from n samples of which number heavy is more likely.
func weights(n, heavy int) Sampler {
	w := make([]float64, n)
	for i := range w {
		w[i] = 1
	}
	w[heavy] = 5
	s, err := Weighted(w, n, 9)
	if err != nil {
		panic(err)
	}
	return s
}

// After any batch other ranks share what was left of the order, each place once, or Restore says why they can't.
func TestRestoreWithOtherRanks(t *testing.T) {
	e := newEngine(t)
	rapid.Check(t, func(t *rapid.T) {
		n, size := rapid.IntRange(1, 40).Draw(t, "samples"), rapid.IntRange(1, 4).Draw(t, "batch")
		before, after := rapid.IntRange(1, 4).Draw(t, "ranks before"), rapid.IntRange(1, 4).Draw(t, "after")
		last := LastBatch(rapid.IntRange(0, 2).Draw(t, "last"))
		batches := rapid.Bool().Draw(t, "BatchSampler")
		open := func(rank, world int) *Loader {
			cfg := Config{BatchSize: size, Shuffle: true, Seed: 4, LastBatch: last, Rank: rank, WorldSize: world, Pin: e, SingleEpoch: true}
			if batches {
				whole := make(fixedBatches, n)
				for i := range whole {
					whole[i] = []int{i, (i + 1) % n}
				}
				cfg.BatchSize, cfg.Shuffle, cfg.LastBatch, cfg.BatchSampler = 0, false, KeepLast, whole
			}
			l, err := New(counting(n), cfg)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		// read returns the batches of an epoch from where l is, at most so many.
		read := func(l *Loader, most int) (got [][]int) {
			for b, err := range l.Batches(context.Background()) {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, slices.Clone(b.Indices)); len(got) == most {
					break
				}
			}
			return got
		}
		first := open(before-1, before) // a State of any rank will do
		defer first.Close()
		read(first, rapid.IntRange(1, max(first.Len(), 1)).Draw(t, "batches before"))
		s := first.State()
		var rest [][][]int // by rank
		for rank := range after {
			l := open(rank, after)
			defer l.Close()
			err := l.Restore(s)
			fits := s.Batch*before%after == 0
			if before == after {
				fits = rank == before-1
			}
			if fits != (err == nil) || err != nil && !errors.Is(err, ErrState) {
				t.Fatalf("rank %d: %v", rank, err)
			}
			if err != nil {
				return
			}
			if at := l.State(); at.Epoch == s.Epoch {
				rest = append(rest, read(l, -1))
			}
		}
		whole := open(0, 1)
		defer whole.Close()
		whole.SetEpoch(s.Epoch)
		order := flat(read(whole, -1))
		if batches {
			size = 2
		}
		want := order[min(s.Batch*before*size, len(order)):]
		if len(rest) == 0 {
			if len(want) >= size*after {
				t.Fatalf("%d ranks, then %d: after batch %d nothing, want %v", before, after, s.Batch, want)
			}
			return
		}
		// Interleaved, the ranks' batches are what is left of the order, and then its start again, or less than a batch
		// for each rank is missing.
		var left []int
		for b := range rest[0] {
			for k := range rest[0][b] {
				for rank := range after {
					if batches && k == 0 {
						left = append(left, rest[rank][b]...)
					} else if !batches {
						left = append(left, rest[rank][b][k])
					}
				}
			}
		}
		common := min(len(left), len(want))
		if !slices.Equal(left[:common], want[:common]) || last != DropLast && len(left) < len(want) || len(left) <= len(want)-size*after {
			t.Fatalf("%d ranks, then %d, after batch %d: %v, want %v", before, after, s.Batch, left, want)
		}
	})
}

func TestRestoreWithOtherRanksSaysWhy(t *testing.T) {
	e := newEngine(t)
	of := func(rank, world int) *Loader {
		return newLoader(t, counting(64), Config{BatchSize: 2, Rank: rank, WorldSize: world, Pin: e})
	}
	two := of(1, 2)
	follow(t, two, 3)
	s := throughJSON(t, two.State())
	if err := of(0, 3).Restore(s); err != nil {
		t.Errorf("6 batches to 3 ranks: %v", err)
	}
	for want, change := range map[string]func(*State){
		"State of 2 ranks, this loader is one of 4: State.Batch = 3 makes 6 batches of all ranks together: want a multiple of 4": func(*State) {},
		"State.Ahead = [5]: want none":                                               func(s *State) { s.Ahead = []int{5} },
		"State.Batch = -2: want a batch":                                             func(s *State) { s.Batch = -2 },
		"State.Batch = 9223372036854775807: want a":                                  func(s *State) { s.Batch = math.MaxInt },
		"State.Batch = 40: want a batch of the epoch, which has 8 for each rank now": func(s *State) { s.Batch = 40 },
	} {
		bad := s
		change(&bad)
		if err := of(0, 4).Restore(bad); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := of(0, 2).Restore(s); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "State.Rank = 1 of 2: this loader has 0 of 2") {
		t.Errorf("another rank of as many: %v", err)
	}
}

// What Restore refuses because of fingerprints alone.
func TestRestoreComparesFingerprints(t *testing.T) {
	e := newEngine(t)
	const n = 18
	buckets := func(seed uint64, longest int) BatchSampler {
		lengths := make([]int, n)
		for i := range lengths {
			lengths[i] = i % longest
		}
		return must[BatchSampler](t)(Bucketed(lengths, Buckets{BatchSize: 3, Shuffle: true, Seed: seed}))
	}
	index := func(first int) []int { return append([]int{first}, numbers(n)[1:]...) }
	split := func(seed uint64) Dataset {
		return must[[]Dataset](t)(RandomSplit(counting(2*n), seed, n, n))[0]
	}
	all := counting(n)
	for name, pair := range map[string][2]struct {
		ds  Dataset
		cfg Config
	}{
		"weights":     {{all, Config{Sampler: weights(n, 1)}}, {all, Config{Sampler: weights(n, 2)}}},
		"indices":     {{all, Config{Sampler: must[Sampler](t)(FromIndices(index(3)))}}, {all, Config{Sampler: must[Sampler](t)(FromIndices(index(4)))}}},
		"subset":      {{all, Config{Sampler: must[Sampler](t)(SubsetRandom(index(3), 1))}}, {all, Config{Sampler: must[Sampler](t)(SubsetRandom(index(3), 2))}}},
		"random":      {{all, Config{Sampler: must[Sampler](t)(Random(n, 1))}}, {all, Config{Sampler: must[Sampler](t)(Random(n, 2))}}},
		"replacement": {{all, Config{Sampler: must[Sampler](t)(RandomWithReplacement(n, n, 1))}}, {all, Config{Sampler: must[Sampler](t)(RandomWithReplacement(n-1, n, 1))}}},
		"buckets":     {{all, Config{BatchSampler: buckets(1, 5)}}, {all, Config{BatchSampler: buckets(1, 6)}}},
		"bucket seed": {{all, Config{BatchSampler: buckets(1, 5)}}, {all, Config{BatchSampler: buckets(2, 5)}}},
		"set":         {{must[Dataset](t)(Subset(all, index(3))), Config{}}, {must[Dataset](t)(Subset(all, index(4))), Config{}}},
		"split":       {{split(1), Config{}}, {split(2), Config{}}},
		"own sampler": {{all, Config{Sampler: offset{n, 1}}}, {all, Config{Sampler: offset{n, 2}}}},
		"concat":      {{must[Dataset](t)(Concat(counting(n), counting(2))), Config{}}, {must[Dataset](t)(Concat(counting(2), counting(n))), Config{}}},
		"interleave":  {{must[Dataset](t)(Interleave(CycleUntilAllExhausted, []int{1, 1}, all, all)), Config{}}, {must[Dataset](t)(Interleave(CycleUntilAllExhausted, []int{1, 2}, all, all)), Config{}}},
		"part":        {{must[Dataset](t)(Concat(all, split(1))), Config{}}, {must[Dataset](t)(Concat(all, split(2))), Config{}}},
		"padding":     {{padded(n, 4), Config{}}, {padded(n, 8), Config{}}},
		"set of set":  {{must[Dataset](t)(Repeat(split(1), 2)), Config{}}, {must[Dataset](t)(Repeat(split(2), 2)), Config{}}},
	} {
		var loaders [2]*Loader
		for k, p := range pair {
			p.cfg.Pin = e
			if p.cfg.BatchSampler == nil {
				p.cfg.BatchSize = 3
			}
			loaders[k] = newLoader(t, p.ds, p.cfg)
		}
		follow(t, loaders[0], 2)
		s := throughJSON(t, loaders[0].State())
		if err := loaders[0].Restore(s); err != nil {
			t.Errorf("%s: its own State: %v", name, err)
		}
		if err := loaders[1].Restore(s); !errors.Is(err, ErrState) {
			t.Errorf("%s: another one's State: %v", name, err)
		}
	}
}

// offset is a Sampler that says nothing of itself.
type offset struct{ n, by int }

func (o offset) Len() int               { return o.n }
func (o offset) Index(epoch, k int) int { return (k + o.by) % o.n }

// padded is a set of words of different lengths.
func padded(n, multiple int) Dataset {
	fields := []Field{{Dtype: tensor.Uint8, Shape: tensor.Shape{-1}, Pad: &Padding{Multiple: multiple}}}
	return FromFunc(n, fields, func(_ context.Context, i int, row Row) error {
		_, err := Ragged[uint8](row, 0, i%3+1)
		return err
	})
}

// A fingerprint is the same in every process: a checkpoint has it.
func TestFingerprintsStay(t *testing.T) {
	leak.Check(t)
	for want, v := range map[string]any{
		" (seed 9, weights 62afe6e159e41aff)": weights(4, 2),
		"":                                    growing{},
	} {
		if got := fingerprint(v); got != want {
			t.Errorf("%T: %q, want %q", v, got, want)
		}
	}
}
