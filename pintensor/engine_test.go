package pintensor

import (
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
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
		if base(d)%blockUnit != 0 || base(d)%pageSize != 0 {
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
			mem, head := newMemory(40<<10, page)
			if uintptr(mem)%page != 0 || head >= page {
				t.Fatalf("page %d: memory at %#x, head %d", page, mem, head)
			}
			s := unsafe.Slice((*byte)(mem), 40<<10)
			for i := range s {
				s[i]++
			}
			setReclaim(mem, head) // fails unless it is given the start of the allocation
			runtime.SetFinalizer((*byte)(unsafe.Add(mem, -int(head))), nil)
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

func TestOnlyTheOwnerReleases(t *testing.T) {
	e := newRig(t)
	other := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 6, 4))
	view := slice(t, d, tensor.S(1, 3))
	clone := d.ShallowClone()
	rewrapped := tensor.New(tensor.WithShape(24), tensor.WithBacking(d.Data()))
	transposed := d.ShallowClone()
	if err := transposed.T(); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]*tensor.Dense{"view": view, "clone": clone, "rewrapped": rewrapped, "transposed": transposed} {
		if err := e.Release(x); !errors.Is(err, ErrNotOwner) {
			t.Errorf("%s: %v, want ErrNotOwner", name, err)
		}
		if !e.IsPinned(x) || !other.IsPinned(x) || !e.Owns(x) || other.Owns(x) {
			t.Errorf("%s: pinned %v, owned %v, by the other engine %v", name, e.IsPinned(x), e.Owns(x), other.Owns(x))
		}
	}
	if err := other.Release(d); !errors.Is(err, ErrNotPinned) {
		t.Errorf("another engine: %v, want ErrNotPinned", err)
	}
	plain := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(6, 4))
	if err := e.Release(plain); !errors.Is(err, ErrNotPinned) {
		t.Errorf("ordinary memory: %v, want ErrNotPinned", err)
	}
	if e.IsPinned(plain) || e.Owns(plain) {
		t.Error("ordinary memory counts as pinned or owned")
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]*tensor.Dense{"clone": clone, "rewrapped": rewrapped} {
		if err := e.Release(x); !errors.Is(err, ErrReleased) {
			t.Errorf("%s after the release: %v, want ErrReleased", name, err)
		}
	}
}

// The owner's header may be gone, and a view have its address.
func TestAViewAtTheOwnersAddressIsNoOwner(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 6, 4))
	view := slice(t, d, tensor.S(0, 3))
	b := blocks.find(base(d))
	b.owner = addressOf(view)
	if err := e.Release(view); !errors.Is(err, ErrNotOwner) {
		t.Errorf("%v, want ErrNotOwner", err)
	}
	b.owner = addressOf(d)
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestReleaseTwice(t *testing.T) {
	e := newRig(t)
	a := must[*tensor.Dense](t)(e.New(tensor.Float32, 6, 4))
	where := base(a)
	if err := e.Release(a); err != nil {
		t.Fatal(err)
	}
	if err := e.Release(a); !errors.Is(err, ErrReleased) {
		t.Fatalf("cached: %v, want ErrReleased", err)
	}
	for range 10 { // however often the block has been lent since
		b := must[*tensor.Dense](t)(e.New(tensor.Float32, 6, 4))
		if base(b) != where {
			t.Fatal("the block was not lent again")
		}
		b.Data().([]float32)[0] = 42
		if err := e.Release(a); !errors.Is(err, ErrReleased) {
			t.Fatalf("lent again: %v, want ErrReleased", err)
		}
		if b.Data().([]float32)[0] != 42 {
			t.Fatal("a refused Release changed the new owner's data")
		}
		if err := e.Release(b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReleaseAfterChangesToTheHeader(t *testing.T) {
	e := newRig(t)
	for name, change := range map[string]func(*tensor.Dense) error{
		"reshape":            func(d *tensor.Dense) error { return d.Reshape(24) },
		"transpose":          func(d *tensor.Dense) error { return d.T() },
		"transpose and move": func(d *tensor.Dense) error { return errors.Join(d.T(), d.Transpose()) },
		"engine replaced":    func(d *tensor.Dense) error { tensor.WithEngine(tensor.Float64Engine{})(d); return nil },
		"cut short":          func(d *tensor.Dense) error { d.Raw = d.Raw[8:16]; return nil },
	} {
		d := must[*tensor.Dense](t)(e.New(tensor.Float64, 6, 4))
		if err := change(d); err != nil {
			t.Fatal(err)
		}
		if err := e.Release(d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := e.Release(d); !errors.Is(err, ErrReleased) {
			t.Errorf("%s: second: %v, want ErrReleased", name, err)
		}
	}
	if s := e.Stats(); s.Cold != 1 {
		t.Errorf("%d blocks were made, want 1: some header lost its block", s.Cold)
	}
}

// A header that lost its memory can't release it; the collector does.
func TestHeadersThatLoseTheirMemory(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float64, 6, 4))
	tensor.ReturnTensor(d)
	if err := e.Release(d); !errors.Is(err, ErrNotPinned) {
		t.Errorf("after ReturnTensor: %v, want ErrNotPinned", err)
	}
	d2 := must[*tensor.Dense](t)(e.New(tensor.Float64, 2, 2))
	encoded := must[[]byte](t)(tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float64{1, 2, 3, 4})).GobEncode())
	if err := d2.GobDecode(encoded); err != nil {
		t.Fatal(err)
	}
	if e.IsPinned(d2) {
		t.Error("decoded into ordinary memory, and still called pinned")
	}
	if err := e.Release(d2); !errors.Is(err, ErrNotPinned) {
		t.Errorf("after GobDecode: %v, want ErrNotPinned", err)
	}
	gcUntil(t, "both blocks are back", func() bool { return e.Stats().Reclaimed == 2 })
}

