//go:build (linux || windows) && (amd64 || arm64)

package cuda

// This file tests on real hardware that it doesn't matter which context other code has left current on a thread.

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
)

// contexts are the calls with which other code makes contexts, as gorgonia.org/cu does.
type contexts struct {
	*frame
	create, destroy, setCurrent, getCurrent symbol
}

func otherCode(t *testing.T, lib *library) *contexts {
	t.Helper()
	lookup, err := openLibrary()
	if err != nil {
		t.Fatal(err)
	}
	c := &contexts{frame: newFrame(lib)}
	for name, s := range map[string]*symbol{
		"cuCtxCreate_v2": &c.create, "cuCtxDestroy_v2": &c.destroy, "cuCtxSetCurrent": &c.setCurrent, "cuCtxGetCurrent": &c.getCurrent,
	} {
		addr, err := lookup(name)
		if err != nil {
			t.Skipf("%s: %v", name, err)
		}
		*s = symbol{name, addr}
	}
	return c
}

func (c *contexts) current(t *testing.T) uintptr {
	t.Helper()
	if err := c.call(&c.getCurrent, c.out(0)); err != nil {
		t.Fatal(err)
	}
	return c.outs[0]
}

// TestWhateverIsCurrentOnHardware does a bit of everything with no context current, with another's, and with one that
// another thread has destroyed.
func TestWhateverIsCurrentOnHardware(t *testing.T) {
	leak.Check(t)
	drv := hardware(t)
	dev, err := drv.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, state := range []string{"none", "another", "destroyed"} {
		t.Run(state, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			c := otherCode(t, drv.lib)
			defer c.free()
			before := c.current(t)
			defer func() { c.code(&c.setCurrent, before) }()
			c.code(&c.setCurrent, 0)
			var foreign uintptr
			if state != "none" {
				if err := c.call(&c.create, c.out(0), 0, 0); err != nil { // which makes it current too
					t.Fatal(err)
				}
				foreign = c.outs[0]
			}
			if state == "destroyed" {
				destroyed := make(chan error)
				go func() {
					other := newFrame(drv.lib)
					defer other.free()
					destroyed <- other.call(&c.destroy, foreign)
				}()
				if err := <-destroyed; err != nil {
					t.Fatal(err)
				}
			}
			if err := everything(drv, dev); err != nil {
				t.Error(err)
			}
			if got := c.current(t); got != foreign {
				t.Errorf("the context %#x is current, want what was before: %#x", got, foreign)
			}
			if state == "another" {
				if err := c.call(&c.destroy, foreign); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// everything makes each kind of call of a driver, and looks at what came of it.
func everything(drv driver.Driver, dev driver.Device) (err error) {
	note := func(failed error) { err = errors.Join(err, failed) }
	const n = 1 << 20
	in, out := bytes.Repeat([]byte{1}, n), make([]byte, n)
	for _, b := range [][]byte{in, out} {
		note(drv.Host().Register(unsafe.Pointer(&b[0]), n))
		defer func() { note(drv.Host().Unregister(unsafe.Pointer(&b[0]))) }()
	}
	again, failed := drv.Open(0)
	note(failed)
	if failed == nil {
		note(again.Close())
	}
	_, _, failed = dev.MemInfo()
	note(failed)
	s, failed := dev.NewStream(0)
	note(failed)
	e, failed := dev.NewEvent()
	note(failed)
	p, failed := dev.Alloc(n)
	note(failed)
	q, failed := dev.AllocAsync(n, s)
	note(failed)
	if err != nil {
		return err
	}
	note(dev.CopyHtoD(p, unsafe.Pointer(&in[0]), n, s, e))
	note(dev.CopyDtoD(q, p, n, s, 0))
	note(dev.Memset(q, 2, n/2, s, 0))
	note(dev.CopyPeer(p, q, dev.Peer(), n, s, e))
	note(dev.WaitEvent(s, e))
	note(dev.CopyDtoH(unsafe.Pointer(&out[0]), p, n, s, e))
	_, failed = dev.Query(e)
	note(failed)
	note(dev.SyncEvent(e))
	if want := append(bytes.Repeat([]byte{2}, n/2), in[n/2:]...); !bytes.Equal(out, want) {
		note(errors.New("other bytes arrived"))
	}
	note(kernels(dev, s))
	note(dev.FreeAsync(q, s))
	note(dev.SyncStream(s))
	note(dev.TrimPool(0))
	note(dev.Free(p))
	note(dev.DestroyEvent(e))
	note(dev.DestroyStream(s))
	return err
}

// kernels launches one by itself and in a graph, between timing events.
func kernels(dev driver.Device, s driver.Stream) (err error) {
	note := func(failed error) { err = errors.Join(err, failed) }
	m, failed := dev.LoadModule(drivertest.Image)
	if failed != nil {
		return failed
	}
	f, failed := dev.Function(m, "spin")
	note(failed)
	from, failed := dev.NewTimingEvent()
	note(failed)
	to, failed := dev.NewTimingEvent()
	note(failed)
	launch := func() { note(dev.Launch(f, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, s, []uint64{1000})) }
	note(dev.Record(from, s))
	launch()
	note(dev.BeginCapture(s))
	launch()
	g, failed := dev.EndCapture(s)
	note(failed)
	note(dev.LaunchGraph(g, s))
	note(dev.Record(to, s))
	note(dev.SyncEvent(to))
	if took, failed := dev.Elapsed(from, to); failed != nil || took <= 0 {
		note(errors.Join(failed, errors.New("two kernels took no time")))
	}
	note(dev.DestroyGraph(g))
	note(dev.DestroyEvent(from))
	note(dev.DestroyEvent(to))
	note(dev.UnloadModule(m))
	return err
}
