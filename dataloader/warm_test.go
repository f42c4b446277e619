package dataloader

// This file tests batches whose samples are looked up before there is memory for them.

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"gorgonia.org/tensor"
)

// One worker looks large batches up before it has memory for them: they are the same as those of several, also when there
// come to be several in the middle of an epoch.
func TestBatchesThatAreLookedUpEarly(t *testing.T) {
	e := newEngine(t)
	const samples, size, row = 45, 4, 64 << 10
	ds := FromFunc(samples, []Field{{Dtype: tensor.Uint8, Shape: tensor.Shape{row}}}, func(_ context.Context, i int, r Row) error {
		r.Bytes(0)[0], r.Bytes(0)[row-1] = byte(i), byte(i)
		return nil
	})
	for _, cfg := range []Config{
		{}, {Shuffle: true, Seed: 3}, {Shuffle: true, LastBatch: DropLast}, {LastBatch: PadLast, Rank: 1, WorldSize: 2}, {Shuffle: true, Unordered: true},
	} {
		cfg.BatchSize, cfg.Pin = size, e
		var orders [3][]string
		for k, workers := range []int{3, 1, 1} {
			cfg.Workers = workers
			l := newLoader(t, ds, cfg)
			if k == 2 { // as the tuner does
				l.cfg.Workers, l.workers = 0, 3
			}
			for range 3 {
				for b, err := range l.Batches(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					for j, i := range b.Indices {
						if raw := b.Host(0).Uint8s()[j*row : (j+1)*row]; raw[0] != byte(i) || raw[row-1] != byte(i) {
							t.Fatalf("%+v: batch %d has sample %d where %d is said", cfg, b.Index, raw[0], i)
						}
					}
					orders[k] = append(orders[k], fmt.Sprint(b.Epoch, b.Index, b.Indices))
					if k == 2 && b.Index%3 == 1 {
						l.run.setCrew(3 - 2*(b.Index/3%2))
					}
				}
			}
			if !l.keepsWarm {
				t.Errorf("%+v: batches of %d bytes are not looked up early", cfg, size*row)
			}
			if cfg.Unordered {
				slices.Sort(orders[k])
			}
		}
		if !slices.Equal(orders[0], orders[1]) || !slices.Equal(orders[0], orders[2]) {
			t.Errorf("%+v: orders differ:\n%v\n%v\n%v", cfg, orders[0], orders[1], orders[2])
		}
	}
}
