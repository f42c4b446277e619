package drivertest

// This file has what Checked and CheckedHost share: a record of what is held, and of what was done
// wrong, reported when the test ends.

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pintensor/pin/internal/driver"
)

// Checked returns drv such that t fails, when it and the cleanups that it registered later have ended, for
//
//   - a stream, event, allocation, module, graph or host registration that was not released, or a device not closed,
//     with the place where it was made;
//   - a device that was closed before what it had was released;
//   - a call with a stream, event, module, function, graph or address that does not exist, no longer or never, such as
//     a second Free;
//   - a registration that overlaps another.
//
// A release counts as done if it was attempted, whatever it returned: on a device that failed it can't do
// better.
func Checked(t testing.TB, drv driver.Driver) driver.Driver {
	t.Helper()
	l := newLedger(t)
	return &checkedDriver{ledger: l, inner: drv, byOrdinal: make(map[int]*holdings)}
}

// CheckedHost does for a host alone what [Checked] does for a driver's.
func CheckedHost(t testing.TB, host driver.Host) driver.Host {
	t.Helper()
	return &checkedHost{ledger: newLedger(t), inner: host}
}

// ledger collects complaints, and what is held.
type ledger struct {
	mu         sync.Mutex
	complaints []string
	held       map[any]holding // by a key that is unique among all kinds
}

// holding is something that must be released.
type holding struct {
	what string
	made callers
}

func newLedger(t testing.TB) *ledger {
	l := &ledger{held: make(map[any]holding)}
	t.Cleanup(func() {
		t.Helper()
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.complaints {
			t.Error(c)
		}
		for _, h := range l.held {
			t.Errorf("%s was not released; it was made by%s", h.what, h.made)
		}
	})
	return l
}

// complain notes a misuse with the place of the call. It is not reported at once because the goroutine
// that did it may outlive the test.
func (l *ledger) complain(format string, args ...any) {
	made := where()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.complaints = append(l.complaints, fmt.Sprintf(format, args...)+"; called by"+made.String())
}

func (l *ledger) add(key any, what string) {
	made := where()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[key] = holding{what, made}
}

// remove reports whether key was held.
func (l *ledger) remove(key any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.held[key]
	delete(l.held, key)
	return ok
}

func (l *ledger) has(key any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.held[key]
	return ok
}

// callers is a call stack.
type callers []uintptr

func where() callers {
	pcs := make(callers, 24)
	return pcs[:runtime.Callers(3, pcs)]
}

// String returns the stack outside this file's wrappers, a line each.
func (c callers) String() string {
	var b strings.Builder
	frames := runtime.CallersFrames(c)
	for {
		frame, more := frames.Next()
		if !strings.Contains(frame.Function, "drivertest.(*checked") && !strings.HasPrefix(frame.Function, "runtime.") && frame.Function != "" {
			fmt.Fprintf(&b, "\n\t%s\n\t\t%s:%d", frame.Function, frame.File, frame.Line)
		}
		if !more {
			return b.String()
		}
	}
}
