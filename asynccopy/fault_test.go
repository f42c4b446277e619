package asynccopy_test

// This file makes every driver call fail at every point, and work fail after it was issued.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// attempt is what a script works on, and the errors that it got.
type attempt struct {
	r       *rig
	a, b    *asynccopy.Stream
	pinned  *tensor.Dense
	onA     *asynccopy.Tensor
	failing []error
	staged  int // bytes of a copy in several chunks
}

// note collects the errors of calls, which are all expected to be the injected one.
func (t *attempt) note(err error) bool {
	if err != nil {
		t.failing = append(t.failing, err)
	}
	return err == nil
}

// scripts use every call of the package.
var scripts = map[string]func(t *attempt){
	"ToDevice pinned":   func(t *attempt) { t.upload(t.pinned, true) },
	"ToDevice blocking": func(t *attempt) { t.upload(t.pinned, false) },
	"ToDevice small":    func(t *attempt) { t.upload(pageable(1000, 1), true) },
	"ToDevice staged":   func(t *attempt) { t.upload(pageable(t.staged, 1), true) },
	"ToDeviceInto": func(t *attempt) {
		down, err := t.b.ToHost(t.onA, true)
		if t.note(err) {
			t.land(down)
		}
		if t.note(t.b.ToDeviceInto(t.onA, t.pinned, true)) {
			t.note(t.onA.Wait(context.Background()))
		}
	},
	"ToDeviceBatchInto": func(t *attempt) {
		other, err := t.a.Empty(tensor.Uint8, t.pinned.Shape()...)
		if !t.note(err) {
			return
		}
		t.note(other.Use(t.a))
		if t.note(t.b.ToDeviceBatchInto([]*asynccopy.Tensor{t.onA, other}, []*tensor.Dense{t.pinned, t.pinned}, true)) {
			t.note(other.Wait(context.Background()))
		}
		t.note(other.Release())
	},
	"ToDeviceBatchInto mixed": func(t *attempt) {
		ts := []*tensor.Dense{t.pinned, pageable(4096, 2), t.pinned, pageable(t.staged, 3)}
		xs := []*asynccopy.Tensor{t.onA}
		for _, host := range ts[1:] {
			x, err := t.a.Empty(tensor.Uint8, host.Shape()...)
			if t.note(err) {
				defer func() { t.note(x.Release()) }()
				xs = append(xs, x)
			}
		}
		if len(xs) == len(ts) {
			t.note(t.b.ToDeviceBatchInto(xs, ts, false))
			used := xs[:0]
			for _, x := range xs {
				if t.note(x.Use(t.a)) {
					used = append(used, x)
				}
			}
			t.note(t.a.Used(used...))
		}
	},
	"Copy": func(t *attempt) {
		y, err := t.b.Copy(t.onA, false)
		if !t.note(err) {
			return
		}
		t.note(t.a.CopyInto(t.onA, y, false))
		t.note(y.Release())
	},
	"ToHostInto staged": func(t *attempt) {
		e, err := t.b.ToHostInto(pageable(4096, 2), t.onA, true)
		if t.note(err) {
			t.note(e.Wait(context.Background()))
		}
	},
	"ToHostInto pinned": func(t *attempt) {
		_, err := t.b.ToHostInto(t.pinned, t.onA, false)
		t.note(err)
	},
	"Record, Wait, Use": func(t *attempt) {
		e, err := t.a.Record()
		if t.note(err) {
			t.note(t.b.Wait(e))
			t.note(e.Wait(cancellable()))
		}
		t.note(t.onA.Use(t.b))
		t.note(t.a.ToDeviceInto(t.onA, t.pinned, true))
		t.note(t.b.Synchronize(cancellable()))
		t.note(t.b.Synchronize(context.Background()))
	},
	"Release used": func(t *attempt) {
		if down, err := t.b.ToHost(t.onA, true); t.note(err) {
			t.land(down)
		}
		t.note(t.onA.Use(t.b))
		t.note(t.onA.Release())
	},
	"ToDeviceBatch": func(t *attempt) {
		large, err := t.r.engine.New(tensor.Uint8, 64<<10)
		if err != nil {
			panic(err)
		}
		xs, err := t.a.ToDeviceBatch([]*tensor.Dense{t.pinned, pageable(t.staged, 1), large, pageable(3, 1), large}, true)
		t.r.release(large)
		if !t.note(err) {
			return
		}
		t.note(xs[0].Wait(context.Background()))
		for _, x := range xs {
			t.note(x.Release())
		}
	},
	"Trim": func(t *attempt) {
		t.upload(t.pinned, true)
		t.note(t.r.dev.Trim())
	},
	"NewStream": func(t *attempt) {
		if s, err := t.r.dev.NewStream(); t.note(err) {
			x, err := s.Empty(tensor.Uint8, 100)
			t.note(err)
			t.note(s.Close())
			if x != nil {
				t.note(x.Release())
			}
		}
		_, _, err := t.r.dev.MemInfo()
		t.note(err)
		_, err = t.r.dev.Default()
		t.note(err)
		t.note(t.r.dev.Synchronize(context.Background()))
	},
	"Close": func(t *attempt) {
		t.upload(t.pinned, true)
		t.note(t.r.dev.Close())
	},
}

