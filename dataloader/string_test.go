package dataloader

// What batches and loaders print as, and what a Loader that New did not make says.

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
)

func TestStrings(t *testing.T) {
	leak.Check(t)
	fields := []Field{{Name: "x", Dtype: tensor.Float32, Shape: tensor.Shape{2}}, {Name: "words", Dtype: tensor.Int64, Shape: tensor.Shape{-1}, Pad: &Padding{}}}
	set := FromFunc(5, fields, func(_ context.Context, i int, row Row) error {
		_, err := Ragged[int64](row, 1, i)
		return err
	})
	l := newLoader(t, set, Config{BatchSize: 3, Shuffle: true, SingleEpoch: true})
	var last *Batch
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n := b.Host(1).Shape()[1]
		if got, want := fmt.Sprint(b), fmt.Sprintf(`batch %d of epoch 0, %d samples: "x" float32 (%[2]d, 2), "words" int64 (%[2]d, %d)`, b.Index, b.Len(), n); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		last = b
	}
	for _, l := range []*Loader{nil, {}} {
		errs := []error{l.Close(), l.Restore(State{})}
		for _, err := range l.Batches(t.Context()) {
			errs = append(errs, err)
		}
		if len(errs) != 3 || l.String() != "no loader" {
			t.Errorf("%v: %v", l, errs)
		}
		for _, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "the Loader was not made by New") {
				t.Errorf("a Loader that New did not make: %v", err)
			}
		}
	}
	for got, want := range map[string]string{
		last.String(): "batch 1 of epoch 0, 2 samples, over",
		fmt.Sprint(l): "batches of 3 of FromFunc(5), shuffled",
		fmt.Sprint(newLoader(t, counting(4), Config{BatchSampler: fixedBatches{}})):               "batches of FromFunc(4), BatchSampler dataloader.fixedBatches",
		fmt.Sprint(newLoader(t, must[Dataset](t)(FromStream(streamOf(1))), Config{BatchSize: 2})): "batches of 2 of FromStream(int, 1 shards), shuffled: false",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
