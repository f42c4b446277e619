package pintensor

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pintensor/pin/internal/dtype"
	"gorgonia.org/tensor"
)

// This file makes headers, the *tensor.Dense beside a block, and marks them when they are released.

// prototype is a tensor of a dtype without memory. A copy of it, given memory and a shape, is a tensor:
// in two allocations, and without tensor's own pool of headers, whose lock all goroutines share.
type prototype struct {
	dt     reflect.Type
	header tensor.Dense
	size   int64 // of an element
	fill   byte  // what poison mode fills memory of the dtype with
}

var (
	prototypes  sync.Map                                             // of *prototype, by reflect.Type
	common      [reflect.UnsafePointer + 1]atomic.Pointer[prototype] // of one type of each kind, which are found sooner
	prototyping sync.Mutex
)

// prototypeOf returns dt's prototype, or why there can be no pinned memory of that dtype.
func prototypeOf(dt tensor.Dtype) (*prototype, error) {
	if dt.Type == nil {
		return nil, errors.New("dt is the zero Dtype, want one such as tensor.Float32")
	}
	if p := common[dt.Kind()].Load(); p != nil && p.dt == dt.Type {
		return p, nil
	}
	if p, ok := prototypes.Load(dt.Type); ok {
		return p.(*prototype), nil
	}
	if dtype.HasPointers(dt.Type) {
		return nil, fmt.Errorf("dt is %v, want a dtype without pointers: "+
			"the garbage collector does not look into pinned memory", dt.Type)
	}
	if dt.Size() == 0 {
		return nil, fmt.Errorf("dt is %v, whose elements have no size", dt.Type)
	}
	if n := dt.Type.Size(); uint64(n) > uint64(largest()) {
		return nil, fmt.Errorf("dt is %v, whose elements have %d bytes: want at most the %d of the machine's memory", dt.Type, n, largest())
	}
	prototyping.Lock() // tensor.Of enters new dtypes into a list of its own, without a lock
	defer prototyping.Unlock()
	d := tensor.New(tensor.Of(dt), tensor.WithShape(1))
	p := &prototype{dt: dt.Type, header: *d, size: int64(dt.Size()), fill: poisonOf(dt.Type)}
	p.header.Raw = nil
	p.header.AP = tensor.AP{}
	prototypes.Store(dt.Type, p)
	common[dt.Kind()].CompareAndSwap(nil, p)
	return p, nil
}

// bytes returns the size in bytes of a tensor of the shape.
func (p *prototype) bytes(shape []int) (int64, error) {
	n, err := dtype.Bytes(p.size, shape)
	if err == nil && n > largest() {
		// Of a copy, so that the caller's shape need not be on the heap.
		err = fmt.Errorf("shape %v: too large, want at most the %d bytes of the machine's memory", append([]int(nil), shape...), largest())
	}
	return n, err
}

// dense returns a tensor of the shape in mem.
func (p *prototype) dense(mem []byte, shape []int) *tensor.Dense {
	d := new(tensor.Dense)
	*wordsOf(d) = *wordsOf(&p.header)
	d.Raw = mem
	if len(shape) == 0 {
		d.AP = tensor.MakeAP(tensor.Shape{}, nil, 0, 0)
		return d
	}
	// One allocation for both. tensor recycles them when the tensor is reshaped, so they must not lie in
	// one object with the header: that would keep the header, and so the block, alive.
	dims := make([]int, 2*len(shape))
	own, strides := dims[:len(shape):len(shape)], dims[len(shape):]
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		own[i], strides[i] = shape[i], step
		step *= shape[i]
	}
	d.AP = tensor.MakeAP(tensor.Shape(own), strides, 0, 0)
	return d
}

// headerWords is a header as numbers. To copy it as such leaves out the write barrier that a copy of pointers has while the
// collector marks, which is a fifth of the time that a tensor takes to make: a program that makes many is always marking.
// The barrier is there for pointers that go to where the collector has looked already, from where it has not. These stay
// where they were as well: a prototype is never changed, nor forgotten, so the collector finds what it refers to there.
type headerWords [unsafe.Sizeof(tensor.Dense{}) / unsafe.Sizeof(uintptr(0))]uintptr

func wordsOf(t *tensor.Dense) *headerWords { return (*headerWords)(unsafe.Pointer(t)) }

func addressOf(t *tensor.Dense) uintptr { return uintptr(unsafe.Pointer(t)) }

// released is the engine of a tensor after Release. Its memory counts as inaccessible, which tensor's
// operations check before they touch it: they return an error, where they would have read or
// overwritten the next owner's data.
type released struct{ tensor.StdEng }

// AllocAccessible returns false.
func (released) AllocAccessible() bool { return false }

var withReleased = tensor.WithEngine(released{})

// markReleased marks the header itself, so that it is known as released for as long as it exists,
// whoever has the block then.
func markReleased(t *tensor.Dense) { withReleased(t) }

// wasGivenUp reports whether t, whose memory is no block, was released and its block given up since.
func wasGivenUp(t *tensor.Dense) bool {
	_, ok := t.Engine().(released)
	return ok
}

// isReleased goes by the flag that the engine left, since Gorgonia replaces engines.
func isReleased(t *tensor.Dense) bool { return !t.IsNativelyAccessible() }

// checkAccess refuses a tensor whose memory the host can't access, such as another device's.
func checkAccess(t *tensor.Dense) error {
	switch {
	case t.IsNativelyAccessible():
		return nil
	case wasGivenUp(t):
		return ErrReleased
	}
	return fmt.Errorf("its engine %T says that the host can't access its memory", t.Engine())
}
