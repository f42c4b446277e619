package dataloader

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/pintensor"
)

// mnist is a set in the shape of MNIST: normalised float32 images and a label.
func mnist() (images, labels *tensor.Dense) {
	const n = 60000
	pixels := make([]float32, n*784)
	for i := range pixels {
		pixels[i] = float32(i % 251)
	}
	digits := make([]int64, n)
	for i := range digits {
		digits[i] = int64(i % 10)
	}
	return tensor.New(tensor.WithShape(n, 28, 28), tensor.WithBacking(pixels)), tensor.New(tensor.WithShape(n), tensor.WithBacking(digits))
}

var batchSizes = []int{16, 64, 256, 1024}

// BenchmarkLoader delivers shuffled batches on the host; an operation is a batch. "mode=gather" is the loop
// that one would write by hand, in one goroutine, with an order made before.
func BenchmarkLoader(b *testing.B) {
	images, labels := mnist()
	set, err := FromTensors(images, labels)
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range batchSizes {
		b.Run(fmt.Sprintf("batch=%d/mode=gather", size), func(b *testing.B) {
			benchGather(b, images.Data().([]float32), labels.Data().([]int64), size)
		})
		for _, workers := range []int{0, 1, 2, 4, 8, 16} {
			if workers > 2*runtime.GOMAXPROCS(0) {
				continue
			}
			name := fmt.Sprintf("batch=%d/mode=loader/workers=%d", size, workers)
			if workers == 0 {
				name = fmt.Sprintf("batch=%d/mode=loader/workers=auto", size)
			}
			b.Run(name, func(b *testing.B) {
				benchLoader(b, set, Config{BatchSize: size, Workers: workers, Shuffle: true, LastBatch: DropLast}, int64(size)*(784*4+8))
			})
		}
	}
}

// BenchmarkBesideGather is an epoch in both ways in turn, so that what else the machine does hits both alike: x-gather is
// the time of the Loader, with one worker, over that of the loop by hand, the median of all such pairs.
func BenchmarkBesideGather(b *testing.B) {
	images, labels := mnist()
	set, err := FromTensors(images, labels)
	if err != nil {
		b.Fatal(err)
	}
	pixels, digits := images.Data().([]float32), labels.Data().([]int64)
	for _, size := range batchSizes {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			e, err := pintensor.NewEngine()
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			l, err := New(set, Config{BatchSize: size, Workers: 1, Shuffle: true, LastBatch: DropLast, SingleEpoch: true, Pin: e})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			order := rand.New(rand.NewPCG(1, 2)).Perm(len(digits))
			x, y := make([]float32, size*784), make([]int64, size)
			for range l.Batches(b.Context()) { // memory
			}
			var ratios, rates []float64
			for b.Loop() {
				began := time.Now()
				for at := 0; at+size <= len(order); at += size {
					gatherByHand(x, y, pixels, digits, order[at:at+size])
				}
				between := time.Now()
				for _, err := range l.Batches(b.Context()) {
					if err != nil {
						b.Fatal(err)
					}
				}
				byHand, loaded := between.Sub(began).Seconds(), time.Since(between).Seconds()
				ratios, rates = append(ratios, loaded/byHand), append(rates, float64(len(order)/size*size)/loaded)
			}
			slices.Sort(ratios)
			slices.Sort(rates)
			b.ReportMetric(ratios[len(ratios)/2], "x-gather")
			b.ReportMetric(rates[len(rates)/2], "samples/s")
		})
	}
}

func gatherByHand(x []float32, y []int64, pixels []float32, digits []int64, indices []int) {
	for k, i := range indices {
		copy(x[k*784:(k+1)*784], pixels[i*784:(i+1)*784])
		y[k] = digits[i]
	}
}

func benchGather(b *testing.B, pixels []float32, digits []int64, size int) {
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(digits))
	x, y := make([]float32, size*784), make([]int64, size)
	b.ReportAllocs()
	b.SetBytes(int64(size) * (784*4 + 8))
	at := 0
	for b.Loop() {
		if at+size > len(order) {
			at = 0
		}
		gatherByHand(x, y, pixels, digits, order[at:at+size])
		at += size
	}
	perSample(b, size)
}

// BenchmarkLoaderToDevice delivers shuffled batches on a device, of whichever kind is there, where a second
// stream uses them. "workers=auto" is with the setting that the Loader has found in a second before.
func BenchmarkLoaderToDevice(b *testing.B) {
	images, labels := mnist()
	set, err := FromTensors(images, labels)
	if err != nil {
		b.Fatal(err)
	}
	dev, err := asynccopy.OpenDefault()
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	b.Logf("device: %s", dev.Name())
	copies, err := dev.NewStream()
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range batchSizes {
		for _, workers := range []int{1, 2, 4, 8, 16, 0} {
			if workers > 2*runtime.GOMAXPROCS(0) {
				continue
			}
			name := fmt.Sprint(workers)
			if workers == 0 {
				name = "auto"
			}
			b.Run(fmt.Sprintf("batch=%d/workers=%s", size, name), func(b *testing.B) {
				benchLoader(b, set, Config{BatchSize: size, Workers: workers, Shuffle: true, LastBatch: DropLast, Stream: copies}, int64(size)*(784*4+8))
			})
		}
	}
}

