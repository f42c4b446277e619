package graph

// This file reads the unexported fields of Gorgonia's structs. Nothing is written, and nothing unsafe is
// needed but for the one pointer that Read nodes keep.

import (
	"fmt"
	"reflect"
	"unsafe"

	G "gorgonia.org/gorgonia"
)

// gorgonia is the package whose structs are read.
const gorgonia = "gorgonia.org/gorgonia"

// fields reads a struct. The first field that is not as expected is remembered, and makes reading fail.
type fields struct {
	v   reflect.Value
	err error
}

func fieldsOf(x any) *fields {
	v := reflect.ValueOf(x)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return &fields{v: v}
}

// get returns a field of one of the given kinds, or the zero Value.
func (f *fields) get(name string, kinds ...reflect.Kind) reflect.Value {
	if f.err != nil {
		return reflect.Value{}
	}
	field := f.v.FieldByName(name)
	if field.IsValid() {
		for _, k := range kinds {
			if field.Kind() == k {
				return field
			}
		}
	}
	what := "there is none"
	if field.IsValid() {
		what = "it is a " + field.Type().String()
	}
	f.err = fmt.Errorf("field %q of %v: want %v, %s: %w", name, f.v.Type(), kinds[0], what, ErrIncompatible)
	return reflect.Value{}
}

func (f *fields) int(name string) int {
	if v := f.get(name, reflect.Int); v.IsValid() {
		return int(v.Int())
	}
	return 0
}

func (f *fields) uint8(name string) uint8 {
	if v := f.get(name, reflect.Uint8); v.IsValid() {
		return uint8(v.Uint())
	}
	return 0
}

func (f *fields) bool(name string) bool {
	if v := f.get(name, reflect.Bool); v.IsValid() {
		return v.Bool()
	}
	return false
}

func (f *fields) float(name string) float64 {
	if v := f.get(name, reflect.Float64); v.IsValid() {
		return v.Float()
	}
	return 0
}

func (f *fields) string(name string) string {
	if v := f.get(name, reflect.String); v.IsValid() {
		return v.String()
	}
	return ""
}

func (f *fields) ints(name string) []int {
	v := f.get(name, reflect.Slice)
	if !v.IsValid() || v.Type().Elem().Kind() != reflect.Int {
		return nil
	}
	list := make([]int, v.Len())
	for i := range list {
		list[i] = int(v.Index(i).Int())
	}
	return list
}

// inner returns the fields of the struct in an interface or behind a pointer.
func (f *fields) inner(name string) *fields {
	v := f.get(name, reflect.Interface, reflect.Pointer)
	if !v.IsValid() {
		return f
	}
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		if v.IsNil() {
			f.err = fmt.Errorf("field %q of %v is nil: %w", name, f.v.Type(), ErrIncompatible)
			return f
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		f.err = fmt.Errorf("field %q of %v: want a struct, it is a %v: %w", name, f.v.Type(), v.Type(), ErrIncompatible)
		return f
	}
	return &fields{v: v}
}

// valuePointer returns a *G.Value.
func (f *fields) valuePointer(name string) *G.Value {
	v := f.get(name, reflect.Pointer)
	if !v.IsValid() {
		return nil
	}
	if v.Type() != reflect.TypeFor[*G.Value]() {
		f.err = fmt.Errorf("field %q of %v: want a *gorgonia.Value, it is a %v: %w", name, f.v.Type(), v.Type(), ErrIncompatible)
		return nil
	}
	return (*G.Value)(unsafe.Pointer(v.Pointer()))
}

// children returns the addresses of a node's children, in the order of the operands.
func children(n *G.Node) ([]uintptr, error) {
	f := fieldsOf(n)
	v := f.get("children", reflect.Slice)
	if f.err != nil {
		return nil, f.err
	}
	if v.Type().Elem() != reflect.TypeFor[*G.Node]() {
		return nil, fmt.Errorf("field \"children\" of gorgonia.Node is a %v: %w", v.Type(), ErrIncompatible)
	}
	list := make([]uintptr, v.Len())
	for i := range list {
		list[i] = v.Index(i).Pointer()
	}
	return list, nil
}

// group returns the name of the part of the graph that a node belongs to.
func group(n *G.Node) (string, error) {
	f := fieldsOf(n)
	return f.string("group"), f.err
}
