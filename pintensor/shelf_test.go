package pintensor

import (
	"errors"
	"sync"
	"testing"

	"gorgonia.org/tensor"
)

// shelved returns an engine with four shelves, and a block lent from each.
func shelved(t *testing.T) (rig, []cached) {
	e := newRig(t)
	e.divide(4)
	var lent []cached
	for i := range e.shelves {
		c := must[cached](t)(e.take(&e.shelves[i], 100, 100))
		c.b.lend(&e.shelves[i], 1, 100, 0)
		lent = append(lent, c)
	}
	return e, lent
}

// giveBack releases a block as Release does.
func (e rig) giveBack(t *testing.T, c cached) {
	t.Helper()
	c.b.mu.Lock()
	isFree := c.b.release(false)
	c.b.mu.Unlock()
	if !isFree {
		t.Fatal("the block is not free")
	}
	if err := e.recycle(c.b, c.mem); err != nil {
		t.Fatal(err)
	}
}

func TestABlockGoesBackToTheShelfItCameFrom(t *testing.T) {
	e, lent := shelved(t)
	for _, c := range lent {
		e.giveBack(t, c)
	}
	for i := range e.shelves {
		if n := len(e.shelves[i].lists[carvedClasses].free); n != 1 || e.shelves[i].lists[carvedClasses].free[0].b != lent[i].b {
			t.Errorf("shelf %d has %d blocks, want the one that was lent from it", i, n)
		}
	}
	if s := e.Stats(); s.Cached.Current != 4*minBlock || s.Cached.Total != 4*minBlock || s.Lent.Total != 4*minBlock || s.Requested.Total != 400 {
		t.Errorf("stats do not count all shelves: %+v", s)
	}
	if freed, err := e.Trim(0); err != nil || freed != 4*minBlock {
		t.Errorf("Trim freed %d bytes, %v; want %d", freed, err, 4*minBlock)
	}
}

func TestAnotherShelfsBlockBeforeANewOne(t *testing.T) {
	e, lent := shelved(t)
	e.giveBack(t, lent[2])
	c := must[cached](t)(e.take(&e.shelves[0], 200, 200))
	if c.b != lent[2].b {
		t.Error("made a new block while another shelf had one")
	}
	c.b.lend(&e.shelves[0], 1, 200, 0)
	if s := e.Stats(); s.Cold != 4 || s.Warm != 1 {
		t.Errorf("%d cold and %d warm, want 4 and 1", s.Cold, s.Warm)
	}
	e.giveBack(t, lent[2])
	if n := len(e.shelves[0].lists[carvedClasses].free); n != 1 {
		t.Errorf("the shelf that took it last has %d blocks, want 1", n)
	}
	for _, i := range []int{0, 1, 3} {
		e.giveBack(t, lent[i])
	}
}

// TestCloseEmptiesAllShelves has goroutines release while the engine is being closed.
func TestCloseEmptiesAllShelves(t *testing.T) {
	for range 50 {
		e := newRig(t)
		e.divide(8)
		tensors := make([]*tensor.Dense, 32)
		for i := range tensors {
			tensors[i] = must[*tensor.Dense](t)(e.New(tensor.Uint8, 10))
		}
		var wg sync.WaitGroup
		for _, d := range tensors {
			wg.Go(func() {
				if err := e.Release(d); err != nil {
					t.Error(err)
				}
			})
		}
		if err := e.Close(); err != nil && !errors.Is(err, ErrInUse) {
			t.Fatal(err)
		}
		wg.Wait()
		if s := e.Stats(); s.Cached.Current != 0 || s.Lent.Current != 0 || s.Registered.Current != 0 {
			t.Fatalf("left after Close: %+v", s)
		}
	}
}
