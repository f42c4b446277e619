package pintensor

// This file tests registrations of neighbours, and those that the program drops.

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
)

// bytesOn returns a tensor of n bytes that begins on a page.
func bytesOn(t testing.TB, n int) *tensor.Dense {
	t.Helper()
	d := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(n+int(pageSize)))
	past := int(base(d) % pageSize)
	from := (int(pageSize) - past) % int(pageSize)
	return slice(t, d, tensor.S(from, from+n))
}

func TestNeighboursOnAPage(t *testing.T) {
	e, other := newRig(t), newRig(t)
	page := int(pageSize)
	d := bytesOn(t, 3*page)
	a, b, c := slice(t, d, tensor.S(100, page+10)), slice(t, d, tensor.S(page+10, page+20)), slice(t, d, tensor.S(page+20, 3*page))
	inA := must[func() error](t)(e.Register(a))
	if e.IsPinned(b) || e.IsPinned(d) || e.IsPinned(slice(t, d, tensor.S(page, page+20))) {
		t.Error("other memory than that of the tensor counts as pinned")
	}
	inB, inC := must[func() error](t)(e.Register(b)), must[func() error](t)(e.Register(c))
	for name, x := range map[string]*tensor.Dense{"a byte of two": slice(t, d, tensor.S(page+9, page+11)), "all": d, "a part": slice(t, d, tensor.S(200, 300))} {
		_, err := other.Register(x)
		if want := "has memory in common with a tensor given to Register before"; !errors.Is(err, ErrOverlap) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if s := e.Stats(); s.InPlace.Current != 3*int64(page) || s.Registered != s.InPlace || s.InPlace.Total != 3*int64(page) {
		t.Errorf("%+v in place, %+v registered; want each of 3 pages once", s.InPlace, s.Registered)
	}
	if err := inB(); err != nil {
		t.Fatal(err)
	}
	if !e.IsPinned(a) || e.IsPinned(b) || !e.IsPinned(c) || e.Stats().InPlace.Current != 3*int64(page) {
		t.Errorf("pinned %v, %v and %v, %d bytes; want the others of the page still pinned", e.IsPinned(a), e.IsPinned(b), e.IsPinned(c), e.Stats().InPlace.Current)
	}
	if err := inA(); err != nil {
		t.Fatal(err)
	}
	if got := e.Stats().InPlace.Current; got != 2*int64(page) {
		t.Errorf("%d bytes in place, want the 2 pages of the last", got)
	}
	elsewhere := must[func() error](t)(other.Register(a)) // the engines' figures are apart
	if err := errors.Join(inC(), elsewhere()); err != nil {
		t.Fatal(err)
	}
	if a, b := e.Stats().InPlace.Current, other.Stats().InPlace.Current; a != 0 || b != 0 {
		t.Errorf("%d and %d bytes in place at the end", a, b)
	}
}

// CUDA knows of registrations that the package does not: another library's, say.
func TestMemoryThatOthersHaveRegistered(t *testing.T) {
	e := newRig(t)
	d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(1000))
	e.host.FailNth("Register", 1, &driver.Error{Call: "cuMemHostRegister", Code: driver.CodeAlreadyRegister, Text: "already registered"})
	_, err := e.Register(d)
	var cause *driver.Error
	if !errors.Is(err, ErrOverlap) || !errors.As(err, &cause) || e.IsPinned(d) {
		t.Errorf("%v, want ErrOverlap and the driver's error", err)
	}
	if err := must[func() error](t)(e.Register(d))(); err != nil {
		t.Errorf("when it is registered no more: %v", err)
	}
}

// watched is memory that tells when the collector takes it.
type watched struct {
	e    rig
	fake *fakeHost
	mem  *tensor.Dense
	gone chan bool
}

// newWatched returns an engine, and a tensor whose memory is checked never to be collected while it is registered.
func newWatched(t *testing.T, opts ...Option) *watched {
	t.Helper()
	fake := &fakeHost{name: "cuda"}
	w := &watched{e: newRigOver(t, fake, opts...), fake: fake, gone: make(chan bool, 1)}
	mem := make([]byte, 100<<10)
	mem[77] = 77
	at := uintptr(unsafe.Pointer(&mem[0]))
	runtime.SetFinalizer(&mem[0], func(*byte) {
		fake.mu.Lock()
		_, registered := fake.sizes[at]
		fake.mu.Unlock()
		w.gone <- registered
	})
	w.mem = tensor.New(tensor.WithShape(len(mem)), tensor.WithBacking(mem))
	return w
}

