package kernels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The generator's first draw for counter and key 0 is that of the Random123 library's known answers (kat_vectors,
// philox4x32-10): an element is kept if its word is below the threshold, so each threshold brackets a word.
func TestDropoutDrawsPhilox(t *testing.T) { everywhere(t, testDropoutDrawsPhilox) }

func testDropoutDrawsPhilox(t *testing.T) {
	words := []uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}
	in := []float32{1, 1, 1, 1}
	for k, w := range words {
		for above := range uint32(2) {
			out := make([]float32, 4)
			run(t, "dropout_f32", [3]uint32{1, 1, 1}, in, out, uint32(4), uint32(0), &Run{}, uint64(w)+uint64(above), float32(2))
			if want := float32(2 * above); out[k] != want {
				t.Errorf("threshold %#x: element %d is %v, want %v", w+above, k, out[k], want)
			}
		}
	}
}

func TestDropout(t *testing.T) { each(t, testDropout[float32], testDropout[float64]) }

func testDropout[T float](t *testing.T) {
	const n = 10001
	const threshold = uint64(3006477107) // 0.7 of 2^32
	rng := rand.New(rand.NewPCG(15, 16))
	x := random[T](rng, n)
	draw := func(seed uint64, stream uint32, step uint64, blocks uint32) []T {
		out := make([]T, n)
		run(t, "dropout"+suffix[T](), [3]uint32{blocks, 1, 1}, x, out, uint32(n), stream, &Run{step, seed}, threshold, T(1/0.7))
		return out
	}
	base := draw(1, 2, 3, 4)
	kept := 0
	for i, v := range base {
		if v != 0 {
			kept++
			if d := float64(v)*0.7 - float64(x[i]); math.Abs(d) > 1e-6 {
				t.Fatalf("element %d: %v of %v", i, v, x[i])
			}
		}
	}
	// 7000.7 are expected, with a standard deviation of 45.8.
	if kept < 6770 || kept > 7230 {
		t.Errorf("%d of %d kept, want about 70%%", kept, n)
	}
	differ := func(other []T) (count int) {
		for i := range base {
			if (base[i] == 0) != (other[i] == 0) {
				count++
			}
		}
		return count
	}
	if d := differ(draw(1, 2, 3, 1)); d != 0 {
		t.Errorf("%d elements depend on the grid", d)
	}
	for what, other := range map[string][]T{"seed": draw(4, 2, 3, 4), "stream": draw(1, 3, 3, 4), "step": draw(1, 2, 4, 4), "high step": draw(1, 2, 3|1<<32, 4)} {
		if d := differ(other); d < 3800 || d > 4600 { // 2 * 0.7 * 0.3 of them
			t.Errorf("another %s changes %d of %d", what, d, n)
		}
	}
}

// A threshold of 2^32 keeps everything.
func TestDropoutOfNothing(t *testing.T) { everywhere(t, testDropoutOfNothing) }

func testDropoutOfNothing(t *testing.T) {
	x, out := []float32{1, 2, 3, 4, 5}, make([]float32, 5)
	run(t, "dropout_f32", [3]uint32{1, 1, 1}, x, out, uint32(5), uint32(1), &Run{9, 7}, uint64(1<<32), float32(1))
	if !slices.Equal(x, out) {
		t.Errorf("%v", out)
	}
}

func TestCount(t *testing.T) { everywhere(t, testCount) }

func testCount(t *testing.T) {
	r := Run{math.MaxUint32, 7}
	run(t, "count", [3]uint32{2, 1, 1}, &r)
	if r != (Run{1 << 32, 7}) {
		t.Errorf("%+v, want a count of 1<<32", r)
	}
}
