package drivertest

// This file makes chosen calls fail: what is to fail, and the counts.

import (
	"slices"
	"sync"

	"github.com/pintensor/pin/internal/driver"
)

// ErrInjected is what a call fails with when FailNth is given no other error, or by FailAll. It is
// not sticky.
var ErrInjected error = &driver.Error{Call: "drivertest", Code: 999, Name: "CUDA_ERROR_UNKNOWN", Text: "injected"}

// Faults says which calls fail. A call is named by its Go method, such as "CopyHtoD" or "Register"; ""
// is any. Name and Host are not counted, nor a Driver's Host method. A failing call is not passed on.
type Faults struct {
	mu    sync.Mutex
	calls map[string]int
	rules []*rule
}

// rule makes one call, or all from now on, fail.
type rule struct {
	call string
	left int // calls until the one that fails; 0 is every one
	err  error
}

// FailNth makes the n-th call from now fail with err, n from 1; nil stands for [ErrInjected].
func (f *Faults) FailNth(call string, n int, err error) {
	if err == nil {
		err = ErrInjected
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &rule{call: call, left: max(n, 1), err: err})
}

// FailAll makes every call from now on fail with [ErrInjected].
func (f *Faults) FailAll(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &rule{call: call, err: ErrInjected})
}

// Heal undoes FailNth and FailAll. Counts stay.
func (f *Faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Calls returns how often call was made so far, failed ones included.
func (f *Faults) Calls(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

// before counts a call, and returns the error that it is to fail with.
func (f *Faults) before(call string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = make(map[string]int)
	}
	f.calls[call]++
	f.calls[""]++
	var failed error
	f.rules = slices.DeleteFunc(f.rules, func(r *rule) (used bool) {
		if r.call != "" && r.call != call {
			return false
		}
		if r.left > 1 {
			r.left--
			return false
		}
		if failed == nil {
			failed = r.err
		}
		return r.left == 1
	})
	return failed
}
