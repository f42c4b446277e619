package zerocall

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// thing has a method of each kind.
type thing struct {
	base
	n int
}

type base struct{}

func (base) Promoted() { panic("it is left out") }

func (x *thing) Careless() int { return x.n }
func (x *thing) Changes()      { x.count() }
func (x *thing) Looks() error  { return x.wrong() }
func (x *thing) Silent() error { return nil }
func (x *thing) Nameless() error {
	return errors.New("no")
}

func (x *thing) Takes(f func() int, more ...int) error {
	if f == nil {
		return errors.New("thing: Takes: f is nil")
	}
	return fmt.Errorf("thing: Takes: %d, %d", f(), more)
}

func (x *thing) count() {
	if x != nil {
		x.n++
	}
}

func (x *thing) wrong() error {
	if x != nil && x.n > 0 {
		return nil // it was changed by a call before
	}
	return errors.New("thing: Looks: it was not made")
}

type recorder struct {
	testing.TB
	texts []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.texts = append(r.texts, fmt.Sprintf(format, args...))
}

func TestMethods(t *testing.T) {
	for _, c := range []struct {
		v    any
		free []string
		want []string
	}{
		{(*thing)(nil), []string{"Silent", "Nameless"}, []string{
			"Careless of a nil *zerocall.thing with arguments: panic: runtime error: invalid memory address or nil pointer dereference",
			"Careless of a nil *zerocall.thing with zero arguments: panic: runtime error: invalid memory address or nil pointer dereference",
		}},
		{new(thing), nil, []string{
			`Nameless of a new *zerocall.thing with arguments: "no", want an error that begins with "thing: "`,
			`Nameless of a new *zerocall.thing with zero arguments: "no", want an error that begins with "thing: "`,
			"Silent of a new *zerocall.thing with arguments: no error",
			"Silent of a new *zerocall.thing with zero arguments: no error",
		}},
		{base{}, nil, []string{
			"Promoted of a zero zerocall.base with arguments: panic: it is left out",
			"Promoted of a zero zerocall.base with zero arguments: panic: it is left out",
		}},
		{struct{ base }{}, nil, []string{"a zero struct { zerocall.base } has no methods"}},
	} {
		r := &recorder{TB: t}
		Methods(r, c.v, "thing: ", []any{func() int { return 1 }, 2}, c.free...)
		slices.Sort(r.texts)
		if !slices.Equal(r.texts, c.want) {
			t.Errorf("%q, want %q", r.texts, c.want)
		}
	}
}