func cancellable() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	context.AfterFunc(context.Background(), cancel)
	return ctx
}

// upload copies src to the device and back.
func (t *attempt) upload(src *tensor.Dense, nonBlocking bool) {
	x, err := t.a.ToDevice(src, nonBlocking)
	if !t.note(err) {
		return
	}
	if t.note(x.Wait(context.Background())) {
		if down, err := t.a.ToHost(x, true); t.note(err) {
			t.land(down)
		}
	}
	t.note(x.Release())
}

func (t *attempt) land(down *asynccopy.Download) {
	host, err := down.Wait(context.Background())
	if t.note(err) {
		t.r.release(host)
		return
	}
	// Not the copy but asking for it failed: it is still to come.
	if host, err := down.Wait(context.Background()); err == nil {
		t.r.release(host)
	}
}

// TestEveryCallFails runs each script once for each driver call in it, which then fails. The device must
// stay usable, nothing may be left, and somebody must be told.
func TestEveryCallFails(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, pool := range []bool{true, false} {
			for name, script := range scripts {
				t.Run(fmt.Sprintf("%s/late=%v,pool=%v", name, late, pool), func(t *testing.T) {
					for nth := 1; failNth(t, script, nth, late, pool); nth++ {
						if nth > 500 {
							t.Fatal("the script has no end")
						}
					}
				})
			}
		}
	}
}

var errInjected = &driver.Error{Call: "injected", Code: 999, Name: "CUDA_ERROR_UNKNOWN", Text: "unknown error"}

// failNth reports whether the script made that many calls.
func failNth(t *testing.T, script func(*attempt), nth int, late, pool bool) bool {
	leak.Check(t)
	var drv driver.Driver = soft.New(soft.Config{Host: locking{}, Late: late})
	if !pool {
		drv = plain{drv}
	}
	faulty := drivertest.NewFaulty(drivertest.Checked(t, drv))
	r := &rig{TB: t, drv: faulty}
	r.engine = must(pintensor.NewEngine(pintensor.WithDriver(locking{})))(t)
	r.dev = must(asynccopy.OpenDriver(faulty, 0))(t)
	r.dev.SetEngine(r.engine)
	a := &attempt{r: r, a: r.stream(), b: r.stream(), pinned: r.pinned(4096, 1)}
	a.onA = must(a.a.ToDevice(a.pinned, true))(t)
	if a.staged = 1 << 20; pool && !late {
		a.staged = longest()
	}

	before := faulty.Calls("")
	faulty.FailNth("", nth, errInjected)
	script(a)
	reached := faulty.Calls("")-before >= nth
	faulty.Heal()

	for _, err := range a.failing {
		if !errors.Is(err, errInjected) {
			t.Errorf("call %d fails: %v, which is not the injected error", nth, err)
		}
		seen := make(map[string]bool)
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !strings.HasPrefix(line, "asynccopy: ") || strings.Count(line, "asynccopy: ") > 1 || seen[line] {
				t.Errorf("call %d fails: %q, want lines that are all different and begin with the package's name, once", nth, err)
			}
			seen[line] = true
		}
	}
	told := len(a.failing) > 0
	if r.dev.Stats().Streams > 0 { // not closed by the script
		told = a.a.Synchronize(context.Background()) != nil || told
		x := must(a.a.ToDevice(a.pinned, true))(t)
		r.holds(a.b, x, 1)
		r.ok(x.Release())
		a.onA.Release() // the script may have done it
	}
	told = r.dev.Close() != nil || told
	if reached && !told {
		t.Errorf("call %d failed and nobody was told", nth)
	}
	r.release(a.pinned)
	r.checkEmpty()
	return reached && !t.Failed()
}

