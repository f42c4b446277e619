package dataloader

// Slots: the memory of batches. A slot is filled by workers, held by the loop for one turn, and filled
// again.
//
// A slot has an owner at any time: the workers filling it (active > 0), the loop (held), the run's
// idle slots, or the Loader's pool. When a run is over its slots are marked dead, and whoever lets go of
// a dead one last puts it into the pool: so a slot that a stuck reader may still write to is not used
// again before that reader has returned, and is not lost when it does.

import (
	"sync"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/asynccopy"
)

// The fields that a worker and the loop touch for each batch come first, close together.
type slot struct {
	mu      sync.Mutex // guards the next ones while workers fill the slot, and faults
	run     *run       // that it belongs to, nil in the pool
	active  int        // workers in it
	pending int        // parts not yet filled
	shared  bool       // there are several
	ordered bool       // its samples are known
	held    bool       // by the loop
	dead    bool       // the run is over
	below   *slot      // of run.given

	// What one filling made, written before it is delivered.
	leg        *leg
	place      int // in the run's order
	number     int // of the batch in the epoch
	view       *view
	err        error
	panic      *PanicError
	skipped    []*SampleError
	readErrors int // calls of ReadBatch that failed though Read could read each sample
	faults     []fault

	buffer
	l        *Loader
	capacity int               // rows that there is memory for
	fillings int               // since capacity was last looked at
	largest  int               // number of rows in those
	block    *tensor.Dense     // the memory, lent by the engine; never handed out
	rows     int               // that the fields are laid out for
	onDevice *asynccopy.Tensor // of the block's size
	views    [2]view           // of all rows, and of the last other number of rows
	copies   []*asynccopy.Event

	wides     []wideTensor // by field, of ragged ones
	wideBytes int          // of host memory that they have
	rowMemory rowMemory
}

// view is the tensors of a batch of n rows, in the slot's memory.
type view struct {
	n, rows int // rows that the fields are laid out for
	host    []*tensor.Dense
	device  []*asynccopy.Tensor // parts of the slot's

	raw    *tensor.Dense     // the bytes of the block up to the last row's,
	copied *asynccopy.Tensor // and where they are copied to
}

// fault is something that went wrong at a row of a batch.
type fault struct {
	row   int
	err   *SampleError
	panic *PanicError
	skip  bool // a sample's own error, that SkipErrors is about
}

// open makes the slot ready to be filled with the batch at a place of a leg of r, with the caller as its
// first worker. It returns false if the slot isn't r's any more.
func (s *slot) open(r *run, g *leg, place int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != r || s.dead {
		return false
	}
	s.active, s.pending, s.shared, s.ordered, s.held = 1, 1, false, false, false
	s.leg, s.place, s.number, s.view = g, place, g.numberAt(place), nil
	if s.err != nil || s.panic != nil || len(s.skipped)+len(s.faults)+s.readErrors > 0 {
		s.err, s.panic, s.skipped, s.faults, s.readErrors = nil, nil, nil, s.faults[:0], 0
	}
	s.epoch = g.epoch
	s.indices = s.indices[:0]
	s.turn++
	return true
}

// occupy makes the caller the only worker in a slot that is not to be filled, and returns false if the slot isn't r's
// any more.
func (s *slot) occupy(r *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != r || s.dead {
		return false
	}
	s.active++
	return true
}

// enter adds a worker, and returns false if the filling that it is for is over.
func (s *slot) enter(turn uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || s.turn != turn {
		return false
	}
	s.active++
	return true
}

// filled ends a part, and says whether it was the last. If so the worker is still in the slot, to complete
// it, and alone. If not it has left: in the same step, as from the last part on the slot may be delivered
// and filled anew.
func (s *slot) filled() (last bool) {
	if !s.shared {
		return true
	}
	s.mu.Lock()
	s.pending--
	if s.pending == 0 {
		s.mu.Unlock()
		return true
	}
	s.unlockAndLeave()
	return false
}

// leave takes the last worker out. alive: the run goes on.
func (s *slot) leave() (alive bool) {
	s.mu.Lock()
	return s.unlockAndLeave()
}

// unlockAndLeave takes away a worker that open or enter added. It puts a dead slot that nobody uses any more
// into the pool.
func (s *slot) unlockAndLeave() (alive bool) {
	s.active--
	alive = !s.dead
	put := s.dead && s.active == 0 && !s.held
	s.mu.Unlock()
	if put {
		s.l.put(s)
	}
	return alive
}

// hold gives the slot to the loop, and returns false if it isn't r's any more.
func (s *slot) hold(r *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = s.run == r && !s.dead
	return s.held
}

// giveBack takes the loop, or a worker, out of the slot, and puts it onto a stack of the run if there is one: in the same step,
// as a slot that nobody is in may be another run's a moment later. It returns false if the run is over. The slot is in the
// pool then, if nobody else is in it.
func (s *slot) giveBack(to *returnStack, byLoop bool) (alive bool, err error) {
	s.mu.Lock()
	if byLoop {
		s.held = false
	} else {
		s.active--
	}
	alive = !s.dead
	if alive && to != nil {
		to.push(s)
	}
	put := s.dead && s.active == 0 && !s.held
	s.mu.Unlock()
	if put {
		err = s.l.put(s)
	}
	return alive, err
}

// kill marks the slot of a run that is over.
func (s *slot) kill() {
	s.mu.Lock()
	put := !s.dead && s.active == 0 && !s.held
	s.dead = true
	s.mu.Unlock()
	if put {
		s.l.put(s)
	}
}

// fault notes what went wrong. Which fault a batch reports does not depend on the order of calls.
func (s *slot) fault(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
}
