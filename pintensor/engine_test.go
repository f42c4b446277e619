package pintensor

import (
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
)

func TestNewIsZeroedAlsoWhenRecycled(t *testing.T) {
	e := newRig(t)
	for i := range 3 {
		d := must[*tensor.Dense](t)(e.New(tensor.Float32, 10, 20))
		if got := d.Shape(); !got.Eq(tensor.Shape{10, 20}) {
			t.Fatalf("shape %v, want (10, 20)", got)
		}
		data := d.Data().([]float32)
		if len(data) != 200 || cap(data) != 200 {
			t.Fatalf("%d elements with room for %d, want 200 and no room into the rest of the block", len(data), cap(data))
		}
		for j, x := range data {
			if x != 0 {
				t.Fatalf("round %d: element %d is %v, want 0", i, j, x)
			}
			data[j] = 7
		}
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
	}
	if s := e.Stats(); s.Cold != 1 || s.Warm != 2 {
		t.Fatalf("%d cold and %d warm, want 1 and 2", s.Cold, s.Warm)
	}
}

func TestEmptyIsNewWithoutTheZeros(t *testing.T) {
	e := newRig(t)
	if _, err := e.Empty(tensor.String, 2); err == nil || !strings.HasPrefix(err.Error(), "pintensor: Empty: ") {
		t.Errorf("Empty of strings: %v", err)
	}
	if _, err := e.Empty(tensor.Int, 2, -3); err == nil || !strings.Contains(err.Error(), "-3") {
		t.Errorf("Empty with a negative dimension: %v", err)
	}
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 100))
	memory := &d.Raw[0]
	for i := range d.Raw {
		d.Raw[i] = 7
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	d = must[*tensor.Dense](t)(e.Empty(tensor.Uint8, 10, 10))
	if !d.Shape().Eq(tensor.Shape{10, 10}) || !e.IsPinned(d) || !e.Owns(d) {
		t.Errorf("shape %v, pinned %v, owned %v", d.Shape(), e.IsPinned(d), e.Owns(d))
	}
	if &d.Raw[0] != memory || d.Raw[0] == 0 {
		t.Errorf("first byte is %d at %p; want what was left, or poison, at %p", d.Raw[0], &d.Raw[0], memory)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestNewTensorsAreLikeTensorsOwn(t *testing.T) {
	e := newRig(t)
	for _, shape := range [][]int{{}, {1}, {5}, {1, 1}, {3, 1}, {1, 3}, {2, 3}, {2, 3, 4}, {1, 2, 1, 3}, {0}, {2, 0, 3}} {
		for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64, tensor.Int, tensor.Bool, tensor.Complex64, tensor.Uintptr} {
			got := must[*tensor.Dense](t)(e.New(dt, shape...))
			want := tensor.New(tensor.Of(dt), tensor.WithShape(shape...))
			if !reflect.DeepEqual(append([]int{}, got.Shape()...), append([]int{}, want.Shape()...)) ||
				!reflect.DeepEqual(append([]int{}, got.Strides()...), append([]int{}, want.Strides()...)) {
				t.Errorf("%v: shape %v strides %v, want %v %v", shape, got.Shape(), got.Strides(), want.Shape(), want.Strides())
			}
			if got.Dtype() != want.Dtype() || got.Engine() != want.Engine() || got.DataOrder() != want.DataOrder() || len(got.Raw) != len(want.Raw) ||
				got.IsView() != want.IsView() || got.IsScalar() != want.IsScalar() || got.IsNativelyAccessible() != want.IsNativelyAccessible() ||
				got.IsManuallyManaged() != want.IsManuallyManaged() || got.RequiresIterator() != want.RequiresIterator() {
				t.Errorf("%v of %v: %#v, want %#v", dt, shape, got, want)
			}
			if len(want.Raw) > 0 {
				if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
					t.Errorf("%v of %v prints as %q, want %q", dt, shape, g, w)
				}
			}
			if !e.IsPinned(got) || !e.Owns(got) {
				t.Errorf("%v of %v: pinned %v, owned %v", dt, shape, e.IsPinned(got), e.Owns(got))
			}
			if err := e.Release(got); err != nil {
				t.Errorf("%v of %v: Release: %v", dt, shape, err)
			}
			if err := e.Release(got); !errors.Is(err, ErrReleased) {
				t.Errorf("%v of %v: second Release: %v, want ErrReleased", dt, shape, err)
			}
		}
	}
}

