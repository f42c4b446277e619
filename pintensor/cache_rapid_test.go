package pintensor

import (
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
)

// The cache as a state machine, against a model that only counts: tensors are made, looked at through
// views, released, dropped, copied from, freed, and the driver fails, in any order.

// The model knows of segments what anybody can: which tensors lie in one, by address.

// tenant is a tensor of the model, or what is left of it.
type tenant struct {
	d     *tensor.Dense // nil when dropped
	view  *tensor.Dense // keeps the memory when d is dropped
	want  int64
	size  int64
	at    uintptr // where the memory starts
	value byte    // what the memory is full of
	works []*work // copies in flight
	holds []Hold
}

func (x *tenant) inFlight() (n int) {
	for _, w := range x.works {
		select {
		case <-w.done:
		default:
			n++
		}
	}
	return n
}

type machine struct {
	e        *Engine
	fake     *fakeHost
	host     *drivertest.FaultyHost
	limit    int64
	cache    int64     // the most that may be cached; 0: no bound
	lent     []*tenant // not released, dropped ones included
	busy     []*tenant // released with copies in flight or holds open; never looked at through d
	released []*tensor.Dense
	reclaims int64
	next     byte
}

func TestCacheAgainstAModel(t *testing.T) {
	leak.Check(t)
	rapid.Check(t, runMachine)
}

func FuzzCacheAgainstAModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(runMachine)) }

func runMachine(t *rapid.T) {
	fake := &fakeHost{name: "cuda"}
	host := drivertest.NewFaultyHost(fake)
	m := &machine{fake: fake, host: host, limit: 1 << 20}
	var err error
	m.cache = rapid.SampledFrom([]int64{0, 0, 1, 100 << 10}).Draw(t, "max cached")
	if m.e, err = NewEngine(WithDriver(host), WithLimit(m.limit), WithMaxCached(m.cache)); err != nil {
		t.Fatal(err)
	}
	m.e.maxWait = 1 // a nanosecond: nothing in flight completes by waiting
	t.Repeat(map[string]func(*rapid.T){
		"new": m.new, "release": m.release, "release again": m.releaseAgain, "view": m.look, "drop": m.drop, "collect": m.collect,
		"hold": m.hold, "copy": m.copy, "complete": m.complete, "trim": m.trim, "trim older": m.trimOlder, "reserve": m.reserve, "driver fails": m.fail, "": m.check,
	})
	m.end(t)
}

func pick[T any](t *rapid.T, from []T) (int, bool) {
	if len(from) == 0 {
		return 0, false
	}
	return rapid.IntRange(0, len(from)-1).Draw(t, "which"), true
}

func (m *machine) new(t *rapid.T) {
	n := rapid.SampledFrom([]int{0, 1, 256, 300, 5_000, 5_100, 20_000, 33_000, 70_000, 200_000}).Draw(t, "bytes")
	d, err := m.e.New(tensor.Uint8, n)
	if err != nil {
		if !errors.Is(err, ErrLimit) && !errors.Is(err, drivertest.ErrInjected) {
			t.Fatal(err)
		}
		m.mayRefuse(t, int64(n), err)
		return
	}
	for i, x := range d.Raw {
		if x != 0 {
			t.Fatalf("byte %d of new memory is %d", i, x)
		}
	}
	m.next++
	x := &tenant{d: d, want: int64(n), value: m.next, at: base(d)}
	if x.at%blockAlign != 0 {
		t.Fatalf("memory at %#x", x.at)
	}
	_, x.size = classOf(int64(n))
	for i := range d.Raw {
		d.Raw[i] = x.value
	}
	m.lent = append(m.lent, x)
}