// collected waits until the memory is collected.
func (w *watched) collected(t *testing.T) {
	t.Helper()
	gcUntil(t, "the memory is collected", func() bool { return len(w.gone) == 1 })
	if len(w.gone) == 1 && <-w.gone {
		t.Error("memory was collected that was registered")
	}
}

// stays looks that collections change nothing.
func (w *watched) stays(t *testing.T, why string) {
	t.Helper()
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if s := w.e.Stats(); s.InPlace.Current == 0 || s.Forgotten != 0 || len(w.gone) != 0 {
		t.Errorf("%s: %d bytes are registered, %d forgotten, collected: %v", why, s.InPlace.Current, s.Forgotten, len(w.gone) != 0)
	}
}

func TestARegistrationThatIsDroppedIsUndone(t *testing.T) {
	w := newWatched(t)
	view := slice(t, w.mem, tensor.S(70, 80))
	unregister := must[func() error](t)(w.e.Register(w.mem))
	w.stays(t, "all is kept")
	w.mem = nil
	w.stays(t, "unregister is kept")
	runtime.KeepAlive(unregister)
	unregister = nil
	gcUntil(t, "the registration is undone", func() bool { return w.e.Stats().Reclaimed == 1 })
	if s := w.e.Stats(); s.InPlace.Current != 0 || s.Forgotten != 1 || w.e.IsPinned(view) {
		t.Errorf("%d bytes are registered, %d forgotten, a view is pinned: %v; want 0, 1, false", s.InPlace.Current, s.Forgotten, w.e.IsPinned(view))
	}
	if got := view.Data().([]byte)[7]; got != 77 || len(w.gone) != 0 {
		t.Errorf("what is left of the view is %d, want 77; collected: %v", got, len(w.gone) != 0)
	}
	view = nil
	w.collected(t)
}

func TestARegistrationStaysWhileTheTensorDoes(t *testing.T) {
	w := newWatched(t)
	must[func() error](t)(w.e.Register(w.mem))
	w.stays(t, "the tensor is kept")
	if !w.e.IsPinned(w.mem) {
		t.Error("the tensor is not pinned any more")
	}
	w.mem = nil
	w.collected(t)
	waitUntil(t, "it is counted", func() bool { return w.e.Stats().Reclaimed == 1 })
}

func TestADroppedRegistrationWaitsForItsCopies(t *testing.T) {
	w := newWatched(t)
	hold, copying := Hold{}, newWork()
	func() {
		must[func() error](t)(w.e.Register(w.mem))
		view := slice(t, w.mem, tensor.S(10, 20))
		useBy(t, view, copying)
		hold = must[Hold](t)(Acquire(view))
		w.mem = nil
	}()
	abandoned := func(when string) {
		t.Helper()
		gcUntil(t, "the registration is abandoned", func() bool { return w.e.Stats().Reclaimed == 1 })
		if s := w.e.Stats(); s.InPlace.Current == 0 || w.e.host.Calls("Unregister") != 0 || len(w.gone) != 0 {
			t.Fatalf("%s: %d bytes are registered, the driver was asked %d times; want it to wait", when, s.InPlace.Current, w.e.host.Calls("Unregister"))
		}
	}
	abandoned("a hold and a copy")
	hold.Done()
	abandoned("a copy")
	copying.complete()
	if s := w.e.Stats(); s.InPlace.Current != 0 || s.InFlight.Current != 0 {
		t.Errorf("when all is done: %d bytes are registered, %d in flight", s.InPlace.Current, s.InFlight.Current)
	}
	hold = Hold{}
	w.collected(t)
}

func TestADroppedRegistrationThatTheDriverKeeps(t *testing.T) {
	broken := errors.New("broken")
	w := newWatched(t)
	w.e.host.FailNth("Unregister", 1, broken)
	w.e.host.FailNth("Unregister", 2, broken)
	func() {
		must[func() error](t)(w.e.Register(w.mem))
		w.mem = nil
	}()
	gcUntil(t, "the registration is abandoned", func() bool { return w.e.Stats().Reclaimed == 1 })
	if s := w.e.Stats(); s.InPlace.Current == 0 {
		t.Error("counts as unregistered, which the driver refused")
	}
	if _, err := w.e.Trim(0); !errors.Is(err, broken) {
		t.Errorf("the next call: %v, want what the driver said", err)
	}
	runtime.GC()
	if _, err := w.e.Trim(0); err != nil || w.e.host.Calls("Unregister") != 3 {
		t.Errorf("the third attempt: %v, %d calls", err, w.e.host.Calls("Unregister"))
	}
	w.collected(t)
}