// BenchmarkFirstBatch is how long a loop waits for its first batch, with the next epoch read ahead and without. The
// program does something else for a moment between loops, as it would to test or to save.
func BenchmarkFirstBatch(b *testing.B) {
	images, labels := mnist()
	set, err := FromTensors(images, labels)
	if err != nil {
		b.Fatal(err)
	}
	for _, single := range []bool{false, true} {
		b.Run(fmt.Sprintf("ahead=%v", !single), func(b *testing.B) {
			e, err := pintensor.NewEngine()
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			short, err := Subset(set, numbers(8*256))
			if err != nil {
				b.Fatal(err)
			}
			l, err := New(short, Config{BatchSize: 256, Shuffle: true, SingleEpoch: single, Pin: e})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			var waited time.Duration
			for b.Loop() {
				began, first := time.Now(), true
				for _, err := range l.Batches(b.Context()) {
					if err != nil {
						b.Fatal(err)
					}
					if first {
						waited, first = waited+time.Since(began), false
					}
				}
				time.Sleep(5 * time.Millisecond)
			}
			b.ReportMetric(float64(waited.Microseconds())/float64(b.N), "µs/first")
		})
	}
}

// BenchmarkTuning is what loads deliver with the setting that the Loader finds in four seconds, and with fixed ones.
func BenchmarkTuning(b *testing.B) {
	for _, c := range loads[1:4] {
		for _, workers := range []int{0, 2, 8, 32} {
			name, before := fmt.Sprint(workers), 300*time.Millisecond // under way
			if workers == 0 {
				name, before = "auto", 4*time.Second
			}
			b.Run(fmt.Sprintf("load=%s/workers=%s", strings.ReplaceAll(c.name, " ", "-"), name), func(b *testing.B) {
				e, err := pintensor.NewEngine()
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close()
				l, err := New(c.set(800), Config{BatchSize: 4, Shuffle: true, Workers: workers, Pin: e})
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				began := time.Now()
				for running := true; running; {
					for _, err := range l.Batches(b.Context()) {
						if err != nil {
							b.Fatal(err)
						}
						time.Sleep(c.body)
						if time.Since(began) < before {
							continue
						}
						if running = b.Loop(); !running {
							break
						}
					}
				}
				s := l.Stats()
				b.ReportMetric(float64(s.Workers), "workers")
				b.ReportMetric(float64(s.Prefetch), "ahead")
				perSample(b, 4)
			})
		}
	}
}

// BenchmarkTurn is what handing a batch over costs the loop, in ns/turn: a turn that finds its batch ready and does nothing
// with it. Between every 32 turns it waits for workers to be ahead, which does not count.
func BenchmarkTurn(b *testing.B) {
	const ahead, turns = 48, 32
	set, err := FromTensors(tensor.New(tensor.WithShape(1<<16), tensor.WithBacking(make([]byte, 1<<16))))
	if err != nil {
		b.Fatal(err)
	}
	e, err := pintensor.NewEngine()
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	l, err := New(set, Config{BatchSize: 1, Workers: 2, Prefetch: ahead, Pin: e})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var took time.Duration
	running, n := b.Loop(), 0
	for running {
		began, at := time.Now(), 0
		for _, err := range l.Batches(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
			if at++; at < turns {
				continue
			}
			took, n = took+time.Since(began), n+turns
			for l.Stats().Ready < ahead-2 && l.at.batch < 1<<16-2*ahead {
				time.Sleep(time.Microsecond)
			}
			if running = b.Loop(); !running {
				break
			}
			began, at = time.Now(), 0
		}
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/turn")
}

// BenchmarkHandOver is what a batch costs beside reading it, for the worker and the loop together: its samples are of one
// byte.
func BenchmarkHandOver(b *testing.B) {
	set, err := FromTensors(tensor.New(tensor.WithShape(1<<16), tensor.WithBacking(make([]byte, 1<<16))))
	if err != nil {
		b.Fatal(err)
	}
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			benchLoader(b, set, Config{BatchSize: 1, Workers: workers}, 1)
		})
	}
}

func benchLoader(b *testing.B, set Dataset, cfg Config, bytes int64) {
	e, err := pintensor.NewEngine()
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	cfg.Pin = e
	l, err := New(set, cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	b.ReportAllocs()
	b.SetBytes(bytes)
	for began := time.Now(); ; { // memory, and a setting
		for range l.Batches(b.Context()) {
		}
		if cfg.Workers > 0 || time.Since(began) > time.Second {
			break
		}
	}
	var compute *asynccopy.Stream
	if cfg.Stream != nil {
		if compute, err = cfg.Stream.Device().NewStream(); err != nil {
			b.Fatal(err)
		}
		defer compute.Close()
	}
	running := b.Loop()
	for running {
		for batch, err := range l.Batches(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
			if compute != nil {
				if err := batch.Use(compute); err != nil {
					b.Fatal(err)
				}
			}
			if running = b.Loop(); !running {
				break
			}
		}
	}
	if compute != nil {
		if err := errors.Join(compute.Synchronize(b.Context()), cfg.Stream.Synchronize(b.Context())); err != nil {
			b.Fatal(err)
		}
	}
	if cfg.Workers == 0 {
		b.ReportMetric(float64(l.Stats().Workers), "workers")
	}
	perSample(b, cfg.BatchSize)
}

func perSample(b *testing.B, size int) {
	b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}