// TestOneKindOfCallAlwaysFails: nothing may hang or be left, whatever the device refuses to do.
func TestOneKindOfCallAlwaysFails(t *testing.T) {
	for _, call := range []string{"AllocAsync", "NewEvent", "Record", "Query", "SyncEvent", "SyncStream", "WaitEvent", "CopyHtoD", "CopyDtoH", "NewStream", "TrimPool"} {
		t.Run(call, func(t *testing.T) {
			for _, script := range scripts {
				leak.Check(t)
				faulty := drivertest.NewFaulty(drivertest.Checked(t, soft.New(soft.Config{Host: locking{}})))
				r := &rig{TB: t, drv: faulty}
				r.engine = must(pintensor.NewEngine(pintensor.WithDriver(locking{})))(t)
				r.dev = must(asynccopy.OpenDriver(faulty, 0))(t)
				r.dev.SetEngine(r.engine)
				a := &attempt{r: r, a: r.stream(), b: r.stream(), pinned: r.pinned(4096, 1)}
				a.onA = must(a.a.ToDevice(a.pinned, true))(t)
				a.staged = longest()
				faulty.FailAll(call)
				script(a)
				r.dev.Close()
				r.release(a.pinned)
				settle(r)
				r.checkEmpty()
			}
		})
	}
}

// halfway is a driver whose copies to the host are issued and then said to have failed, as when the event
// can't be recorded.
type halfway struct{ driver.Driver }

func (h halfway) Open(ordinal int) (driver.Device, error) {
	d, err := h.Driver.Open(ordinal)
	return halfwayDevice{d}, err
}

type halfwayDevice struct{ driver.Device }

func (h halfwayDevice) CopyDtoH(dst unsafe.Pointer, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	return errors.Join(h.Device.CopyDtoH(dst, src, n, s, 0), errInjected)
}

// TestCopyFailsAfterItWasIssued: the device still writes to memory whose copy failed, so nobody else may
// have it yet.
func TestCopyFailsAfterItWasIssued(t *testing.T) {
	for _, syncFails := range []bool{false, true} {
		faulty := drivertest.NewFaulty(halfway{soft.New(soft.Config{Host: locking{}, Late: true})})
		r := newRig(t, faulty)
		s := r.stream()
		x := must(s.ToDevice(pageable(64<<10, 1), true))(t)
		dst := r.pinned(64<<10, 2)
		if syncFails {
			faulty.FailNth("SyncStream", 1, nil)
		}
		if _, err := s.ToHostInto(dst, x, true); !errors.Is(err, errInjected) {
			t.Fatalf("ToHostInto: %v, want the injected error", err)
		}
		r.release(dst)
		guard := r.pinned(64<<10, 3)
		s.Synchronize(t.Context())
		r.ok(s.Synchronize(t.Context()))
		r.is(guard, 3)
		r.release(guard)
		r.ok(x.Release())
	}
}

// TestStagedCopyFailsAfterItWasIssued is the same for the chunks of a copy.
func TestStagedCopyFailsAfterItWasIssued(t *testing.T) {
	r := newRig(t, halfway{soft.New(soft.Config{Host: locking{}, Late: true})})
	s := r.stream()
	x := must(s.ToDevice(pageable(2*asynccopy.Smallest, 1), false))(t)
	e := must(s.ToHostInto(pageable(2*asynccopy.Smallest, 2), x, true))(t)
	if err := e.Wait(t.Context()); !errors.Is(err, errInjected) {
		t.Fatalf("Wait: %v, want the injected error", err)
	}
	var guards []*tensor.Dense
	for range 4 {
		guards = append(guards, r.pinned(asynccopy.Smallest, 3))
	}
	s.Synchronize(t.Context())
	r.ok(s.Synchronize(t.Context()))
	for _, g := range guards {
		r.is(g, 3)
		r.release(g)
	}
	r.ok(x.Release())
}

func TestFailedToDeviceLeavesNoTensor(t *testing.T) {
	faulty := drivertest.NewFaulty(soft.New(soft.Config{Host: locking{}}))
	r := newRig(t, faulty)
	s := r.stream()
	faulty.FailNth("CopyHtoD", 1, errInjected)
	if _, err := s.ToDevice(pageable(10, 1), true); !errors.Is(err, errInjected) {
		t.Fatalf("ToDevice: %v, want the injected error", err)
	}
	if st := r.dev.Stats(); st.Tensors != 0 || st.Memory.Current != 0 {
		t.Errorf("%d tensors of %d bytes are left", st.Tensors, st.Memory.Current)
	}
}

