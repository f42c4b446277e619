package pintensor

// This file has leak tracking: which calls in the program lent what is not back.

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"gorgonia.org/tensor"
)

const (
	maxCallers = 16  // frames that are remembered of a call, those of this package included
	maxPlaces  = 256 // places in the program that Forgotten tells apart
)

// WithLeakTracking makes the engine remember which call of the program lent each tensor: [Engine.Leaks] lists
// what is lent now, and [Engine.Forgotten] the places whose tensors the garbage collector had to give back
// since nobody released them. It serves tests, and the search for where memory goes: New and Release
// take about three times as long, and goroutines wait for each other. An engine without it pays nothing.
func WithLeakTracking() Option {
	return func(e *Engine) error {
		e.tracker = newTracker()
		return nil
	}
}

// Leak is memory that is lent, registered or held: no leak if it is still needed.
type Leak struct {
	Bytes      int64         // what was asked for
	Dtype      tensor.Dtype  // the zero Dtype for memory of Alloc, which isn't told
	Shape      tensor.Shape  // when it was lent; nil for memory of Alloc, empty for scalars
	Registered bool          // the program's own memory, which Register page-locks
	Held       bool          // an open Hold on memory, which may have been released meanwhile
	Age        time.Duration // since it was lent, registered or held
	Callers    []Caller      // of New, Empty, Pin, Register, Acquire or Alloc, the innermost first, at most 16
}

// Forgotten is a place in a program that lent tensors which were dropped without Release, or registered some
// which were dropped with their unregister functions.
type Forgotten struct {
	Count      int64     // tensors so far
	Bytes      int64     // what was asked for, for all of them
	Registered bool      // by Register
	Latest     time.Time // when the latest was given back by the collector
	Callers    []Caller  // as in Leak; none for all places beyond the first 256 together
}

// Caller is a line of a program.
type Caller struct {
	Function string // with its package's path
	File     string
	Line     int
}

// String returns the file, the line and the function.
func (c Caller) String() string { return fmt.Sprintf("%s:%d %s", c.File, c.Line, c.Function) }

// String returns several lines, the callers one to a line.
func (l Leak) String() string {
	what := "memory of Alloc"
	if l.Dtype.Type != nil {
		what = fmt.Sprintf("%v of shape %v", l.Dtype, l.Shape)
	}
	how := "lent"
	switch {
	case l.Held:
		how = "held"
	case l.Registered:
		how = "registered"
	}
	return fmt.Sprintf("%d bytes, %s, %s %v ago at", l.Bytes, what, how, l.Age.Round(time.Millisecond)) + lines(l.Callers)
}

// String returns several lines, the callers one to a line.
func (f Forgotten) String() string {
	how := "released, lent"
	if f.Registered {
		how = "unregistered, registered"
	}
	what := "tensors"
	if f.Count == 1 {
		what = "tensor"
	}
	return fmt.Sprintf("%d %s, %d bytes, never %s at", f.Count, what, f.Bytes, how) + lines(f.Callers)
}

func lines(callers []Caller) string {
	if len(callers) == 0 {
		return " other places"
	}
	var s strings.Builder
	for _, c := range callers {
		s.WriteString("\n\t" + c.String())
	}
	return s.String()
}

// Leaks returns what is lent, registered or held now, the oldest first: tensors of New, Empty and Pin that were not
// released, those given to Register and not unregistered, holds of Acquire that have not ended, and memory of
// Alloc. Tensors that were dropped are among them until the garbage collector finds them.
// Without WithLeakTracking it returns nil.
func (e *Engine) Leaks() []Leak {
	if e == nil || e.tracker == nil {
		return nil
	}
	loans := e.tracker.list()
	slices.SortFunc(loans, func(a, b loan) int { return a.at.Compare(b.at) })
	leaks := make([]Leak, 0, len(loans))
	for _, l := range loans {
		leaks = append(leaks, Leak{
			Bytes: l.bytes, Dtype: l.dtype, Shape: slices.Clone(l.shape), Registered: l.registered, Held: l.held,
			Age: time.Since(l.at), Callers: l.from.resolve(),
		})
	}
	return leaks
}

// Forgotten returns the places in the program that made tensors of New, Empty or Pin which nobody released and
// the garbage collector gave back, or registrations that it undid, those with the most first. Their Counts make
// Stats.Forgotten. Without WithLeakTracking it returns nil.
func (e *Engine) Forgotten() []Forgotten {
	if e == nil || e.tracker == nil {
		return nil
	}
	found := e.tracker.places()
	slices.SortFunc(found, func(a, b Forgotten) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Latest.Compare(a.Latest))
	})
	return found
}

// tracker is what WithLeakTracking remembers. It must not refer to memory, or that would never be dropped.
type tracker struct {
	mu        sync.Mutex // taken with a block's held, so none of those is taken under it
	loans     map[*block]loan
	holds     map[holdKey]loan
	returned  map[*block]lease       // the latest that ended, of each block, for WrittenError
	forgotten map[callers]*Forgotten // at most maxPlaces, and the zero callers for the rest
}

