package dtype

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

func TestHasPointers(t *testing.T) {
	for value, want := range map[any]bool{
		false: false, int8(0): false, uint64(0): false, uintptr(0): false, float32(0): false, complex128(0): false,
		[3]float64{}: false, [0]*int{}: false, struct{}{}: false, struct{ a, b int32 }{}: false,
		"": true, (*int)(nil): true, unsafe.Pointer(nil): true, (chan int)(nil): true,
		[1]*int{}: true, struct {
			a int
			b [2]struct{ c string }
		}{}: true, struct{ err error }{}: true,
	} {
		if got := HasPointers(reflect.TypeOf(value)); got != want {
			t.Errorf("%T: %v, want %v", value, got, want)
		}
	}
	for _, kind := range []reflect.Type{reflect.TypeFor[[]int](), reflect.TypeFor[map[int]int](), reflect.TypeFor[func()](), reflect.TypeFor[error]()} {
		if !HasPointers(kind) {
			t.Errorf("%v: false, want true", kind)
		}
	}
}

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		elem  int64
		shape []int
		want  int64
	}{
		{4, nil, 4},
		{4, []int{2, 3}, 24},
		{4, []int{2, 0, 3}, 0},
		{8, []int{1 << 40, 1 << 19}, 1 << 62},
		{8, []int{1 << 40, 1 << 20}, math.MaxInt64},
		{8, []int{math.MaxInt, math.MaxInt, 1}, math.MaxInt64},
		{8, []int{math.MaxInt, math.MaxInt, 0}, 0},
	} {
		if got, err := Bytes(c.elem, c.shape); got != c.want || err != nil {
			t.Errorf("%d bytes, shape %v: %d, %v; want %d", c.elem, c.shape, got, err, c.want)
		}
	}
	if n, err := Bytes(4, []int{0, 2, -1}); n != 0 || err == nil || !strings.Contains(err.Error(), "shape [0 2 -1]: dimension 2 is -1") {
		t.Errorf("a negative dimension: %d, %v", n, err)
	}
}

func TestBytesAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Bytes(4, []int{2, 3}); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestHasPointersDoesNotAllocate(t *testing.T) {
	float := reflect.TypeFor[float32]()
	if n := testing.AllocsPerRun(100, func() { HasPointers(float) }); n > 0 {
		t.Errorf("%v allocations, want none: every copy asks", n)
	}
}
