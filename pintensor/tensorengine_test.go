package pintensor

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"testing"
	"unsafe"

	"gorgonia.org/tensor"
)

// randomDense makes the same tensor with either engine.
func sample(dt tensor.Dtype, e tensor.Engine, shape ...int) *tensor.Dense {
	opts := []tensor.ConsOpt{tensor.Of(dt), tensor.WithShape(shape...)}
	if e != nil {
		opts = append(opts, tensor.WithEngine(e))
	}
	d := tensor.New(opts...)
	for i := range d.DataSize() {
		switch dt {
		case tensor.Bool:
			d.Set(i, i%3 == 0)
		default:
			d.Set(i, reflect.ValueOf(i%7+1).Convert(dt.Type).Interface())
		}
	}
	return d
}

func TestArithmeticOnPinnedTensors(t *testing.T) {
	e := newRig(t)
	type op func(a, b *tensor.Dense) (any, error)
	numeric := map[string]op{
		"Add":        func(a, b *tensor.Dense) (any, error) { return a.Add(b) },
		"Mul":        func(a, b *tensor.Dense) (any, error) { return tensor.Mul(a, b) },
		"Mul scalar": func(a, b *tensor.Dense) (any, error) { return tensor.Mul(a, a.Get(3)) },
		"Add unsafe": func(a, b *tensor.Dense) (any, error) { return tensor.Add(a, b, tensor.UseUnsafe()) },
		"Add reuse":  func(a, b *tensor.Dense) (any, error) { return tensor.Add(a, b, tensor.WithReuse(b)) },
		"Clone":      func(a, b *tensor.Dense) (any, error) { return a.Clone(), nil },
		"Sum":        func(a, b *tensor.Dense) (any, error) { return a.Sum(0) },
		"Sum all":    func(a, b *tensor.Dense) (any, error) { return a.Sum() },
		"Gt":         func(a, b *tensor.Dense) (any, error) { return tensor.Gt(a, b) },
		"Slice":      func(a, b *tensor.Dense) (any, error) { return a.Slice(nil, tensor.S(1, 3)) },
		"Materialize": func(a, b *tensor.Dense) (any, error) {
			v, err := a.Slice(nil, tensor.S(1, 3))
			return v.Materialize(), err
		},
		"Transpose": func(a, b *tensor.Dense) (any, error) { return tensor.Transpose(a) },
		"T":         func(a, b *tensor.Dense) (any, error) { return a, a.T() },
		"SafeT":     func(a, b *tensor.Dense) (any, error) { return a.SafeT() },
		"Concat":    func(a, b *tensor.Dense) (any, error) { return a.Concat(0, b) },
		"Repeat":    func(a, b *tensor.Dense) (any, error) { return a.Repeat(1, 2) },
		"Memset":    func(a, b *tensor.Dense) (any, error) { return a, a.Memset(a.Get(2)) },
	}
	float := map[string]op{
		"MatMul": func(a, b *tensor.Dense) (any, error) { return tensor.MatMul(a, b) },
		"Dot":    func(a, b *tensor.Dense) (any, error) { return tensor.Dot(a, b) },
		"Outer": func(a, b *tensor.Dense) (any, error) {
			x, err1 := a.Slice(tensor.S(0))
			y, err2 := b.Slice(tensor.S(1))
			if err := errors.Join(err1, err2); err != nil {
				return nil, err
			}
			return tensor.Outer(x, y)
		},
		"Exp": func(a, b *tensor.Dense) (any, error) { return tensor.Exp(a) },
		"Apply": func(a, b *tensor.Dense) (any, error) {
			if a.Dtype() == tensor.Float32 {
				return a.Apply(func(x float32) float32 { return x * x })
			}
			return a.Apply(func(x float64) float64 { return math.Sqrt(x) })
		},
		"SoftMax": func(a, b *tensor.Dense) (any, error) { return tensor.SoftMax(a, 1) },
	}
	anyDtype := map[string]op{"Clone": numeric["Clone"], "Transpose": numeric["Transpose"], "Materialize": numeric["Materialize"]}
	for dt, ops := range map[tensor.Dtype][]map[string]op{
		tensor.Float32: {numeric, float}, tensor.Float64: {numeric, float}, tensor.Int: {numeric}, tensor.Bool: {anyDtype},
	} {
		for _, set := range ops {
			for name, op := range set {
				got, gerr := op(sample(dt, e.Engine, 5, 5), sample(dt, e.Engine, 5, 5))
				want, werr := op(sample(dt, nil, 5, 5), sample(dt, nil, 5, 5))
				if fmt.Sprint(gerr) != fmt.Sprint(werr) {
					t.Errorf("%s of %v: %v, with the standard engine %v", name, dt, gerr, werr)
				} else if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
					t.Errorf("%s of %v:\n%s\nwith the standard engine:\n%s", name, dt, g, w)
				}
			}
		}
	}
	sum := must[*tensor.Dense](t)(sample(tensor.Float32, e.Engine, 5, 5).Add(sample(tensor.Float32, e.Engine, 5, 5)))
	if !e.IsPinned(sum) || !e.Owns(sum) {
		t.Error("the result of arithmetic on tensors of the engine is not pinned")
	}
	mine := must[*tensor.Dense](t)(e.New(tensor.Float32, 5, 5))
	ordinary := must[*tensor.Dense](t)(mine.Add(mine))
	if e.IsPinned(ordinary) {
		t.Error("the result of arithmetic on tensors of New is pinned")
	}
	if err := e.Release(mine); err != nil {
		t.Fatal(err)
	}
}

