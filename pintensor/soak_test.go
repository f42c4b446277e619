package pintensor

// This file has the soak test: everything that can be done with an engine, by many goroutines at once, for as long
// as is asked for. `make soak` runs it for a minute; the tests, for a moment.

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/drivertest"
)

const (
	soakers    = 64
	soakLimit  = 32 << 20
	soakCached = 8 << 20
)

func TestSoak(t *testing.T) {
	lasts := 400 * time.Millisecond
	if s := os.Getenv("SOAK"); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil {
			t.Fatalf("SOAK is %q, want a duration such as 60s: %v", s, err)
		}
	}
	for name, opts := range map[string][]Option{
		"plain":               {WithLimit(soakLimit)},
		"poisoned_and_traced": {WithLimit(soakLimit), WithMaxCached(soakCached), WithPoison(), WithLeakTracking()},
	} {
		t.Run(name, func(t *testing.T) { soak(t, lasts/2, opts) })
	}
}

// soaking is one run.
type soaking struct {
	*testing.T
	e     rig
	fake  *fakeHost
	until time.Time

	tags                              atomic.Uint64 // what memory is filled with; no two owners have the same
	done, refused, failed             atomic.Int64  // calls
	dropped, droppedAllocs, abandoned atomic.Int64  // what is left to the collector
}

func soak(t *testing.T, lasts time.Duration, opts []Option) {
	fake := &fakeHost{name: "cuda"}
	s := &soaking{T: t, fake: fake, e: newRigOver(t, fake, opts...), until: time.Now().Add(lasts)}
	s.e.maxWait = time.Second
	s.e.smallest = 0 // segments of several blocks too
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	for g := range soakers {
		all.Go(func() { (&soaker{soaking: s, random: rand.New(rand.NewPCG(seed, uint64(g)))}).run() })
	}
	all.Go(s.disturb)
	all.Wait()
	s.finish()
}

// disturb makes calls of the driver fail, and looks at the figures, which must always be possible ones.
func (s *soaking) disturb() {
	var last Stats
	for time.Now().Before(s.until) {
		s.e.host.FailNth([]string{"Register", "Unregister"}[rand.IntN(2)], 1+rand.IntN(50), nil)
		time.Sleep(5 * time.Millisecond)
		if owned := s.e.owned.Load(); owned < 0 || owned > soakLimit {
			s.Errorf("the engine has %d bytes, of at most %d", owned, soakLimit)
		}
		if st := s.e.Stats(); st.Lent.Current < 0 || st.Cached.Current < 0 || st.InFlight.Current < 0 || st.InPlace.Current < 0 {
			s.Errorf("%+v", st)
		} else if st.Lent.Peak < last.Lent.Peak || st.Cached.Peak < last.Cached.Peak || st.Requested.Peak < last.Requested.Peak ||
			st.Lent.Peak < st.Lent.Current || st.Cached.Peak < st.Cached.Current {
			s.Errorf("peaks that fall, or are less than what there is: %+v, after %+v", st, last)
		} else {
			last = st
		}
		s.e.Leaks()
		s.e.Locked()
	}
	s.e.host.Heal()
}

// finish checks that everything comes back.
func (s *soaking) finish() {
	e := s.e
	gcUntil(s, "all is back", func() bool {
		_, err := e.TrimOlder(time.Hour) // only asks the driver again for what it refused
		s.allowed(err)
		st := e.Stats()
		return st.Lent.Current == 0 && st.InFlight.Current == 0 && st.InPlace.Current == 0
	})
	want := s.dropped.Load() + s.abandoned.Load()
	gcUntil(s, "all that was dropped is counted", func() bool {
		st := e.Stats()
		return st.Reclaimed >= want+s.droppedAllocs.Load() && st.Forgotten >= want
	})
	st := e.Stats()
	if st.Forgotten != want || st.Reclaimed != want+s.droppedAllocs.Load() {
		s.Errorf("%d were forgotten and %d reclaimed, want %d and %d", st.Forgotten, st.Reclaimed, want, want+s.droppedAllocs.Load())
	}
	if st.Registered.Peak > soakLimit+st.InPlace.Peak {
		s.Errorf("at most %d bytes were registered, want at most %d and the %d of Register", st.Registered.Peak, soakLimit, st.InPlace.Peak)
	}
	if st.Lent.Peak > soakLimit || st.Cached.Peak > soakLimit || st.Requested.Peak > st.Lent.Peak {
		s.Errorf("peaks that can't have been: at most %d bytes: %+v", soakLimit, st)
	}
	if l := e.Leaks(); len(l) != 0 {
		s.Errorf("%d leaks: %v", len(l), l[0])
	}
	e.takeErr() // of calls that were made to fail
	if _, err := e.Trim(0); err != nil {
		s.Error(err)
	}
	waitUntil(s, "all is given up", func() bool { return e.owned.Load() == 0 && s.fake.count() == 0 })
	s.Logf("%d calls, %d at the limit, %d that the driver failed; %v", s.done.Load(), s.refused.Load(), s.failed.Load(), st)
}

