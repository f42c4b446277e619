// Package dtype has what must be known of an element type and a shape before a tensor is given memory that
// the garbage collector does not look into: page-locked memory, or a device's.
package dtype

import (
	"fmt"
	"math"
	"reflect"
)

// HasPointers reports whether values of type t refer to memory that the collector must find.
func HasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return t.Len() > 0 && HasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() { // ranging over Fields would put t on the heap, in every call
			if HasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	}
	return t.Kind() < reflect.Bool || t.Kind() > reflect.Complex128
}

// Bytes returns the size in bytes of a tensor of the shape whose elements take elem bytes, elem > 0: 0 if
// the shape has a 0, elem if it is empty, and math.MaxInt64 if it is more than an int64 counts.
func Bytes(elem int64, shape []int) (int64, error) {
	n, empty := elem, false
	for i, d := range shape {
		switch {
		case d < 0:
			// The copy, which alone goes to the heap, keeps a caller's shape off it.
			return 0, fmt.Errorf("shape %v: dimension %d is %d, want at least 0", append([]int(nil), shape...), i, d)
		case d == 0:
			empty = true
		case n > math.MaxInt64/int64(d):
			n = math.MaxInt64
		default:
			n *= int64(d)
		}
	}
	if empty {
		return 0, nil
	}
	return n, nil
}
