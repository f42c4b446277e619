package asynccopy_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

func TestSmoke(t *testing.T) {
	for _, late := range []bool{false, true} {
		leak.Check(t)
		d, err := asynccopy.OpenDriver(drivertest.Checked(t, soft.New(soft.Config{Late: late})), 0)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := d.NewStream()
		for _, n := range []int{0, 1, 100, 1 << 20, 5<<20 + 3} {
			for _, nb := range []bool{false, true} {
				a := tensor.New(tensor.WithShape(n), tensor.Of(tensor.Float32))
				for i := range n {
					a.Float32s()[i] = float32(i)
				}
				p, _ := pintensor.Pin(a)
				for _, src := range []*tensor.Dense{a, p} {
					x, err := s.ToDevice(src, nb)
					if err != nil {
						t.Fatal(err)
					}
					dl, err := s.ToHost(x, nb)
					if err != nil {
						t.Fatal(err)
					}
					h, err := dl.Wait(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(h.Raw, a.Raw) {
						t.Fatal("differs", n, nb)
					}
					into := tensor.New(tensor.WithShape(n), tensor.Of(tensor.Float32))
					e, err := s.ToHostInto(into, x, nb)
					if err != nil {
						t.Fatal(err)
					}
					if err := e.Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(into.Raw, a.Raw) {
						t.Fatal("into differs", n, nb)
					}
					if err := x.Release(); err != nil {
						t.Fatal(err)
					}
					pintensor.Release(h)
				}
				pintensor.Release(p)
			}
		}
		t.Logf("%+v", d.Stats())
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", d.Stats())
		t.Logf("%+v", pintensor.Default().Stats())
	}
}
