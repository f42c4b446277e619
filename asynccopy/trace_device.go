package asynccopy

// This file has the tracing of a device: how pieces of work get a timing event before and after, and how those become
// spans.
//
// The events are looked at when later work is issued, those of two pieces for each new one: the oldest first, never
// waiting. Close writes what is left. Times are those since a base event, whose own time the host knows. They are floats
// of milliseconds, so that after a second the base moves on: to an event that is close, and whose time is known by then.

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

const (
	maxFollowed = 16384       // pieces of work that are not seen complete
	maxFromBase = time.Second // see above
)

// traced is a device whose work is traced. trace_calls.go has the calls that it passes on.
type traced struct {
	driver.Device
	trace *Trace
	proc  int // of the device in the trace

	base   driver.Event  // guarded by collecting
	baseAt time.Duration // its time in the trace

	collecting atomic.Bool

	mu        sync.Mutex
	threads   map[driver.Stream]int // streams in the trace
	last      int                   // thread
	names     map[driver.Function]string
	capturing map[driver.Stream]bool
	spare     []driver.Event
	followed  []piece // oldest first
	lost      int     // pieces left out
	tried     bool    // Close was
	err       error   // the first that tracing met
}

// piece is a piece of work with its two events.
type piece struct {
	record     record
	bytes      int64
	begin, end driver.Event
}

// traceDevice returns dev with its work traced. If it fails it closes dev.
func traceDevice(t *Trace, dev driver.Device, name string) (*traced, error) {
	d := &traced{
		Device: dev, trace: t, threads: make(map[driver.Stream]int),
		names: make(map[driver.Function]string), capturing: make(map[driver.Stream]bool),
	}
	if err := d.start(); err != nil {
		return nil, fmt.Errorf("asynccopy: trace: %w", errors.Join(err, dev.Close()))
	}
	d.proc = t.device(name)
	return d, nil
}

// start records the base on a stream that is idle: its time lies between the call's and the wait's.
func (d *traced) start() error {
	s, err := d.Device.NewStream(0)
	if err != nil {
		return err
	}
	e, err := d.Device.NewTimingEvent()
	if err != nil {
		return errors.Join(err, d.Device.DestroyStream(s))
	}
	before := d.trace.now()
	err = d.Device.Record(e, s)
	if err == nil {
		err = d.Device.SyncEvent(e)
	}
	d.base, d.baseAt = e, (before+d.trace.now())/2
	err = errors.Join(err, d.Device.DestroyStream(s))
	if err != nil {
		err = errors.Join(err, d.Device.DestroyEvent(e))
	}
	return err
}

// before begins a piece of work on s. It returns false, and all that is given to after then is ignored, if the work
// is not to be followed: while s is captured, when too much is followed, or when the driver fails.
func (d *traced) before(s driver.Stream) (begin driver.Event, ok bool) {
	d.mu.Lock()
	full := len(d.followed) >= maxFollowed
	if full {
		d.lost++
	}
	skip := full || d.capturing[s]
	d.mu.Unlock()
	if skip {
		return 0, false
	}
	return d.mark(s)
}

// mark records a timing event on s.
func (d *traced) mark(s driver.Stream) (driver.Event, bool) {
	d.mu.Lock()
	var e driver.Event
	if n := len(d.spare); n > 0 {
		e = d.spare[n-1]
		d.spare = d.spare[:n-1]
	}
	d.mu.Unlock()
	var err error
	if e == 0 {
		e, err = d.Device.NewTimingEvent()
	}
	if err == nil {
		err = d.Device.Record(e, s)
	}
	if err != nil {
		d.note(err)
		d.reuse(e)
		return 0, false
	}
	return e, true
}

func (d *traced) reuse(events ...driver.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range events {
		if e != 0 {
			d.spare = append(d.spare, e)
		}
	}
}

// note keeps an error of tracing for Close. The work that is traced goes on.
func (d *traced) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
	}
}