func TestBlocksAreAlignedSpans(t *testing.T) {
	e := newRig(t)
	for _, n := range []int{1, 100_000, 1 << 20, 6<<20 + 5} {
		d := must[*tensor.Dense](t)(e.New(tensor.Uint8, n))
		if base(d)%heapPage != 0 || base(d)%pageSize != 0 {
			t.Errorf("%d bytes: memory at %#x is not at the start of a page", n, base(d))
		}
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMemoryOnLargerPages(t *testing.T) {
	leak.Check(t)
	for _, page := range []uintptr{4 << 10, 16 << 10, 64 << 10} {
		for range 8 {
			mem, head, _ := newMemory(40<<10, page)
			if uintptr(mem)%page != 0 || head >= page {
				t.Fatalf("page %d: memory at %#x, head %d", page, mem, head)
			}
			s := unsafe.Slice((*byte)(mem), 40<<10)
			for i := range s {
				s[i]++
			}
			whole := &segment{base: uintptr(mem), head: uint32(head)}
			whole.arm(mem) // fails unless it finds the start of the allocation
			whole.disarm(mem)
		}
	}
}

func TestArgumentsThatMakeNoSense(t *testing.T) {
	e := newRig(t)
	text := tensor.String
	for name, c := range map[string]struct {
		dt    tensor.Dtype
		shape []int
		says  string
	}{
		"negative":      {tensor.Float32, []int{2, -3}, "dimension 1 is -3"},
		"negative zero": {tensor.Float32, []int{0, -3}, "dimension 1 is -3"},
		"overflow":      {tensor.Float32, []int{math.MaxInt, math.MaxInt}, "too large"},
		"overflow bits": {tensor.Float32, []int{1 << 32, 1 << 31}, "too large"},
		"past memory":   {tensor.Float32, []int{1 << 22, 1 << 21}, "bytes of the machine's memory"}, // 32 TiB
		"past memory 2": {tensor.Dtype{Type: reflect.TypeFor[[1 << 45]byte]()}, []int{1}, "bytes: want at most"},
		"no dtype":      {tensor.Dtype{}, []int{2}, "zero Dtype"},
		"string":        {text, []int{2}, "string"},
		"pointers":      {tensor.Dtype{Type: reflect.TypeFor[struct{ P *int }]()}, []int{2}, "without pointers"},
		"interface":     {tensor.Dtype{Type: reflect.TypeFor[error]()}, []int{2}, "without pointers"},
		"unsafe":        {tensor.UnsafePointer, []int{2}, "without pointers"},
		"no size":       {tensor.Dtype{Type: reflect.TypeFor[struct{}]()}, []int{2}, "no size"},
	} {
		d, err := e.New(c.dt, c.shape...)
		if err == nil || d != nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "pintensor: New: ") {
			t.Errorf("%s: %v, %v; want an error that says %q", name, d, err, c.says)
		}
	}
	for name, err := range map[string]error{
		"Release": e.Release(nil), "Pin": second(e.Pin(nil)), "Register": second(e.Register(nil)), "Acquire": second(Acquire(nil)),
		"Trim": second(e.Trim(-1)), "limit": second(NewEngine(WithLimit(-1))), "driver": second(NewEngine(WithDriver(nil))), "option": second(NewEngine(nil)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if e.IsPinned(nil) || e.IsPinned((*tensor.Dense)(nil)) || e.Owns(nil) || e.IsPinned(new(tensor.Dense)) {
		t.Error("nothing is pinned or owned")
	}
	if err := e.Release(new(tensor.Dense)); !errors.Is(err, ErrNotPinned) {
		t.Errorf("Release of an empty header: %v, want ErrNotPinned", err)
	}
	if s := e.Stats(); s.Cold != 0 {
		t.Errorf("%d blocks were made for calls that failed", s.Cold)
	}
}

func second[T any](_ T, err error) error { return err }

func TestStructDtypes(t *testing.T) {
	e := newRig(t)
	type pair struct {
		A float32
		B [2]int16
	}
	d := must[*tensor.Dense](t)(e.New(tensor.Dtype{Type: reflect.TypeFor[pair]()}, 4))
	if got := d.Data().([]pair); len(got) != 4 || got[3] != (pair{}) {
		t.Fatalf("got %v, want four zero pairs", got)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestStats(t *testing.T) {
	e := newRig(t)
	a := must[*tensor.Dense](t)(e.New(tensor.Uint8, 100_000))
	b := must[*tensor.Dense](t)(e.New(tensor.Uint8, 10))
	_, sizeA := classOf(100_000)
	s := e.Stats()
	if want := (Usage{100_010, 100_010, 100_010}); s.Requested != want {
		t.Errorf("Requested %+v, want %+v", s.Requested, want)
	}
	if want := (Usage{sizeA + minBlock, sizeA + minBlock, sizeA + minBlock}); s.Lent != want || s.Registered != want {
		t.Errorf("Lent %+v, Registered %+v, want %+v", s.Lent, s.Registered, want)
	}
	if err := errors.Join(e.Release(a), e.Release(b)); err != nil {
		t.Fatal(err)
	}
	s = e.Stats()
	if s.Lent.Current != 0 || s.Requested.Current != 0 || s.Cached.Current != sizeA+minBlock || s.Registered.Current != sizeA+minBlock || s.Locking != "cuda" {
		t.Errorf("after Release: %+v", s)
	}
}

func TestWithoutLocking(t *testing.T) {
	e := newRigOver(t, &fakeHost{name: "mlock", capacity: minBlock})
	a := must[*tensor.Dense](t)(e.New(tensor.Float32, 4))
	b := must[*tensor.Dense](t)(e.New(tensor.Float32, 4))
	if !e.IsPinned(a) || e.IsPinned(b) || !e.Owns(b) {
		t.Errorf("pinned: %v and %v, want the first; owned: %v", e.IsPinned(a), e.IsPinned(b), e.Owns(b))
	}
	s := e.Stats()
	if s.Unlocked != 1 || s.Locking != "mlock" || !strings.Contains(s.LockError, "no more") {
		t.Errorf("Stats does not say so: %+v", s)
	}
	h := must[Hold](t)(Acquire(b))
	if h.Pinned() {
		t.Error("memory that is not locked is held as pinned")
	}
	if err := errors.Join(e.Release(b), e.Release(a)); err != nil {
		t.Fatal(err)
	}
	c := must[*tensor.Dense](t)(e.New(tensor.Float32, 4))
	if base(c) == base(b) {
		t.Error("memory under a hold was lent again")
	}
	h.Done()
	if err := e.Release(c); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Register(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(100_000))); err == nil {
		t.Error("Register says that it locked what it could not")
	}
}

// warmUp makes a driver open the files that it never closes, which are no leak of ours.
func warmUp(t *testing.T) {
	t.Helper()
	e := must[*Engine](t)(NewEngine())
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 1000))
	if err := errors.Join(e.Release(d), e.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestTheRealHost(t *testing.T) {
	warmUp(t)
	leak.Check(t)
	e := must[*Engine](t)(NewEngine())
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 1000))
	s := e.Stats()
	if s.Locking == "" || e.IsPinned(d) != (s.Unlocked == 0) || (s.LockError == "") != (s.Unlocked == 0) {
		t.Errorf("pinned %v, %+v", e.IsPinned(d), s)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	checkEmpty(t, e)
}

// On a machine with a GPU the CUDA driver locks the memory, small and large.
func TestWithCUDA(t *testing.T) {
	warmUp(t)
	leak.Check(t)
	e := must[*Engine](t)(NewEngine())
	small := must[*tensor.Dense](t)(e.New(tensor.Float32, 1000))
	s := e.Stats()
	if s.Locking != "cuda" {
		if err := e.Release(small); err != nil {
			t.Error(err)
		}
		checkEmpty(t, e)
		if os.Getenv("REQUIRE_GPU") == "1" {
			t.Fatalf("memory is locked by %q, want \"cuda\": %s", s.Locking, s.NoCUDA)
		}
		t.Skip("no CUDA device: " + s.NoCUDA)
	}
	large := must[*tensor.Dense](t)(e.New(tensor.Float32, 20<<20))
	ordinary := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(100_001))
	unregister := must[func() error](t)(e.Register(slice(t, ordinary, tensor.S(3, 100_000))))
	if !e.IsPinned(small) || !e.IsPinned(large) || e.Stats().Unlocked != 0 || s.NoCUDA != "" || s.LockError != "" {
		t.Errorf("pinned %v, %v; %+v", e.IsPinned(small), e.IsPinned(large), e.Stats())
	}
	if err := errors.Join(unregister(), e.Release(small), e.Release(large)); err != nil {
		t.Error(err)
	}
	for i := range 3 {
		must[*tensor.Dense](t)(e.New(tensor.Float32, 1000)) // dropped
		gcUntil(t, "the block is reclaimed", func() bool { return e.Stats().Reclaimed == int64(i)+1 })
	}
	checkEmpty(t, e)
}