func TestTensorsWithTheEngineAreZeroedAndReclaimed(t *testing.T) {
	e := newRig(t)
	for i := range 3 {
		func() {
			d := tensor.New(tensor.WithEngine(e.Engine), tensor.Of(tensor.Float32), tensor.WithShape(100))
			for _, x := range d.Data().([]float32) {
				if x != 0 {
					t.Fatalf("new memory holds %v", x)
				}
			}
			_ = d.Memset(float32(3))
			if err := e.Release(d); !errors.Is(err, ErrNotOwner) {
				t.Errorf("Release: %v, want ErrNotOwner", err)
			}
		}()
		gcUntil(t, "the block is reclaimed", func() bool { return e.Stats().Reclaimed == int64(i)+1 })
	}
	if s := e.Stats(); !raceEnabled && s.Cold != 1 {
		t.Errorf("%d blocks were made, want 1", s.Cold)
	}
}

// Between Alloc and the slice that tensor makes of its address, the collector sees no reference.
func TestAllocOutlivesTheGap(t *testing.T) {
	e := newRig(t)
	for range 20 {
		addr := func() uintptr { return must[tensor.Memory](t)(e.Alloc(100)).Uintptr() }()
		runtime.GC()
		if b := blocks.find(addr); b == nil || b.state != lent {
			t.Fatal("the memory was reclaimed at the first collection")
		}
		other := must[tensor.Memory](t)(e.Alloc(100))
		if other.Uintptr() == addr {
			t.Fatal("the memory was given to somebody else")
		}
		runtime.KeepAlive(other)
	}
}

func TestFree(t *testing.T) {
	e, other := newRig(t), newRig(t)
	m := must[tensor.Memory](t)(e.Alloc(100))
	if m.MemSize() != 100 {
		t.Fatalf("MemSize is %d, want 100", m.MemSize())
	}
	if err := e.Free(m, 99); err == nil {
		t.Error("Free with the wrong size: no error")
	}
	if err := other.Free(m, 100); !errors.Is(err, ErrNotPinned) {
		t.Errorf("Free by another engine: %v, want ErrNotPinned", err)
	}
	if err := e.Free(m, 100); err != nil {
		t.Fatal(err)
	}
	again := must[tensor.Memory](t)(e.Alloc(100))
	if again.Uintptr() != m.Uintptr() {
		t.Error("the memory did not come back at once")
	}
	if err := e.Free(m, 100); !errors.Is(err, ErrReleased) {
		t.Errorf("second Free: %v, want ErrReleased", err)
	}
	d := tensor.New(tensor.WithEngine(e.Engine), tensor.Of(tensor.Float32), tensor.WithShape(10))
	v := slice(t, d, tensor.S(0, 5))
	mine := must[*tensor.Dense](t)(e.New(tensor.Float32, 10))
	for name, c := range map[string]struct {
		mem  tensor.Memory
		want error
	}{
		"a view": {v, ErrNotOwner}, "memory of New": {mine, ErrNotOwner}, "ordinary memory": {tensor.New(tensor.FromScalar(1)), ErrNotPinned},
		"memory of another kind": {otherMemory{}, ErrNotOwner},
	} {
		if err := e.Free(c.mem, 40); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := e.Free((*tensor.Dense)(nil), 0); err == nil {
		t.Error("nil: no error")
	}
	if err := errors.Join(e.Free(d, 40), e.Free(again, 100), e.Release(mine)); err != nil {
		t.Fatal(err)
	}
	if err := e.Free(d, 40); !errors.Is(err, ErrReleased) {
		t.Errorf("a tensor twice: %v, want ErrReleased", err)
	}
	if _, err := e.Alloc(-1); err == nil {
		t.Error("Alloc(-1): no error")
	}
}

type otherMemory struct{}

func (otherMemory) Uintptr() uintptr { return 0 }
func (otherMemory) MemSize() uintptr { return 0 }

func TestMemoryOperations(t *testing.T) {
	e := newRig(t)
	a, b := must[tensor.Memory](t)(e.Alloc(8)), must[tensor.Memory](t)(e.Alloc(8))
	d := tensor.New(tensor.WithEngine(e.Engine), tensor.WithShape(2), tensor.Of(tensor.Float32))
	d.Data().([]float32)[1] = 5
	if err := errors.Join(e.Memcpy(a, d), e.Memcpy(b, a)); err != nil {
		t.Fatal(err)
	}
	if got := *(*float32)(unsafe.Add(b.(*memory).p, 4)); got != 5 {
		t.Errorf("copied %v, want 5", got)
	}
	e.Memclr(a)
	if got := *(*float32)(unsafe.Add(a.(*memory).p, 4)); got != 0 {
		t.Errorf("cleared to %v, want 0", got)
	}
	if err := e.Memcpy(a, otherMemory{}); err == nil {
		t.Error("Memcpy from unknown memory: no error")
	}
	if err := errors.Join(e.Free(a, 8), e.Free(b, 8), e.Free(d, 8)); err != nil {
		t.Fatal(err)
	}
}

func TestLimitWithTheEngine(t *testing.T) {
	e := newRig(t, WithLimit(4*minBlock))
	for range 30 { // temporaries, each dropped at once and young when the limit is reached
		tensor.New(tensor.WithEngine(e.Engine), tensor.Of(tensor.Float32), tensor.WithShape(100))
	}
}