func (m *machine) release(t *rapid.T) {
	i, ok := pick(t, m.lent)
	if !ok || m.lent[i].d == nil {
		return
	}
	x := m.lent[i]
	if err := m.e.Release(x.d); err != nil && (m.cache == 0 || !errors.Is(err, drivertest.ErrInjected)) {
		t.Fatal(err)
	}
	m.lent = slices.Delete(m.lent, i, i+1) // clears the slot: x refers to the segment, whoever has its blocks later
	m.released = append(m.released, x.d)
	if len(m.released) > 8 {
		m.released = m.released[1:]
	}
	x.view = nil // the caller must not look any more
	if len(x.holds) > 0 || x.inFlight() > 0 {
		m.busy = append(m.busy, x)
	}
}

func (m *machine) releaseAgain(t *rapid.T) {
	if i, ok := pick(t, m.released); ok {
		if err := m.e.Release(m.released[i]); !errors.Is(err, ErrReleased) {
			t.Fatalf("%v, want ErrReleased", err)
		}
	}
}

func (m *machine) look(t *rapid.T) {
	i, ok := pick(t, m.lent)
	if !ok || m.lent[i].d == nil || m.lent[i].want == 0 {
		return
	}
	x := m.lent[i]
	v, err := x.d.Slice(tensor.S(int(x.want)/2, int(x.want)))
	if err != nil {
		t.Fatal(err)
	}
	x.view = v.(*tensor.Dense)
	if err := m.e.Release(x.view); !errors.Is(err, ErrNotOwner) && x.want > 1 {
		t.Fatalf("release of a view: %v, want ErrNotOwner", err)
	}
}

func (m *machine) drop(t *rapid.T) {
	if i, ok := pick(t, m.lent); ok {
		m.lent[i].d = nil
		if rapid.Bool().Draw(t, "the view too") {
			m.lent[i].view = nil
		}
	}
}

// mayRefuse checks that a tensor of n bytes was refused only because what is in use left no room.
func (m *machine) mayRefuse(t *rapid.T, n int64, err error) {
	if slices.ContainsFunc(m.lent, func(x *tenant) bool { return x.d == nil }) || !errors.Is(err, ErrLimit) {
		return // how soon dropped ones come back is the collector's business
	}
	_, size := classOf(n)
	if used := m.e.owned.Load() - m.whole(); size <= m.limit-used-m.stranded() {
		t.Fatalf("%v, with segments of %d bytes in use", err, used)
	}
}

// living returns the tenants that somebody refers to, or a copy, by segment.
func (m *machine) living() map[*segment]int {
	n := make(map[*segment]int)
	for _, x := range append(slices.Clone(m.lent), m.busy...) {
		if x.d != nil || x.view != nil || x.inFlight() > 0 || len(x.holds) > 0 {
			n[blocks.segment(x.at)]++
		}
	}
	return n
}

// whole returns the bytes of cached segments that have no tenant.
func (m *machine) whole() (n int64) {
	inUse := make(map[*segment]bool)
	for _, x := range append(slices.Clone(m.lent), m.busy...) {
		inUse[blocks.segment(x.at)] = true
	}
	for _, x := range blocks.all() {
		if x.s.eng == m.e && !inUse[x.s] {
			n += x.s.bytes()
		}
	}
	return n - m.stranded()
}

// garbage takes what nobody refers to out of the model. What lies in a segment with something that somebody
// refers to is not garbage.
func (m *machine) garbage() {
	if slices.ContainsFunc(m.lent, func(x *tenant) bool { return x.d == nil }) {
		m.released = nil // a header that was released still refers to the segment, whoever has its blocks now
	}
	living := m.living()
	m.lent = slices.DeleteFunc(m.lent, func(x *tenant) bool {
		if living[blocks.segment(x.at)] > 0 {
			return false
		}
		m.reclaims++
		return true
	})
}

func (m *machine) collect(t *rapid.T) {
	m.garbage()
	m.awaitReclaims(t)
}

func (m *machine) awaitReclaims(t *rapid.T) {
	gcUntilRapid(t, func() bool { return m.e.Stats().Reclaimed >= m.reclaims })
	if got := m.e.Stats().Reclaimed; got != m.reclaims {
		t.Fatalf("%d blocks were reclaimed, want %d", got, m.reclaims)
	}
}

