package pintensor

// This file measures what rounding to block sizes costs, on the tensors of real programs: all parameters of some
// models, and batches of their data.

import (
	"fmt"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
)

// spec is a tensor of a list.
type spec struct {
	dt    tensor.Dtype
	shape []int
}

func (s spec) bytes() int64 {
	return int64(tensor.Shape(s.shape).TotalSize()) * int64(s.dt.Size())
}

// tensorList is what one program has pinned at a time.
type tensorList struct {
	name     string
	tensors  []spec
	elements int // of all together, where the source says so; 0 otherwise
}

func (l *tensorList) f32(shape ...int) { l.tensors = append(l.tensors, spec{tensor.Float32, shape}) }

// layer adds the weight of a layer and its bias.
func (l *tensorList) layer(shape ...int) {
	l.f32(shape...)
	l.f32(shape[len(shape)-1])
}

// resnet50 is torchvision's: 25,557,032 parameters in 161 tensors (models/resnet.py; He et al. 2015, table 1).
func resnet50() tensorList {
	l := tensorList{name: "ResNet-50", elements: 25_557_032}
	convolution := func(out, in, k int) { // with its batch norm
		l.f32(out, in, k, k)
		l.f32(out)
		l.f32(out)
	}
	convolution(64, 3, 7)
	in := 64
	for stage, blocks := range []int{3, 4, 6, 3} {
		width := 64 << stage
		for i := range blocks {
			convolution(width, in, 1)
			convolution(width, width, 3)
			convolution(4*width, width, 1)
			if i == 0 {
				convolution(4*width, in, 1)
			}
			in = 4 * width
		}
	}
	l.f32(1000, in)
	l.f32(1000)
	return l
}

// gpt2 is the one of 124M: 124,439,808 parameters in 148 tensors (openai-community/gpt2, config.json).
func gpt2() tensorList {
	const width = 768
	l := tensorList{name: "GPT-2", elements: 124_439_808}
	l.f32(50257, width) // also the output layer's
	l.f32(1024, width)
	for range 12 {
		l.layer(width)
		l.layer(width, 3*width)
		l.layer(width, width)
		l.layer(width)
		l.layer(width, 4*width)
		l.layer(4*width, width)
	}
	l.layer(width)
	return l
}

// mnistMLP is that of examples/mnist.
func mnistMLP() tensorList {
	l := tensorList{name: "MNIST-MLP", elements: 784*300 + 300 + 300*100 + 100 + 100*10 + 10}
	l.layer(784, 300)
	l.layer(300, 100)
	l.layer(100, 10)
	return l
}

// mnistCNN has three convolutions of 3 x 3 without bias, each followed by a pool of 2 x 2.
func mnistCNN() tensorList {
	l := tensorList{name: "MNIST-CNN", elements: 9*(32+32*64+64*128) + 128*3*3*10 + 10}
	l.f32(32, 1, 3, 3)
	l.f32(64, 32, 3, 3)
	l.f32(128, 64, 3, 3)
	l.layer(128*3*3, 10)
	return l
}

// batches are four prefetched ones: the data and its labels.
func batches(name string, data, labels spec) tensorList {
	l := tensorList{name: name}
	for range 4 {
		l.tensors = append(l.tensors, data, labels)
	}
	return l
}

func realLists() []tensorList {
	all := []tensorList{resnet50(), gpt2(), mnistMLP(), mnistCNN()}
	for _, n := range []int{64, 256, 1024} {
		all = append(all, batches(fmt.Sprintf("MNIST-batch-%d", n), spec{tensor.Float32, []int{n, 784}}, spec{tensor.Float32, []int{n, 10}}))
	}
	return append(all,
		batches("ImageNet-batch-256", spec{tensor.Float32, []int{256, 3, 224, 224}}, spec{tensor.Int64, []int{256}}),
		batches("ImageNet-batch-256-uint8", spec{tensor.Uint8, []int{256, 224, 224, 3}}, spec{tensor.Int64, []int{256}}),
		batches("tokens-16x1024", spec{tensor.Int64, []int{16, 1024}}, spec{tensor.Int64, []int{16, 1024}}),
		batches("tokens-16x1025", spec{tensor.Int32, []int{16, 1025}}, spec{tensor.Int32, []int{16, 1025}}), // inputs and targets in one
	)
}

func TestListsAreTheModels(t *testing.T) {
	leak.Check(t)
	want := map[string]int{"ResNet-50": 161, "GPT-2": 148, "MNIST-MLP": 6, "MNIST-CNN": 5}
	for _, l := range realLists() {
		elements := 0
		for _, s := range l.tensors {
			elements += tensor.Shape(s.shape).TotalSize()
		}
		if l.elements != 0 && (elements != l.elements || len(l.tensors) != want[l.name]) {
			t.Errorf("%s: %d elements in %d tensors, want %d in %d", l.name, elements, len(l.tensors), l.elements, want[l.name])
		}
	}
}

// pinAll lends all tensors of the list.
func (l tensorList) pinAll(t testing.TB, e *Engine) (all []*tensor.Dense, requested int64) {
	t.Helper()
	for _, s := range l.tensors {
		all = append(all, must[*tensor.Dense](t)(e.Empty(s.dt, s.shape...)))
		requested += s.bytes()
	}
	return all, requested
}

// PyTorch's rounding up to powers of two costs up to 100 % here (pytorch#95823, #150517).
func TestWaste(t *testing.T) {
	leak.Check(t)
	for _, l := range realLists() {
		var requested, lent int64
		for _, s := range l.tensors {
			_, size := classOf(s.bytes())
			requested += s.bytes()
			lent += size
		}
		if float64(lent) > 1.125*float64(requested) {
			t.Errorf("%s: %d bytes are lent for %d: %.1f %% more, want at most 12.5 %%", l.name, lent, requested, 100*float64(lent-requested)/float64(requested))
		}
		if requested > 16<<20 {
			continue // to lend all of it would take seconds
		}
		e := newCarvingRig(t)
		all, _ := l.pinAll(t, e.Engine)
		if s := e.Stats(); s.Requested.Current != requested || s.Lent.Current != lent {
			t.Errorf("%s: %d bytes are lent for %d, want %d for %d", l.name, s.Lent.Current, s.Requested.Current, lent, requested)
		}
		for _, d := range all {
			if err := e.Release(d); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// BenchmarkWaste lends and releases all tensors of a list, from the cache, and says how much memory is lent and how
// much page-locked beyond what was asked for.
func BenchmarkWaste(b *testing.B) {
	for _, l := range realLists() {
		b.Run("list="+l.name, func(b *testing.B) {
			e := benchEngine(b)
			var requested int64
			for b.Loop() {
				var all []*tensor.Dense
				all, requested = l.pinAll(b, e)
				s := e.Stats()
				b.ReportMetric(100*float64(s.Lent.Current-requested)/float64(requested), "%waste")
				b.ReportMetric(100*float64(s.Registered.Current-requested)/float64(requested), "%beyond-registered")
				for _, d := range all {
					if err := e.Release(d); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(requested)/(1<<20), "MiB-requested")
		})
	}
}
