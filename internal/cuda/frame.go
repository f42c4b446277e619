package cuda

// This file calls symbols, without allocating, and makes errors of their results.

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

const (
	success            = 0
	notReady           = 600
	contextIsDestroyed = 709
)

// frame has the arguments and results of calls. A frame is on the heap and stays where it is, so the
// library may be given addresses in it: a call with arguments of its own would allocate them each time.
type frame struct {
	lib  *library
	args [11]uintptr
	outs [3]uintptr // results that the library writes through a pointer

	params params // of launches

	pushed bool    // a Device's context is current for it
	spare  uintptr // the context for a call that could do without but for what the thread has current, or 0
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func newFrame(l *library) *frame {
	f := frames.Get().(*frame)
	f.lib, f.pushed, f.spare = l, false, 0
	return f
}

func (f *frame) free() { frames.Put(f) }

// out returns the address of a result, which is zeroed first: the library may write only 32 bits of it.
func (f *frame) out(i int) uintptr {
	f.outs[i] = 0
	return uintptr(unsafe.Pointer(&f.outs[i]))
}

// code calls s and returns its CUresult. Arguments that are addresses must be of objects on the heap that
// the caller keeps alive until code has returned; those of f are.
func (f *frame) code(s *symbol, args ...uintptr) int {
	n := copy(f.args[:], args)
	r := int(int32(invoke(s.addr, f.args[:n]...)))
	if f.spare != 0 && (r == driver.CodeInvalidContext || r == contextIsDestroyed) {
		r = f.again(s, n, r)
	}
	runtime.KeepAlive(f)
	return r
}

// again repeats a call that the library refused for what was current on the thread, with the context that it takes
// its stream or event from current. That context stays until the end of the Device's call.
func (f *frame) again(s *symbol, n, refused int) int {
	args, ctx := f.args, f.spare
	f.spare = 0
	if f.push(ctx) != nil {
		return refused // by that context too, then
	}
	f.pushed = true
	f.args = args
	return int(int32(invoke(s.addr, f.args[:n]...)))
}

// call is code with the result as an error.
func (f *frame) call(s *symbol, args ...uintptr) error {
	if code := f.code(s, args...); code != success {
		return f.failure(s, code)
	}
	return nil
}

// callEscaping is call for pointers to Go variables, converted in the call expression: they are put on
// the heap and kept alive. On a stack they could move before the library is reached. It allocates.
//
//go:uintptrescapes
func (f *frame) callEscaping(s *symbol, args ...uintptr) error { return f.call(s, args...) }

// failure describes a result of s.
func (f *frame) failure(s *symbol, code int) error {
	return &driver.Error{
		Call: s.name,
		Code: code,
		Name: f.describe(&f.lib.getErrorName, code, "CUDA_ERROR"),
		Text: f.describe(&f.lib.getErrorString, code, "unrecognized error code"),
	}
}

// refuse is the error of a call that the library would not survive, or would misunderstand.
func (f *frame) refuse(s *symbol, code int, format string, args ...any) error {
	return &driver.Error{Call: s.name, Code: code, Name: f.describe(&f.lib.getErrorName, code, "CUDA_ERROR"), Text: fmt.Sprintf(format, args...)}
}

// describe asks the library about a result.
func (f *frame) describe(s *symbol, code int, otherwise string) string {
	if f.code(s, uintptr(code), f.out(0)) != success || f.outs[0] == 0 {
		return otherwise
	}
	// A static C string: loaded as a pointer because it was never one of Go's.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&f.outs[0]))
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
