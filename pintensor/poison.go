package pintensor

// This file has what finds mistakes: poisoned memory, and checks of the package itself.

import (
	"bytes"
	"reflect"
	"runtime"
	"slices"
	"unsafe"
)

const (
	poisonNaN  = 0xFF // every float32, float64 and complex number of these bytes is a NaN
	poisonByte = 0xCC
)

// poisonOf returns what poison mode fills memory of the type with.
func poisonOf(t reflect.Type) byte {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return poisonNaN
	}
	return poisonByte
}

// scribble destroys what the last tenant of a free block left.
func (b *block) scribble(mem unsafe.Pointer) {
	s := unsafe.Slice((*byte)(mem), b.want)
	b.marks |= poisoned
	if len(s) == 0 {
		return
	}
	s[0] = b.fill
	for done := 1; done < len(s); done *= 2 {
		copy(s[done:], s[:done])
	}
}

// written returns where a free block differs from what scribble left, or -1.
func (b *block) written(mem unsafe.Pointer) int {
	if !b.is(poisoned) {
		return -1
	}
	s := unsafe.Slice((*byte)(mem), b.want)
	if len(s) == 0 || s[0] == b.fill && bytes.Equal(s[1:], s[:len(s)-1]) {
		return -1
	}
	return slices.IndexFunc(s, func(x byte) bool { return x != b.fill })
}

// writtenError says that the block was written to, at the given offset. The caller has taken it from the cache.
func (e *Engine) writtenError(b *block, at int) error {
	err := &WrittenError{Offset: int64(at), Size: b.want}
	var here callers
	runtime.Callers(2, here[:])
	err.Found = here.resolve()
	if e.tracker != nil {
		lent, released := e.tracker.latest(b)
		err.Lent, err.Released = lent.resolve(), released.resolve()
	}
	return err
}

// inspect looks for late writers to blocks that are about to be given up, all those of a segment; c is the first.
// The next call tells of what it finds.
func (e *Engine) inspect(c cached) {
	for _, b := range c.b.all() {
		if at := b.written(unsafe.Add(c.mem, b.lo-c.b.base)); at >= 0 {
			b.marks &^= poisoned // once is enough, if the driver has to be asked again
			e.note(e.writtenError(b, at))
		}
	}
}

// assert panics in invariants builds if the package's own bookkeeping is wrong.
func assert(ok bool, what string) {
	if invariants && !ok {
		panic("pintensor: internal error: " + what)
	}
}
