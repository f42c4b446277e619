package pintensor

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"gorgonia.org/tensor"
)

func TestSmoke(t *testing.T) {
	e, err := NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.New(tensor.Float32, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := d.Slice(tensor.S(0, 2))
	if err := e.Release(v.(*tensor.Dense)); !errors.Is(err, ErrNotOwner) {
		t.Fatal(err)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	if err := e.Release(d); !errors.Is(err, ErrReleased) {
		t.Fatal(err)
	}
	d2, _ := e.New(tensor.Float64, 3, 4)
	if err := e.Release(d); !errors.Is(err, ErrReleased) {
		t.Fatal(err)
	}
	_ = d2
	d2 = nil
	for i := 0; e.Stats().Reclaimed == 0 && i < 100; i++ {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if e.Stats().Reclaimed != 1 {
		t.Fatalf("%+v", e.Stats())
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}
func BenchmarkNewRelease(b *testing.B) {
	e, _ := NewEngine()
	b.ReportAllocs()
	for b.Loop() {
		d, _ := e.New(tensor.Float32, 3, 4)
		e.Release(d)
	}
}
