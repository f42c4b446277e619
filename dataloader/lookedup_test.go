package dataloader

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Samples that are looked up for several batches at a time are those of each batch, whichever are asked for.
func TestLookedUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Config{
			BatchSize: rapid.SampledFrom([]int{1, 3, 16, 100, lookUps, lookUps + 1, 5000}).Draw(rt, "batch"),
			LastBatch: rapid.SampledFrom([]LastBatch{KeepLast, DropLast, PadLast}).Draw(rt, "last"),
			WorldSize: rapid.IntRange(1, 3).Draw(rt, "world"), Shuffle: rapid.Bool().Draw(rt, "shuffle"),
		}
		cfg.Rank = rapid.IntRange(0, cfg.WorldSize-1).Draw(rt, "rank")
		l := newLoader(t, counting(rapid.SampledFrom([]int{1, 50, 2000, 6001}).Draw(rt, "samples")), cfg)
		p, batches := l.plan, l.plan.len(0)
		legs := []*leg{newLeg(position{epoch: 0}, batches, 0), newLeg(position{epoch: 1}, batches, batches)}
		var k lookedUp
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "order"), 0))
		ascending := rapid.Bool().Draw(rt, "ascending")
		for n := range 2 * batches {
			g, number := legs[n/batches], n%batches
			if !ascending {
				g, number = legs[r.IntN(2)], r.IntN(batches)
			}
			want := make([]int, p.size(number))
			p.fill(g.epoch, number, 0, want)
			if got := k.batch(p, g, number); !slices.Equal(got, want) {
				rt.Fatalf("epoch %d, batch %d of %d: %v, want %v", g.epoch, number, batches, got, want)
			}
		}
	})
}
