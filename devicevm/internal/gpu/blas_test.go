package gpu

// This file tests which devices cuBLAS is used on.

import (
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/cublas"
	"github.com/pintensor/pin/devicevm/internal/emulate"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
)

// named is a driver whose host has a name.
type named struct {
	driver.Driver
	name string
}

type namedHost struct {
	driver.Host
	name string
}

func (d named) Host() driver.Host { return namedHost{d.Driver.Host(), d.name} }
func (h namedHost) Name() string  { return h.name }

// cuBLAS given the host's addresses, which an emulated device has, would crash the process.
func TestBLASIsForCUDAAlone(t *testing.T) {
	leak.Check(t)
	for name, want := range map[string]bool{"cuda": true, emulate.Open(t).Host().Name(): false} {
		loaded := false
		before := loadBLAS
		t.Cleanup(func() { loadBLAS = before })
		loadBLAS = func() (*cublas.Library, error) {
			loaded = true
			return nil, cublas.ErrUnavailable
		}
		dev, err := asynccopy.OpenDriver(named{emulate.Open(t), name}, 0)
		check(t, err)
		s, err := dev.NewStream()
		check(t, err)
		m, err := Open(s)
		check(t, err)
		check(t, m.Close())
		check(t, s.Close())
		check(t, dev.Close())
		if loaded != want {
			t.Errorf("on a device of the host %q, cuBLAS was loaded: %v, want %v", name, loaded, want)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
