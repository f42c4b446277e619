package asynccopy

// This file has stages: the part of a copy that goroutines of the host do.

import "sync"

// stage is the host's part of some work on a stream. Work that is issued to the stream later has to
// follow what the stage issues, so it waits for issued.
type stage struct {
	issued chan struct{} // closed when all that the stage has for the device was issued
	landed chan struct{} // closed when the host has nothing more to do
	err    error         // valid once landed is closed
}

func newStage() *stage {
	return &stage{issued: make(chan struct{}), landed: make(chan struct{})}
}

// start runs a stage once the stages before it have issued all they have: in a goroutine of its own, or in the
// caller's if that waits for it anyway. list, if not nil, shows the stage's event to others, who may make stages
// that wait for it: so it runs when the stage has its turn, or one of those could take a turn before it and wait for
// ever. run returns when the host's part is done; if it has issued everything earlier, it calls its argument then.
// end, if not nil, runs when everything is issued and before the stage counts as landed: it must not wait for any
// stage. The caller is inside the gate, and so is the goroutine until it ends.
func (s *Stream) start(st *stage, waits bool, list func(), run func(issued func()) error, end func()) {
	s.gate.again()
	before := s.turn.Swap(st)
	if list != nil {
		list()
	}
	work := func() {
		defer s.gate.leave()
		if before != nil {
			<-before.issued
		}
		issued := sync.OnceFunc(func() {
			s.turn.CompareAndSwap(st, nil)
			close(st.issued)
		})
		st.err = run(issued)
		s.dev.postpone(st.err)
		issued()
		if end != nil {
			end()
		}
		close(st.landed)
	}
	if waits {
		work() // a goroutine would begin, and be seen to end, microseconds later
	} else {
		go work()
	}
}