func TestReleasedTensorsRefuseToWork(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 2, 2))
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	next := must[*tensor.Dense](t)(e.New(tensor.Float32, 2, 2))
	defer func() {
		if err := e.Release(next); err != nil {
			t.Error(err)
		}
	}()
	if _, err := tensor.Add(d, next); err == nil {
		t.Error("Add read a released tensor")
	}
	if _, err := tensor.Add(next, float32(1), tensor.WithReuse(d)); err == nil {
		t.Error("Add wrote into a released tensor")
	}
	if _, err := d.At(0, 0); err == nil {
		t.Error("At read a released tensor")
	}
	if _, err := e.Pin(d); !errors.Is(err, ErrReleased) {
		t.Errorf("Pin: %v, want ErrReleased", err)
	}
	if _, err := Acquire(d); !errors.Is(err, ErrReleased) {
		t.Errorf("Acquire: %v, want ErrReleased", err)
	}
	_ = fmt.Sprint(d) // must not panic
}

func TestPoison(t *testing.T) {
	e := newRig(t, WithPoison())
	f := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	g := must[*tensor.Dense](t)(e.New(tensor.Float64, 100))
	i := must[*tensor.Dense](t)(e.New(tensor.Uint8, 101))
	floats, doubles, ints := f.Data().([]float32), g.Data().([]float64), i.Data().([]uint8)
	for _, d := range []*tensor.Dense{f, g, i} {
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
	}
	for k := range floats {
		if x, y := floats[k], doubles[k]; x == x || y == y {
			t.Fatalf("element %d is %v, %v, want NaN", k, x, y)
		}
	}
	for k, x := range ints {
		if x != 0xCC {
			t.Fatalf("element %d is %#x, want 0xCC", k, x)
		}
	}
}

// pytorch PR#179863: memory that is used too long is hard to find, so a debug mode looks for late writers too.
func TestPoisonFindsLateWriters(t *testing.T) {
	e := newRig(t, WithPoison())
	for _, at := range []int{0, 57, 99} {
		d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 100))
		late := d.Data().([]uint8)
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
		late[at]++
		_, err := e.New(tensor.Uint8, 1000)
		if want := fmt.Sprintf("pintensor: New: byte %d of a released tensor of 100 bytes was written after release", at); !errors.Is(err, ErrWritten) || err.Error() != want {
			t.Errorf("New: %v, want %s", err, want)
		}
		next := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1000))
		if err := e.Release(next); err != nil {
			t.Fatal(err)
		}
	}
	func() {
		d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 100))
		d.Data().([]uint8)[3] = 7
	}()
	gcUntil(t, "the block is reclaimed", func() bool { return e.Stats().Reclaimed == 1 })
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 100)) // what a dropped tensor held is no late write
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestReclaimedOnlyWhenNoViewIsLeft(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	data := d.Data().([]float32)
	for i := range data {
		data[i] = float32(i)
	}
	view := slice(t, d, tensor.S(50, 60))
	part := data[90:95]
	d, data = nil, nil
	fillers := churn(t, e.Engine)
	for i := range 10 {
		if got := view.Data().([]float32)[i]; got != float32(50+i) {
			t.Fatalf("element %d of the view is %v, want %d", i, got, 50+i)
		}
	}
	if part[4] != 94 {
		t.Fatalf("the slice reads %v, want 94", part[4])
	}
	if got := e.Stats().Reclaimed; got != int64(fillers) {
		t.Fatalf("%d blocks were reclaimed, want the %d that nobody refers to", got, fillers)
	}
	view, part = nil, nil
	gcUntil(t, "the last view's block is back", func() bool { return e.Stats().Reclaimed == int64(fillers)+1 })
	runtime.KeepAlive(d)
	runtime.KeepAlive(data)
}

// churn lends and drops blocks filled with something else, and waits until all of them are reclaimed.
func churn(t *testing.T, e *Engine) (n int) {
	t.Helper()
	before := e.Stats().Reclaimed
	for n = range 20 {
		d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
		for i := range d.Data().([]float32) {
			d.Data().([]float32)[i] = -1
		}
	}
	n++
	gcUntil(t, "what was dropped is reclaimed", func() bool { return e.Stats().Reclaimed >= before+int64(n) })
	return n
}

func TestABlockIsReclaimedAgainAndAgain(t *testing.T) {
	e := newRig(t)
	for i := range 5 {
		must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
		gcUntil(t, "the block is back", func() bool { return e.Stats().Reclaimed == int64(i)+1 })
	}
	if s := e.Stats(); !raceEnabled && s.Cold != 1 {
		t.Fatalf("%d blocks were made, want 1", s.Cold)
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