// soaker is one goroutine, and what it owns.
type soaker struct {
	*soaking
	random *rand.Rand
	own    []*soaked
	shared []byte // for Register, in parts that share pages
}

// soaked is memory with known contents.
type soaked struct {
	d          *tensor.Dense // nil when it was dropped, and a view is left
	view       []byte
	tag        uint64
	unregister func() error // of memory given to Register; nil for others
}

func (k *soaker) run() {
	k.shared = make([]byte, 64<<10)
	for time.Now().Before(k.until) && !k.Failed() {
		k.step()
	}
	for len(k.own) > 0 {
		k.give()
	}
}

func (k *soaker) step() {
	k.done.Add(1)
	switch n := k.random.IntN(100); {
	case n < 30 || len(k.own) == 0:
		k.take()
	case n < 35:
		k.pin()
	case n < 40:
		k.register()
	case n < 45:
		k.alloc()
	case n < 60:
		k.copy()
	case n < 75:
		k.own[k.random.IntN(len(k.own))].check(k)
	case n < 98 || len(k.own) > 4:
		k.give()
	case n < 99:
		_, err := k.e.Trim(k.random.Int64N(soakLimit))
		k.allowed(err)
		_, err = k.e.TrimOlder(time.Duration(k.random.Int64N(int64(20 * time.Millisecond))))
		k.allowed(err)
	default:
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		err := k.e.Reserve(ctx, k.size(), k.random.IntN(3))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			k.allowed(err)
		}
	}
}

// allowed reports whether err is nil, and fails the test if it is none that may be.
func (s *soaking) allowed(err error) bool {
	switch {
	case err == nil:
		return true
	case errors.Is(err, ErrLimit):
		s.refused.Add(1)
	case errors.Is(err, drivertest.ErrInjected):
		s.failed.Add(1)
	default:
		s.Error(err)
	}
	return false
}

// size is small more often than large.
func (k *soaker) size() int64 { return 1 + k.random.Int64N(1<<(3+k.random.IntN(17))) }

// owns fills memory, which must be zeros.
func (k *soaker) owns(x *soaked) {
	x.tag = k.tags.Add(1)
	for i := 0; i < len(x.view); i += x.stride() {
		if b := x.view[i]; x.unregister == nil && b != 0 {
			k.Errorf("byte %d of %d new ones is %#x", i, len(x.view), b)
			break
		}
	}
	for i := 0; i < len(x.view); i += x.stride() {
		x.view[i] = x.at(i)
	}
	k.own = append(k.own, x)
}

// stride leaves bytes of large memory out, so that the test spends its time elsewhere.
func (x *soaked) stride() int { return 1 + len(x.view)/10_000 }

// at is what byte i is to be.
func (x *soaked) at(i int) byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], x.tag*0x9E3779B97F4A7C15)
	return b[(i/x.stride())%8]
}

func (x *soaked) check(k *soaker) {
	for i := 0; i < len(x.view); i += x.stride() {
		if x.view[i] != x.at(i) {
			k.Errorf("byte %d of %d is %#x, want %#x: somebody else wrote to memory that is lent", i, len(x.view), x.view[i], x.at(i))
			return
		}
	}
}

func (k *soaker) take() {
	d, err := k.e.New(tensor.Uint8, int(k.size()))
	if k.allowed(err) {
		k.owns(&soaked{d: d, view: d.Data().([]byte)})
	}
}