func gcUntilRapid(t *rapid.T, ok func() bool) {
	for range 200 {
		if ok() {
			return
		}
		runtime.GC()
		runtime.Gosched()
	}
	t.Fatal("what was dropped is not reclaimed")
}

func (m *machine) hold(t *rapid.T) {
	i, ok := pick(t, m.lent)
	if !ok || m.lent[i].d == nil {
		return
	}
	h, err := Acquire(m.lent[i].d)
	if err != nil || !h.Pinned() {
		t.Fatalf("%+v, %v", h, err)
	}
	m.lent[i].holds = append(m.lent[i].holds, h)
}

// copy ends a hold: with a copy, or without one.
func (m *machine) copy(t *rapid.T) {
	all := append(append([]*tenant(nil), m.lent...), m.busy...)
	i, ok := pick(t, all)
	if !ok || len(all[i].holds) == 0 {
		return
	}
	x := all[i]
	h := x.holds[0]
	x.holds = x.holds[1:]
	if rapid.Bool().Draw(t, "issued") {
		w := newWork()
		x.works = append(x.works, w)
		h.Until(w)
		return
	}
	h.Done()
}

func (m *machine) complete(t *rapid.T) {
	all := append(append([]*tenant(nil), m.lent...), m.busy...)
	i, ok := pick(t, all)
	if !ok || len(all[i].works) == 0 {
		return
	}
	k, _ := pick(t, all[i].works)
	all[i].works[k].complete()
	all[i].works = slices.Delete(all[i].works, k, k+1)
}

func (m *machine) trim(t *rapid.T) {
	keep := rapid.SampledFrom([]int64{0, 64 << 10, 200 << 10}).Draw(t, "keep")
	if _, err := m.e.Trim(keep); err != nil {
		if !errors.Is(err, drivertest.ErrInjected) {
			t.Fatal(err)
		}
		return
	}
	if got, whole := m.e.n.cached.now(), m.whole(); got > keep && whole > 0 {
		t.Fatalf("%d bytes cached, %d of them in segments that are not in use, want at most %d", got, whole, keep)
	}
}

func (m *machine) trimOlder(t *rapid.T) {
	age := rapid.SampledFrom([]time.Duration{0, 0, time.Hour}).Draw(t, "age")
	before, stranded := m.e.Stats().Cached.Current, m.stranded()
	freed, err := m.e.TrimOlder(age)
	if err != nil {
		if !errors.Is(err, drivertest.ErrInjected) {
			t.Fatal(err)
		}
		return
	}
	switch got := m.e.n.cached.now(); {
	case age == 0 && m.whole() != 0:
		t.Fatalf("%d bytes cached, %d of them in segments that are not in use, want none", got, m.whole())
	case age > 0 && (got != before || freed != stranded):
		t.Fatalf("%d bytes freed and %d cached, want %d and %d: nothing is as old", freed, got, stranded, before)
	}
}

func (m *machine) reserve(t *rapid.T) {
	n := rapid.IntRange(0, 4).Draw(t, "blocks")
	size := rapid.SampledFrom([]int64{300, 33_000, 70_000}).Draw(t, "of")
	before := m.e.Stats()
	if err := m.e.Reserve(bg, size, n); err != nil {
		if !errors.Is(err, ErrLimit) && !errors.Is(err, drivertest.ErrInjected) {
			t.Fatal(err)
		}
		return
	}
	_, each := classOf(size)
	if got := m.e.n.cached.now(); got != before.Cached.Current+int64(n)*each {
		t.Fatalf("%d bytes cached, %d before %d blocks of %d were reserved", got, before.Cached.Current, n, each)
	}
}

func (m *machine) fail(t *rapid.T) {
	m.host.Heal()
	if rapid.Bool().Draw(t, "") {
		m.host.FailNth(rapid.SampledFrom([]string{"Register", "Unregister"}).Draw(t, "call"), rapid.IntRange(1, 3).Draw(t, "n"), nil)
	}
}

