package asynccopy

// This file has Trace: spans of time, written as they end.
//
// The format is Chrome's trace event format in its array form
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), of which Perfetto reads a file
// that was cut off too. Spans on one track must not overlap unless one is inside the other. Those of a stream
// never do; those of the program may, so each goes to the first row of its track that is free.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Trace writes what ran when: copies, kernels and waits of the devices that were opened [WithTrace], a track for
// each stream, and what the program adds with [Trace.Span]. Open the file in https://ui.perfetto.dev or
// chrome://tracing.
//
// A nil *Trace is one that nobody wants: its methods do nothing, and cost nothing. A zero Trace, which NewTrace did not
// make, writes nothing, and its Close says so. All methods may be called from any goroutine.
type Trace struct {
	start time.Time

	mu      sync.Mutex
	out     *bufio.Writer
	err     error // the first that writing met
	closed  bool
	began   bool // something was written
	devices int
	tracks  map[string][]row
	threads int // of the host
}

// row is a row of a track.
type row struct {
	thread int
	busy   bool
}

// record is a line of the file.
type record struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"` // X: a span; M: a name for a process or thread; i: an instant
	Cat   string         `json:"cat,omitempty"`
	Start float64        `json:"ts"` // µs
	Took  float64        `json:"dur"`
	Proc  int            `json:"pid"`
	Tid   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

const (
	phaseSpan    = "X"
	phaseName    = "M"
	phaseInstant = "i"

	hostProc = 0
)

// NewTrace returns a trace that writes to w until its Close, through a buffer of 64 KiB. It keeps nothing of what
// it has written. w need not be safe for concurrent use, and is not closed.
func NewTrace(w io.Writer) *Trace {
	t := &Trace{start: time.Now(), tracks: make(map[string][]row)}
	if w == nil {
		w, t.err = io.Discard, errors.New("w of NewTrace is nil, want an io.Writer")
	}
	t.out = bufio.NewWriterSize(w, 64<<10)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.name("process_name", hostProc, 0, "host")
	return t
}

// Span is a span of time that has begun. The zero Span is of no trace.
type Span struct {
	trace       *Trace
	track, name string
	row         int
	start       time.Duration
}

// Span begins a span with a name, on a track with a name, such as "loader". Spans that overlap on one track are
// drawn below each other. End ends it, on any goroutine.
func (t *Trace) Span(track, name string) Span {
	if t == nil {
		return Span{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || !t.made() {
		return Span{}
	}
	return Span{trace: t, track: track, name: name, row: t.row(track), start: t.now()}
}

// row takes the first row of a track that is free.
func (t *Trace) row(name string) int {
	rows := t.tracks[name]
	for i := range rows {
		if !rows[i].busy {
			rows[i].busy = true
			return i
		}
	}
	t.threads++
	t.tracks[name] = append(rows, row{thread: t.threads, busy: true})
	if n := len(rows); n > 0 {
		name = fmt.Sprintf("%s %d", name, n+1)
	}
	t.name("thread_name", hostProc, t.threads, name)
	return len(rows)
}

// End ends the span, which is written now. A span must end once.
func (s Span) End() {
	t := s.trace
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	row := &t.tracks[s.track][s.row]
	row.busy = false
	t.write(record{Name: s.name, Phase: phaseSpan, Start: micros(s.start), Took: micros(t.now() - s.start), Proc: hostProc, Tid: row.thread})
}

// Close ends the file and returns the first error that writing met. Close the devices before: what they have not
// written by then is lost. Spans that end later are not written. Closing again does nothing and returns nil.
func (t *Trace) Close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.made() {
		return errors.New("asynccopy: trace: it is a zero Trace, want one of NewTrace")
	}
	if t.closed {
		return nil
	}
	t.closed = true
	if t.err == nil {
		_, t.err = t.out.WriteString("\n]\n")
	}
	if err := t.out.Flush(); t.err == nil {
		t.err = err
	}
	if t.err != nil {
		return fmt.Errorf("asynccopy: trace: %w", t.err)
	}
	return nil
}

// made reports whether NewTrace made t, which is not nil.
func (t *Trace) made() bool { return t.out != nil }

func (t *Trace) now() time.Duration { return time.Since(t.start) }

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// write adds a line. The lock is held.
func (t *Trace) write(r record) {
	if t.closed || t.err != nil {
		return
	}
	line, err := json.Marshal(r)
	sep := ",\n"
	if !t.began {
		sep = "[\n"
		t.began = true
	}
	if err == nil {
		_, err = t.out.WriteString(sep)
	}
	if err == nil {
		_, err = t.out.Write(line)
	}
	t.err = err
}

// name gives a process or one of its threads a name. The lock is held.
func (t *Trace) name(kind string, proc, thread int, name string) {
	t.write(record{Name: kind, Phase: phaseName, Proc: proc, Tid: thread, Args: map[string]any{"name": name}})
}

// device returns the number of a new process.
func (t *Trace) device(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.devices++
	t.name("process_name", hostProc+t.devices, 0, name)
	return hostProc + t.devices
}

// WithTrace has the device write what its streams do to t, with the device's own times. Work that is traced costs a
// few microseconds more to issue, and of a device at most 16,384 pieces are followed at a time: what goes beyond is
// left out, and the trace says how much. Kernels and copies that other code issues to [Stream.Handle] are not seen,
// nor is what a graph consists of.
func WithTrace(t *Trace) Option {
	return func(o *options) error {
		if t == nil {
			return errors.New("WithTrace: t is nil")
		}
		if !t.made() {
			return errors.New("WithTrace: t is a zero Trace, want one of NewTrace")
		}
		o.trace = t
		return nil
	}
}

// Trace returns the trace that d was opened with, nil if none: whose methods may be called all the same.
func (d *Device) Trace() *Trace {
	if d == nil {
		return nil
	}
	return d.trace
}