// pin copies every other row of a matrix.
func (k *soaker) pin() {
	const rows, row = 20, 500
	src := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(rows, row))
	fill := byte(k.tags.Add(1))
	for i := range src.Raw {
		src.Raw[i] = fill + byte(i/row)
	}
	d, err := k.e.Pin(slice(k, src, nil, tensor.S(0, row/2)))
	if !k.allowed(err) {
		return
	}
	data := d.Data().([]byte)
	for i, b := range data {
		if want := fill + byte(i/(row/2)); b != want {
			k.Errorf("byte %d of a pinned copy is %#x, want %#x", i, b, want)
			break
		}
	}
	clear(data)
	k.owns(&soaked{d: d, view: data})
}

// register page-locks a part of the goroutine's own memory that is not registered yet.
func (k *soaker) register() {
	const part = 5000
	at := k.random.IntN(len(k.shared)/part) * part
	mem := k.shared[at : at+part]
	d := tensor.New(tensor.WithShape(part), tensor.WithBacking(mem))
	unregister, err := k.e.Register(d)
	if errors.Is(err, ErrOverlap) { // one of its own, or one that was dropped and is registered still
		return
	}
	if k.allowed(err) {
		k.owns(&soaked{d: d, view: mem, unregister: unregister})
	}
}

// alloc has memory as package tensor does, and gives it back or leaves it to the collector.
func (k *soaker) alloc() {
	size := k.size()
	mem, err := k.e.Alloc(size)
	if !k.allowed(err) {
		return
	}
	x := &soaked{view: mem.(*memory).bytes()}
	k.owns(x)
	x.check(k)
	k.forget(len(k.own) - 1)
	if k.random.IntN(2) == 0 {
		k.droppedAllocs.Add(1)
		return
	}
	if err := k.e.Free(mem, size); err != nil && !errors.Is(err, drivertest.ErrInjected) {
		k.Error(err)
	}
}

func (m *memory) bytes() []byte { return unsafe.Slice((*byte)(m.p), m.n) }

// copy has a device read a tensor, which the goroutine may give back meanwhile.
func (k *soaker) copy() {
	x := k.own[k.random.IntN(len(k.own))]
	if x.d == nil {
		return
	}
	hold, err := Acquire(x.d)
	if err != nil {
		k.Error(err)
		return
	}
	if k.random.IntN(10) == 0 {
		hold.Done()
		return
	}
	hold.Until(&soakCopy{k: k, tag: x.tag, from: base(x.d), n: len(x.view), at: time.Now().Add(time.Duration(k.random.IntN(2_000_000)))})
}

// give gives a tensor back, in one of the ways in which programs do.
func (k *soaker) give() {
	i := k.random.IntN(len(k.own))
	x := k.own[i]
	x.check(k)
	drops := k.random.IntN(8) == 0
	switch {
	case x.d != nil && drops && x.unregister == nil && k.random.IntN(2) == 0:
		x.d = nil // a view is left
		k.dropped.Add(1)
		return
	case x.d == nil: // and is dropped now
	case drops && x.unregister != nil:
		k.abandoned.Add(1)
	case drops:
		k.dropped.Add(1)
	case x.unregister != nil:
		if err := x.unregister(); err != nil {
			k.allowed(err) // it stays registered
			return
		}
	default:
		if err := k.e.Release(x.d); err != nil && !errors.Is(err, drivertest.ErrInjected) {
			k.Error(err)
		}
	}
	k.forget(i)
}

// forget refers to what it owned no more.
func (k *soaker) forget(i int) {
	*k.own[i] = soaked{}
	last := len(k.own) - 1
	k.own[i], k.own[last] = k.own[last], nil
	k.own = k.own[:last]
}

// soakCopy is a device's work that reads memory when it completes. Like a device it knows an address and keeps
// nothing alive.
type soakCopy struct {
	k    *soaker
	tag  uint64
	from uintptr
	n    int
	at   time.Time
	read sync.Once
}

func (c *soakCopy) Done() (bool, error) {
	if time.Now().Before(c.at) {
		return false, nil
	}
	c.read.Do(func() {
		x := soaked{tag: c.tag, view: unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&c.from))), c.n)}
		x.check(c.k)
	})
	return true, nil
}

func (c *soakCopy) Wait(ctx context.Context) error {
	select {
	case <-time.After(time.Until(c.at)):
		_, err := c.Done()
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