func (m *machine) check(t *rapid.T) {
	m.e.Stats() // completes what is completed
	m.busy = deleteIf(m.busy, func(x *tenant) bool { return x.inFlight() == 0 && len(x.holds) == 0 })
	// What was dropped may or may not have been reclaimed by now: count only when no collection decides.
	m.garbage()
	m.awaitReclaims(t)
	s := m.e.Stats()
	var requested, lent, busy, inFlight int64
	for _, x := range m.lent {
		requested += x.want
		lent += x.size
		if x.inFlight() > 0 {
			inFlight += x.size
		}
		x.look(t)
	}
	for _, x := range m.busy {
		busy += x.size
		if x.inFlight() > 0 {
			inFlight += x.size
		}
		x.look(t) // a copy may still read it
	}
	if s.Requested.Current != requested || s.Lent.Current != lent || s.InFlight.Current != inFlight {
		t.Fatalf("requested %d, lent %d, in flight %d; want %d, %d, %d", s.Requested.Current, s.Lent.Current, s.InFlight.Current, requested, lent, inFlight)
	}
	// What was dropped and is too much for the cache is given up in a goroutine.
	for deadline := time.Now().Add(time.Second); ; runtime.Gosched() {
		s = m.e.Stats()
		stranded, owned := m.stranded(), m.e.owned.Load()
		sum := lent + busy + s.Cached.Current + stranded
		if owned == sum && s.Registered.Current == owned && m.fake.bytes() == owned {
			break
		}
		if m.cache == 0 || time.Now().After(deadline) {
			t.Fatalf("the engine owns %d, registered %d; lent %d, busy %d, cached %d and stranded %d make %d", owned, s.Registered.Current, lent, busy, s.Cached.Current, stranded, sum)
		}
	}
	if s.Registered.Peak > m.limit {
		t.Fatalf("peak %d, limit %d", s.Registered.Peak, m.limit)
	}
	if m.cache > 0 && m.whole() > m.cache {
		t.Fatalf("%d bytes are cached in segments that are not in use, want at most %d", m.whole(), m.cache)
	}
}

// stranded returns how many bytes the driver did not unregister.
func (m *machine) stranded() (n int64) {
	m.e.strandedMu.Lock()
	defer m.e.strandedMu.Unlock()
	for _, c := range m.e.stranded {
		n += c.b.bytes()
	}
	return n
}

// look checks that nobody else wrote into the memory.
func (x *tenant) look(t *rapid.T) {
	for _, d := range []*tensor.Dense{x.d, x.view} {
		if d == nil {
			continue
		}
		for i, b := range d.Raw {
			if b != x.value {
				t.Fatalf("byte %d of a tensor in use is %d, want %d", i, b, x.value)
			}
		}
	}
}

func (m *machine) end(t *rapid.T) {
	m.host.Heal()
	for _, x := range append(m.lent, m.busy...) {
		for _, w := range x.works {
			w.complete()
		}
		for _, h := range x.holds {
			h.Done()
		}
		x.works, x.holds = nil, nil
		x.d, x.view = nil, nil
	}
	m.busy, m.released = nil, nil
	gcUntilRapid(t, func() bool { return m.e.Stats().Lent.Current == 0 })
	if err := m.e.Close(); err != nil && !errors.Is(err, drivertest.ErrInjected) { // an earlier failure may be reported now
		t.Fatal(err)
	}
	// What a finalizer was putting into the cache as the engine was closed is given up in the background.
	for deadline := time.Now().Add(5 * time.Second); m.e.owned.Load() != 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are left", m.e.owned.Load())
		}
	}
	if m.fake.used != 0 {
		t.Fatalf("%d bytes are left registered", m.fake.used)
	}
}

func deleteIf[T any](s []T, drop func(T) bool) []T {
	var left []T
	for _, x := range s {
		if !drop(x) {
			left = append(left, x)
		}
	}
	return left
}