// TestWorkFailsLater: a sticky error is reported by Wait and by every call afterwards, typed.
func TestWorkFailsLater(t *testing.T) {
	cause := &driver.Error{Call: "kernel", Code: driver.CodeIllegalAddress, Name: "CUDA_ERROR_ILLEGAL_ADDRESS", Text: "an illegal memory access was encountered"}
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late=%v", late), func(t *testing.T) {
			var failing atomic.Bool
			proceed := make(chan struct{})
			r := &rig{TB: t}
			leak.Check(t)
			drv := drivertest.Checked(t, soft.New(soft.Config{Host: locking{}, Late: late, Fail: func(soft.Op) error {
				if failing.Load() {
					<-proceed
					return cause
				}
				return nil
			}}))
			r.engine = must(pintensor.NewEngine(pintensor.WithDriver(locking{})))(t)
			r.dev = must(asynccopy.OpenDriver(drv, 0))(t)
			r.dev.SetEngine(r.engine)
			s := r.stream()
			p := r.pinned(4096, 1)
			good := must(s.ToDevice(p, false))(t)
			failing.Store(true)
			x := must(s.ToDevice(p, true))(t)
			close(proceed)
			down, err := s.ToHost(good, true)
			if err == nil {
				_, err = down.Wait(t.Context())
			}
			isSticky(t, "Download.Wait", err, cause)
			isSticky(t, "Tensor.Wait", x.Wait(t.Context()), cause)
			if done, err := x.Ready().Done(); !done || !errors.Is(err, cause) {
				t.Errorf("Done() = %v, %v, want true and the error", done, err)
			}
			_, err = s.ToDevice(p, true)
			isSticky(t, "ToDevice", err, cause)
			_, err = s.Record()
			isSticky(t, "Record", err, cause)
			isSticky(t, "Synchronize", s.Synchronize(t.Context()), cause)
			_, err = r.dev.NewStream()
			isSticky(t, "NewStream", err, cause)
			x.Release()
			good.Release()
			isSticky(t, "Close", r.dev.Close(), cause)
			r.ok(r.dev.Close())
			r.release(p)
			r.checkEmpty()
		})
	}
}

func isSticky(t *testing.T, call string, err error, cause *driver.Error) {
	t.Helper()
	var typed *asynccopy.DriverError
	if !errors.As(err, &typed) || typed.Code != cause.Code {
		t.Errorf("%s on a device that failed: %v, want a DriverError of code %d", call, err, cause.Code)
		return
	}
	if !strings.Contains(err.Error(), "kernel: an illegal memory access was encountered (700)") || !strings.HasPrefix(err.Error(), "asynccopy: ") {
		t.Errorf("%s: %q does not say what failed", call, err)
	}
	if n := strings.Count(err.Error(), "lost to this process"); n != 1 {
		t.Errorf("%s: %q says %d times that the device is lost, and what to do", call, err, n)
	}
}

// TestStagedCopyFails: the error reaches whoever uses what never arrived, and the next call.
func TestStagedCopyFails(t *testing.T) {
	faulty := drivertest.NewFaulty(soft.New(soft.Config{Host: locking{}}))
	r := newRig(t, faulty)
	s := r.stream()
	faulty.FailNth("CopyHtoD", 2, errInjected)
	x := must(s.ToDevice(pageable(4<<20, 1), true))(t)
	if err := x.Wait(t.Context()); !errors.Is(err, errInjected) {
		t.Errorf("Wait: %v, want the injected error", err)
	}
	if err := s.Synchronize(t.Context()); !errors.Is(err, errInjected) {
		t.Errorf("the next call: %v, want the injected error", err)
	}
	r.ok(s.Synchronize(t.Context()))
	_, err := s.ToHost(x, true)
	refused(t, "ToHost of contents that never arrived", err, "ToHost: ", "never arrived", "injected: unknown error (999)")
	if !errors.Is(err, errInjected) {
		t.Errorf("ToHost of contents that never arrived: %v, want the injected error", err)
	}
	for range 2 {
		err := x.Use(s)
		refused(t, "Use of contents that never arrived", err, "Use: ", "never arrived", "injected: unknown error (999)")
		if !errors.Is(err, errInjected) {
			t.Errorf("Use of contents that never arrived: %v, want the injected error", err)
		}
	}
	r.ok(s.ToDeviceInto(x, pageable(4<<20, 2), true))
	r.ok(x.Use(s))
	r.holds(s, x, 2)
	r.ok(x.Release())
}
