package dataloader

// This file tests copies that a loop's body makes itself, of tensors of its batch.

import (
	"context"
	"slices"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"gorgonia.org/tensor"
)

// What a body copies to a device without waiting is what was in the batch, also if the copy runs when the batch is
// long over: with and without a stream of the loader's own, in fields whose samples have one shape and in others.
func TestCopiesOfTheBodysOutliveTheTurn(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *asynccopy.Device) {
		e := newEngine(t)
		copies, own := newStream(t, dev), newStream(t, dev)
		fields := []Field{{Dtype: tensor.Int64, Shape: tensor.Shape{100}}, {Dtype: tensor.Int64, Shape: tensor.Shape{-1}, Pad: &Padding{}}}
		set := FromFunc(40, fields, func(_ context.Context, i int, row Row) error {
			for k := range Values[int64](row, 0) {
				Values[int64](row, 0)[k] = int64(i)
			}
			values, err := Ragged[int64](row, 1, 50)
			for k := range values {
				values[k] = int64(i)
			}
			return err
		})
		for _, stream := range []*asynccopy.Stream{nil, copies} {
			l := newLoader(t, set, Config{BatchSize: 2, Workers: 2, Prefetch: 2, Stream: stream, Pin: e})
			type pending struct {
				indices []int
				x       *asynccopy.Tensor
			}
			var all []pending
			for range 2 {
				for b, err := range l.Batches(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					for field := range fields {
						x, err := own.ToDevice(b.Host(field), true)
						if err != nil {
							t.Fatal(err)
						}
						all = append(all, pending{slices.Clone(b.Indices), x})
					}
				}
			}
			for _, p := range all {
				down, err := own.ToHost(p.x, false)
				if err != nil {
					t.Fatal(err)
				}
				host, err := down.Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for k, i := range p.indices {
					size := host.Shape()[1]
					if row := host.Int64s()[k*size : (k+1)*size]; slices.Min(row) != int64(i) || slices.Max(row) != int64(i) {
						t.Errorf("sample %d of batch %v: %d to %d", i, p.indices, slices.Min(row), slices.Max(row))
					}
				}
				if err := p.x.Release(); err != nil {
					t.Error(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