func TestUnregisterAfterAllLeavesNothingToUndo(t *testing.T) {
	w := newWatched(t)
	for range 50 { // the tensor must not remember them
		if err := must[func() error](t)(w.e.Register(w.mem))(); err != nil {
			t.Fatal(err)
		}
	}
	w.mem = nil
	w.collected(t)
	if s := w.e.Stats(); s.Reclaimed != 0 || s.Forgotten != 0 || w.e.host.Calls("Unregister") != 50 {
		t.Errorf("%d reclaimed, %d forgotten, %d calls; want 0, 0, 50", s.Reclaimed, s.Forgotten, w.e.host.Calls("Unregister"))
	}
}

func TestLeaksNameRegistrations(t *testing.T) {
	e := newRig(t, WithLeakTracking())
	d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(30, 10))
	unregister := must[func() error](t)(e.Register(d))
	l := e.Leaks()
	if len(l) != 1 || !l[0].Registered || l[0].Bytes != 1200 || !l[0].Shape.Eq(tensor.Shape{30, 10}) || !strings.HasSuffix(l[0].Callers[0].Function, ".TestLeaksNameRegistrations") {
		t.Errorf("%v", l)
	}
	if text := l[0].String(); !strings.HasPrefix(text, "1200 bytes, float32 of shape (30, 10), registered ") {
		t.Error(text)
	}
	if err := unregister(); err != nil || len(e.Leaks()) != 0 {
		t.Errorf("%v, leaks %v", err, e.Leaks())
	}
	func() {
		must[func() error](t)(e.Register(tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(5000))))
	}()
	gcUntil(t, "the registration is undone", func() bool { return e.Stats().Reclaimed == 1 })
	f := e.Forgotten()
	if len(f) != 1 || !f[0].Registered || f[0].Bytes != 5000 || !strings.HasPrefix(f[0].String(), "1 tensor, 5000 bytes, never unregistered, registered at") || len(e.Leaks()) != 0 {
		t.Errorf("%v; leaks %v", f, e.Leaks())
	}
}

