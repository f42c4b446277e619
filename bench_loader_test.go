package pin_test

// Benchmarks of the loader: data of MNIST's size, beside a loop by hand, and to the device.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pintensor/pin/dataloader"
	"gorgonia.org/tensor"
)

// digits is a data set of MNIST's size and shape: bytes in memory, normalised to float32 when read.
type digits struct {
	pixels []uint8
	labels []int64
	value  [256]float32
}

func newDigits() *digits {
	const n = 60000
	d := &digits{pixels: make([]uint8, n*784), labels: make([]int64, n)}
	for i := range d.pixels {
		d.pixels[i] = uint8(i * 2654435761 >> 13)
	}
	for i := range d.labels {
		d.labels[i] = int64(i % 10)
	}
	for i := range d.value {
		d.value[i] = (float32(i)/255 - 0.1307) / 0.3081
	}
	return d
}

func (d *digits) Len() int { return len(d.labels) }

func (d *digits) Fields() []dataloader.Field {
	return []dataloader.Field{
		{Name: "image", Dtype: tensor.Float32, Shape: tensor.Shape{1, 28, 28}},
		{Name: "label", Dtype: tensor.Int64},
	}
}

func (d *digits) Read(_ context.Context, i int, row dataloader.Row) error {
	d.normalise(dataloader.Values[float32](row, 0), d.image(i))
	dataloader.Values[int64](row, 1)[0] = d.labels[i]
	return nil
}

func (d *digits) image(i int) []uint8 { return d.pixels[i*784 : (i+1)*784] }

// normalise is one function, not one for each place that calls it: how fast such a loop runs depends on where in memory its
// code lies, by up to a quarter.
//
//go:noinline
func (d *digits) normalise(dst []float32, src []uint8) {
	dst = dst[:len(src)]
	for k, p := range src {
		dst[k] = d.value[p]
	}
}

// wholeDigits are digits that say that Read leaves nothing of a row as it was, so that rows need not be zeroed before.
// Sets that have other fields must not inherit that, so digits do not say it.
type wholeDigits struct{ *digits }

func (wholeDigits) Overwrites() bool { return true }

// digitBatches are digits that are read a batch at a time.
type digitBatches struct{ wholeDigits }

func (d digitBatches) ReadBatch(_ context.Context, indices []int, rows dataloader.Rows) error {
	images, labels := dataloader.RowsValues[float32](rows, 0), dataloader.RowsValues[int64](rows, 1)
	for k, i := range indices {
		d.normalise(images[k*784:][:784], d.image(i))
		labels[k] = d.labels[i]
	}
	return nil
}

// mapped are digits that are normalised by a Map over their tensors.
func (d *digits) mapped() (dataloader.Dataset, error) {
	pixels := tensor.New(tensor.WithShape(len(d.labels), 784), tensor.WithBacking(d.pixels))
	set, err := dataloader.FromTensors(pixels, tensor.New(tensor.WithShape(len(d.labels)), tensor.WithBacking(d.labels)))
	if err != nil {
		return nil, err
	}
	mapped, err := dataloader.Map(set, d.Fields(), func(_ context.Context, _ int, in, out dataloader.Row) error {
		d.normalise(dataloader.Values[float32](out, 0), dataloader.Values[uint8](in, 0))
		dataloader.Values[int64](out, 1)[0] = dataloader.Values[int64](in, 1)[0]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return dataloader.Overwriting(mapped)
}

// gatherEpoch is what a loader does, by hand: it gathers batches of all digits in order, into one buffer.
func (d *digits) gatherEpoch(order []int, images []float32, labels []int64) {
	batch := len(labels)
	for at := 0; at < len(order); at += batch {
		for k, i := range order[at:min(at+batch, len(order))] {
			d.normalise(images[k*784:][:784], d.image(i))
			labels[k] = d.labels[i]
		}
	}
}

var batchSizes = []int{64, 256, 1024}

// BenchmarkGatherLoop is what the loader is up against on the host: one goroutine that gathers batches by hand, in an order
// that was made before.
func BenchmarkGatherLoop(b *testing.B) {
	data := newDigits()
	order := rand.New(rand.NewPCG(1, 2)).Perm(data.Len())
	for _, batch := range batchSizes {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			images, labels := make([]float32, batch*784), make([]int64, batch)
			for b.Loop() {
				data.gatherEpoch(order, images, labels)
			}
			b.ReportMetric(float64(b.N)*float64(data.Len())/b.Elapsed().Seconds(), "samples/s")
		})
	}
}

// BenchmarkBesideGather is an epoch of the Loader with one worker, and one by hand, in turn, so that what else the machine
// does hits both alike: x-gather is the time of the Loader over that of the loop by hand, the median of all such pairs.
// "read" is how the data set is written: with Read, with ReadBatch, or as a Map over tensors.
func BenchmarkBesideGather(b *testing.B) {
	data := newDigits()
	mapped, err := data.mapped()
	if err != nil {
		b.Fatal(err)
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(data.Len())
	for _, batch := range append([]int{16}, batchSizes...) {
		for _, set := range []struct {
			read string
			dataloader.Dataset
		}{{"sample", wholeDigits{data}}, {"batch", digitBatches{wholeDigits{data}}}, {"map", mapped}} {
			b.Run(fmt.Sprintf("batch=%d/read=%s", batch, set.read), func(b *testing.B) {
				l, err := dataloader.New(set.Dataset, dataloader.Config{BatchSize: batch, Workers: 1, Shuffle: true, SingleEpoch: true})
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				epoch := func() {
					for _, err := range l.Batches(b.Context()) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
				epoch() // takes memory
				images, labels := make([]float32, batch*784), make([]int64, batch)
				var ratios, rates []float64
				for b.Loop() {
					began := time.Now()
					data.gatherEpoch(order, images, labels)
					between := time.Now()
					epoch()
					byHand, loaded := between.Sub(began).Seconds(), time.Since(between).Seconds()
					ratios, rates = append(ratios, loaded/byHand), append(rates, float64(data.Len())/loaded)
				}
				b.ReportMetric(median(ratios), "x-gather")
				b.ReportMetric(median(rates), "samples/s")
			})
		}
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// BenchmarkLoader runs shuffled epochs over data of MNIST's size; "dest=device" copies each batch ahead of
// time.
func BenchmarkLoader(b *testing.B) {
	data := newDigits()
	dev := device(b)
	for _, batch := range batchSizes {
		for _, workers := range []int{0, 1, 2, 4, 8, 16} { // 0: as the loader finds best
			for _, dest := range []string{"host", "device"} {
				b.Run(fmt.Sprintf("batch=%d/dest=%s/workers=%d", batch, dest, workers), func(b *testing.B) {
					cfg := dataloader.Config{BatchSize: batch, Shuffle: true, Workers: workers}
					if dest == "device" {
						cfg.Stream = stream(b, dev)
					}
					benchmarkLoader(b, wholeDigits{data}, cfg)
				})
			}
		}
	}
}

func benchmarkLoader(b *testing.B, data dataloader.Dataset, cfg dataloader.Config) {
	l, err := dataloader.New(data, cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for began := time.Now(); ; { // memory, and a setting
		for range l.Batches(context.Background()) {
		}
		if cfg.Workers > 0 || time.Since(began) > time.Second {
			break
		}
	}
	samples := 0
	b.ReportAllocs()
	for b.Loop() {
		for batch, err := range l.Batches(context.Background()) {
			if err != nil {
				b.Fatal(err)
			}
			samples += batch.Len()
		}
		if cfg.Stream != nil {
			if err := cfg.Stream.Synchronize(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
}