// after ends a piece of work that was begun, unless it failed.
func (d *traced) after(s driver.Stream, begin driver.Event, failed error, cat, name string, bytes int64) {
	d.mu.Lock()
	skip := failed != nil || d.capturing[s] // begun by the work itself
	d.mu.Unlock()
	if skip {
		d.reuse(begin)
		return
	}
	end, ok := d.mark(s)
	if !ok {
		d.reuse(begin)
		return
	}
	d.mu.Lock()
	p := piece{begin: begin, end: end, bytes: bytes}
	p.record = record{Name: name, Phase: phaseSpan, Cat: cat, Proc: d.proc, Tid: d.thread(s)}
	d.followed = append(d.followed, p)
	d.mu.Unlock()
	d.collect(2)
}

// thread returns the number of a stream in the trace. The lock is held.
func (d *traced) thread(s driver.Stream) int {
	n, ok := d.threads[s]
	if !ok {
		d.last++
		n = d.last
		d.threads[s] = n
		d.trace.mu.Lock()
		d.trace.name("thread_name", d.proc, n, fmt.Sprintf("stream %d", n))
		d.trace.mu.Unlock()
	}
	return n
}

// collect writes up to n pieces that are complete. One goroutine does so at a time; others leave it to that one.
func (d *traced) collect(n int) {
	if !d.collecting.CompareAndSwap(false, true) {
		return
	}
	defer d.collecting.Store(false)
	for range n {
		p, ok := d.first()
		if !ok {
			return
		}
		done, err := d.Device.Query(p.end)
		if err == nil && !done {
			return
		}
		d.drop()
		if err == nil {
			err = d.report(p)
		}
		if err != nil {
			d.note(err)
			d.reuse(p.begin, p.end)
		}
	}
}

// first returns the oldest piece, and drop removes it. Only the goroutine that collects does so.
func (d *traced) first() (piece, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.followed) == 0 {
		return piece{}, false
	}
	return d.followed[0], true
}

func (d *traced) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followed = d.followed[1:]
}

// report writes a piece that is complete.
func (d *traced) report(p piece) error {
	begin, err := d.Device.Elapsed(d.base, p.begin)
	if err != nil {
		return err
	}
	end, err := d.Device.Elapsed(d.base, p.end)
	if err != nil {
		return err
	}
	p.record.Start, p.record.Took = micros(d.baseAt+begin), micros(end-begin)
	if p.bytes > 0 {
		p.record.Args = map[string]any{"bytes": p.bytes, "GB/s": float64(p.bytes) / float64(max(end-begin, 1))}
	}
	d.trace.mu.Lock()
	d.trace.write(p.record)
	d.trace.mu.Unlock()
	if end > maxFromBase {
		p.end, d.base = d.base, p.end
		d.baseAt += end
	}
	d.reuse(p.begin, p.end)
	return nil
}

// finish waits for what is followed, writes it, and destroys the events. What it can't destroy is left in spare.
func (d *traced) finish() error {
	for p, ok := d.first(); ok; p, ok = d.first() {
		if err := d.Device.SyncEvent(p.end); err != nil {
			d.note(err)
			break
		}
		d.collect(1)
	}
	events := append(d.spare, d.base)
	for _, p := range d.followed {
		events = append(events, p.begin, p.end)
	}
	d.spare, d.followed, d.base = nil, nil, 0
	errs := []error{d.err}
	d.err = nil
	for _, e := range events {
		if e == 0 {
			continue
		}
		if err := d.Device.DestroyEvent(e); err != nil {
			errs = append(errs, err)
			d.spare = append(d.spare, e)
		}
	}
	if d.lost > 0 {
		d.trace.mu.Lock()
		d.trace.write(record{Name: fmt.Sprintf("%d pieces of work left out", d.lost), Phase: phaseInstant,
			Start: micros(d.trace.now()), Proc: d.proc})
		d.trace.mu.Unlock()
		d.lost = 0
	}
	return distinct(errs)
}

// Close closes the device only the second time if something of the trace could not be released or written, so
// that it can be tried again, which Device does.
func (d *traced) Close() error {
	err := d.finish()
	if err != nil && !sticky(err) && !d.tried {
		d.tried = true
		return err
	}
	return errors.Join(err, d.Device.Close())
}