func newTracker() *tracker {
	return &tracker{
		loans: make(map[*block]loan), holds: make(map[holdKey]loan),
		returned: make(map[*block]lease), forgotten: make(map[callers]*Forgotten),
	}
}

// holdKey is an open hold.
type holdKey struct {
	b      *block
	serial uint32
}

// lease is the two calls that a lease begins and ends with.
type lease struct{ lent, released callers }

// loan is one lease of a block.
type loan struct {
	bytes int64
	dtype tensor.Dtype
	shape tensor.Shape
	at    time.Time
	from  callers

	registered, held bool
}

// callers is a call, as program counters; unused ones are 0.
type callers [maxCallers]uintptr

// lent notes that b was lent for t, or by Alloc if t is nil.
func (k *tracker) lent(b *block, n int64, t *tensor.Dense) {
	l := loan{bytes: n, at: time.Now(), registered: b.foreign}
	if t != nil {
		l.dtype, l.shape = t.Dtype(), slices.Clone(t.Shape())
	}
	runtime.Callers(3, l.from[:]) // 3: the caller of what called lent
	k.mu.Lock()
	k.loans[b] = l
	k.mu.Unlock()
}

// held notes a hold that Acquire gives, on n bytes of t, or of a buffer if t is nil.
func (k *tracker) held(b *block, serial uint32, n int64, t *tensor.Dense) {
	l := loan{bytes: n, at: time.Now(), held: true}
	if t != nil {
		l.dtype, l.shape = t.Dtype(), slices.Clone(t.Shape())
	}
	runtime.Callers(3, l.from[:])
	k.mu.Lock()
	k.holds[holdKey{b, serial}] = l
	k.mu.Unlock()
}

// unheld notes that it is over.
func (k *tracker) unheld(b *block, serial uint32) {
	k.mu.Lock()
	delete(k.holds, holdKey{b, serial})
	k.mu.Unlock()
}

// latest returns the calls that lent and released a block that is free.
func (k *tracker) latest(b *block) (lent, released callers) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.returned[b]
	return l.lent, l.released
}

// forget has what is known of a segment that is given up.
func (k *tracker) forget(s *segment) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range s.all() {
		delete(k.returned, b)
	}
}

// ended notes that the lease of b is over, because it was forgotten or in order.
func (k *tracker) ended(b *block, wasForgotten bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, ok := k.loans[b]
	if !ok {
		return
	}
	delete(k.loans, b)
	if b.eng.poison {
		back := lease{lent: l.from}
		runtime.Callers(3, back.released[:])
		k.returned[b] = back
	}
	if !wasForgotten {
		return
	}
	place := k.forgotten[l.from]
	if place == nil && len(k.forgotten) >= maxPlaces {
		l.from = callers{}
		place = k.forgotten[l.from]
	}
	if place == nil {
		place = &Forgotten{Registered: l.registered && l.from != callers{}}
		k.forgotten[l.from] = place
	}
	place.Count++
	place.Bytes += l.bytes
	place.Latest = time.Now()
}

func (k *tracker) list() []loan {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]loan, 0, len(k.loans))
	for _, l := range k.loans {
		all = append(all, l)
	}
	for _, l := range k.holds {
		all = append(all, l)
	}
	return all
}

func (k *tracker) places() []Forgotten {
	k.mu.Lock()
	all := make([]Forgotten, 0, len(k.forgotten))
	from := make([]callers, 0, len(k.forgotten))
	for c, f := range k.forgotten {
		all, from = append(all, *f), append(from, c)
	}
	k.mu.Unlock()
	merged := all[:0] // calls on one line are one place
	for i, f := range all {
		f.Callers = from[i].resolve() // looks into tables of the program, which takes its time
		k := slices.IndexFunc(merged, func(m Forgotten) bool { return slices.Equal(m.Callers, f.Callers) })
		if k < 0 {
			merged = append(merged, f)
			continue
		}
		m := &merged[k]
		m.Count, m.Bytes = m.Count+f.Count, m.Bytes+f.Bytes
		if f.Latest.After(m.Latest) {
			m.Latest = f.Latest
		}
	}
	return merged
}

// ownPath is what the names of this package's functions begin with.
var ownPath = reflect.TypeFor[Engine]().PkgPath() + "."

// resolve returns the lines, without those of this package, its tests apart, and of the runtime.
func (c callers) resolve() []Caller {
	var found []Caller
	n := slices.Index(c[:], 0)
	if n < 0 {
		n = len(c)
	}
	if n == 0 {
		return nil
	}
	for frames := runtime.CallersFrames(c[:n]); ; {
		f, more := frames.Next()
		own := strings.HasPrefix(f.Function, ownPath) && !strings.HasSuffix(f.File, "_test.go")
		if !own && f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") {
			found = append(found, Caller{f.Function, f.File, f.Line})
		}
		if !more {
			return found
		}
	}
}
