package soft

// This file tests page locking on a model of the system's, which locks whole pages and doesn't count.

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
)

func hostPointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

const modelPage = 16

// onHeap returns n bytes that don't move, as those of a stack would.
func onHeap(n int) []byte {
	kept = make([]byte, n)
	return kept
}

var kept []byte

// model is a system with small pages.
type model struct {
	mu     sync.Mutex
	locked map[uintptr]bool
	limit  int // pages
}

func newModel(limit int) (*model, *host) {
	m := &model{locked: make(map[uintptr]bool), limit: limit}
	return m, &host{name: "model", lock: m.lock, unlock: m.unlock, page: modelPage}
}

var errModelLimit = errors.New("limit")

// lock locks page by page, and leaves those that it locked when it comes to the limit.
func (m *model) lock(addr, n uintptr) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if addr%modelPage != 0 || n%modelPage != 0 || n == 0 {
		return fmt.Errorf("lock(%d, %d): not whole pages", addr, n)
	}
	for p := addr; p < addr+n; p += modelPage {
		if !m.locked[p] && len(m.locked) == m.limit {
			return errModelLimit
		}
		m.locked[p] = true
	}
	return nil
}

func (m *model) unlock(addr, n uintptr) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if addr%modelPage != 0 || n%modelPage != 0 || n == 0 {
		return fmt.Errorf("unlock(%d, %d): not whole pages", addr, n)
	}
	for p := addr; p < addr+n; p += modelPage {
		delete(m.locked, p)
	}
	return nil
}

// TestPagesInUseStayLocked registers and unregisters at random: the locked pages are always those that
// registered bytes lie in.
func TestPagesInUseStayLocked(t *testing.T) {
	leak.Check(t)
	memory := onHeap(40 * modelPage)
	rapid.Check(t, func(t *rapid.T) {
		m, h := newModel(25)
		registered := make(map[int]int)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if start := rapid.IntRange(0, len(memory)-1).Draw(t, "start"); rapid.Bool().Draw(t, "register") {
				n := rapid.IntRange(1, min(5*modelPage, len(memory)-start)).Draw(t, "n")
				overlaps := false
				for s, length := range registered {
					overlaps = overlaps || start < s+length && s < start+n
				}
				err := h.Register(unsafe.Pointer(&memory[start]), int64(n))
				switch {
				case overlaps:
					var e *driver.Error
					if !errors.As(err, &e) || e.Code != driver.CodeAlreadyRegister {
						t.Fatalf("Register of overlapping bytes: %v", err)
					}
				case err == nil:
					registered[start] = n
				case err != errModelLimit:
					t.Fatal(err)
				}
			} else {
				err := h.Unregister(unsafe.Pointer(&memory[start]))
				if _, ok := registered[start]; ok != (err == nil) {
					t.Fatalf("Unregister: %v, registered: %v", err, ok)
				}
				delete(registered, start)
			}
			want := make(map[uintptr]bool)
			for start, n := range registered {
				for i := start; i < start+n; i++ {
					want[uintptr(unsafe.Pointer(&memory[i]))&^(modelPage-1)] = true
				}
			}
			if len(want) != len(m.locked) {
				t.Fatalf("%d pages locked, %d have registered bytes", len(m.locked), len(want))
			}
			for p := range want {
				if !m.locked[p] {
					t.Fatalf("page %#x has registered bytes and is not locked", p)
				}
			}
		}
		for start := range registered {
			if err := h.Unregister(unsafe.Pointer(&memory[start])); err != nil {
				t.Fatal(err)
			}
		}
		if len(m.locked)+len(h.ranges)+len(h.edges) != 0 {
			t.Fatalf("left: %d pages, %d ranges, %d edges", len(m.locked), len(h.ranges), len(h.edges))
		}
	})
}

// TestNeighboursAtOnce has goroutines whose ranges share pages.
func TestNeighboursAtOnce(t *testing.T) {
	leak.Check(t)
	const goroutines, each = 8, 3*modelPage + 5
	memory := onHeap(goroutines * each)
	m, h := newModel(1 << 30)
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			own := memory[g*each:][:each]
			for range 500 {
				if err := h.Register(hostPointer(own), each); err != nil {
					t.Error(err)
					return
				}
				m.mu.Lock()
				for i := range own {
					if !m.locked[uintptr(unsafe.Pointer(&own[i]))&^(modelPage-1)] {
						t.Errorf("goroutine %d: byte %d is not locked though registered", g, i)
						break
					}
				}
				m.mu.Unlock()
				if err := h.Unregister(hostPointer(own)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if len(m.locked) != 0 {
		t.Errorf("%d pages left locked", len(m.locked))
	}
}

// TestFailedUnlockCanBeRepeated: until then the memory counts as registered.
func TestFailedUnlockCanBeRepeated(t *testing.T) {
	leak.Check(t)
	m, h := newModel(100)
	memory := onHeap(10 * modelPage)
	if err := h.Register(hostPointer(memory), int64(len(memory))); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for failing := range 3 { // the pages between, then an edge, then the other
		call := 0
		h.unlock = func(addr, n uintptr) error {
			if call++; call == failing+1 {
				return broken
			}
			return m.unlock(addr, n)
		}
		if err := h.Unregister(hostPointer(memory)); !errors.Is(err, broken) {
			t.Errorf("unlock %d fails: Unregister: %v, want %v", failing+1, err, broken)
		}
		if err := h.Register(hostPointer(memory), 1); err == nil {
			t.Error("registered though it is still locked")
		}
	}
	h.unlock = m.unlock
	if err := h.Unregister(hostPointer(memory)); err != nil {
		t.Error(err)
	}
	if len(h.ranges)+len(h.edges) != 0 || len(m.locked) != 0 {
		t.Error("something is still listed or locked")
	}
}

// TestFailedRegisterLeavesNothing: what it locked can't be unlocked either, but it has failed.
func TestFailedRegisterLeavesNothing(t *testing.T) {
	leak.Check(t)
	_, h := newModel(3)
	memory := onHeap(10 * modelPage)
	broken := errors.New("broken")
	h.unlock = func(addr, n uintptr) error { return broken }
	err := h.Register(hostPointer(memory), int64(len(memory)))
	if !errors.Is(err, errModelLimit) || !errors.Is(err, broken) {
		t.Errorf("Register: %v, want the lock's error and the unlock's", err)
	}
	if len(h.ranges)+len(h.edges) != 0 {
		t.Error("the range is still listed")
	}
}