// Neighbours come and go at once; each has its memory to itself while it is registered.
func TestNeighboursAtOnce(t *testing.T) {
	e := newRig(t)
	const goroutines, each = 8, 5000
	d := bytesOn(t, goroutines*each)
	var all sync.WaitGroup
	for g := range goroutines {
		own := slice(t, d, tensor.S(g*each, (g+1)*each))
		all.Go(func() {
			for range 200 {
				unregister, err := e.Register(own)
				if err != nil || !e.IsPinned(own) {
					t.Errorf("%v, pinned %v", err, e.IsPinned(own))
					return
				}
				h, err := Acquire(own)
				if err != nil || !h.Pinned() {
					t.Errorf("a hold: %v, pinned %v", err, h.Pinned())
				}
				h.Done()
				if err := unregister(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := e.Stats().InPlace; got.Current != 0 || got.Peak < int64(pageSize) {
		t.Errorf("%+v", got)
	}
}

// claim is a registration of the model.
type claim struct {
	from, to   int
	d          *tensor.Dense
	unregister func() error
	hold       Hold
}

// TestRegistrationsAgainstAModel registers parts of one piece of memory, unregisters and drops them, with holds
// and a driver that fails: what is registered is always exactly what the model says.
func TestRegistrationsAgainstAModel(t *testing.T) {
	leak.Check(t)
	rapid.Check(t, func(t *rapid.T) {
		fake := &fakeHost{name: "cuda"}
		faulty := drivertest.NewFaultyHost(fake)
		e, err := NewEngine(WithDriver(faulty))
		if err != nil {
			t.Fatal(err)
		}
		page := int(pageSize)
		memory := make([]byte, 12*page)
		from := (page - int(uintptr(unsafe.Pointer(&memory[0]))%pageSize)) % page
		memory = memory[from : from+10*page]
		var live []*claim
		dropped := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			faulty.Heal()
			broken := rapid.IntRange(0, 4).Draw(t, "broken") == 0
			if broken {
				faulty.FailAll("")
			}
			i, some := pick(t, live)
			switch action := rapid.SampledFrom([]string{"register", "register", "unregister", "hold", "drop"}).Draw(t, "action"); {
			case action == "register":
				c := &claim{from: rapid.IntRange(0, len(memory)-1).Draw(t, "from")}
				c.to = c.from + rapid.IntRange(1, min(3*page, len(memory)-c.from)).Draw(t, "n")
				c.d = tensor.New(tensor.WithShape(c.to-c.from), tensor.WithBacking(memory[c.from:c.to]))
				overlaps := false
				for _, x := range live {
					overlaps = overlaps || c.from < x.to && x.from < c.to
				}
				c.unregister, err = e.Register(c.d)
				switch {
				case overlaps && !errors.Is(err, ErrOverlap), !overlaps && broken != errors.Is(err, drivertest.ErrInjected), !overlaps && !broken && err != nil:
					t.Fatalf("overlaps %v, broken %v: %v", overlaps, broken, err)
				case err == nil:
					live = append(live, c)
				}
			case action == "unregister" && some:
				held := live[i].hold != Hold{}
				err := live[i].unregister()
				if held != errors.Is(err, ErrInUse) || !held && broken != errors.Is(err, drivertest.ErrInjected) {
					t.Fatalf("held %v, broken %v: %v", held, broken, err)
				}
				if err == nil {
					live = slices.Delete(live, i, i+1)
				}
			case action == "hold" && some && live[i].hold != Hold{}:
				live[i].hold.Done()
				live[i].hold = Hold{}
			case action == "hold" && some:
				if live[i].hold, err = Acquire(live[i].d); err != nil || !live[i].hold.Pinned() {
					t.Fatalf("%+v, %v", live[i].hold, err)
				}
			case action == "drop" && some && !broken:
				hold := live[i].hold
				live = slices.Delete(live, i, i+1)
				dropped++
				gcUntilRapid(t, func() bool { return e.Stats().Reclaimed == dropped })
				hold.Done() // the last of it
			}
			pages := make(map[int]bool)
			for _, c := range live {
				for p := c.from / page; p <= (c.to-1)/page; p++ {
					pages[p] = true
				}
				if n := fake.size(memory[c.from:]); n != int64(c.to-c.from) || !e.IsPinned(c.d) {
					t.Fatalf("bytes %d to %d: the driver has registered %d of them, pinned: %v", c.from, c.to, n, e.IsPinned(c.d))
				}
			}
			if s := e.Stats(); s.InPlace.Current != int64(len(pages)*page) || s.Registered.Current != s.InPlace.Current || s.Forgotten != dropped || fake.count() != len(live) {
				t.Fatalf("%+v in place, %d forgotten, %d registrations; want %d pages, %d, %d", s.InPlace, s.Forgotten, fake.count(), len(pages), dropped, len(live))
			}
		}
		faulty.Heal()
		for _, c := range live {
			c.hold.Done()
			if err := c.unregister(); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Close(); err != nil || fake.count() != 0 || len(e.edges.n) != 0 {
			t.Fatalf("%v, %d registrations and %d pages are left", err, fake.count(), len(e.edges.n))
		}
	})
}

func (h *fakeHost) size(mem []byte) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sizes[uintptr(unsafe.Pointer(unsafe.SliceData(mem)))]
}

func (h *fakeHost) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sizes)
}

// BenchmarkRegister page-locks memory in place and undoes it, through the host that programs have: CUDA, or the system
// within its limit. With fake=true it is what the engine adds to that.
func BenchmarkRegister(b *testing.B) {
	for _, fake := range []bool{true, false} {
		for _, size := range append(slices.Clone(benchSizes), 256<<20) {
			b.Run(fmt.Sprintf("fake=%v/size=%s", fake, sizeName(size)), func(b *testing.B) {
				e := must[*Engine](b)(NewEngine())
				if fake {
					e = benchEngine(b)
				}
				defer e.Close()
				d := written(tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(size+100)))
				part := slice(b, d, tensor.S(100, size+100)) // of any alignment
				if unregister, err := e.Register(part); err != nil {
					b.Skipf("the system does not lock that much: %v", err)
				} else if err := unregister(); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					unregister, err := e.Register(part)
					if err != nil {
						b.Fatal(err)
					}
					if err := unregister(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
