package soft

// This file has streams: queues of operations, and how and when those run.
//
// An operation has a number in its stream, and a stream counts how many of its operations have
// completed. "The work issued so far" is thus a stream and a number, which is all that an event, or
// an operation that waits for one, has to remember. Since it can only stand for work that was issued
// before, waiting can't go round in a circle.

import (
	"sync"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

// opKind is what an operation does.
type opKind uint8

const (
	opCopyHtoD opKind = iota
	opCopyDtoH
	opCopyDtoD
	opMemset
	opFree
	opWait
	opLaunch
	opStamp
	opCopyPeer
)

var opNames = [...]string{
	opCopyHtoD: "CopyHtoD", opCopyDtoH: "CopyDtoH", opCopyDtoD: "CopyDtoD",
	opMemset: "Memset", opFree: "FreeAsync", opWait: "WaitEvent",
	opLaunch: "Launch", opStamp: "Record", opCopyPeer: "CopyPeer",
}

func (k opKind) String() string { return opNames[k] }

// operation is an entry of a queue. Host memory is an address, not a pointer: see "Ownership" in the
// package comment.
type operation struct {
	kind     opKind
	value    byte // Memset
	dst, src uintptr
	n        int64
	number   int64  // among the device's operations
	block    *block // FreeAsync
	on       mark   // WaitEvent
	launch   *launch
	stamp    *stamp // Record of a timing event
	peer     *core  // CopyPeer: whose memory src is
}

// mark is the work issued to a stream up to the number upTo. Its zero value is no work.
type mark struct {
	stream *stream
	upTo   int64
}

func (m mark) completed() bool { return m.stream == nil || m.stream.completed >= m.upTo }

// stream is a queue. Its fields are guarded by the core's lock.
type stream struct {
	core      *core
	id        driver.Stream
	issued    int64 // number of the last operation issued
	completed int64 // number of the last operation completed
	queue     []operation
	head      int  // the first of queue that was not taken
	running   bool // a goroutine runs this stream's operations
	orphan    bool // destroyed, and listed in core.orphans
	capture   *capture
	progress  sync.Cond
}

func newStream(c *core) *stream {
	c.lastID++
	s := &stream{core: c, id: driver.Stream(c.lastID)}
	s.progress.L = &c.mu
	return s
}

// issue appends op to s, or to its capture.
func (c *core) issue(s *stream, op operation) {
	if s.capture != nil {
		s.capture.add(op)
		return
	}
	c.issued++
	op.number = c.issued
	s.issued++
	s.queue = append(s.queue, op)
	if !c.config.Late && !s.running {
		s.running = true
		go s.work()
	}
}

// work runs operations until there are none.
func (s *stream) work() {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	for s.completed < s.issued {
		s.runNext()
	}
	s.running = false
}

// reach returns when the operations of s up to the number upTo have completed. On a late device it
// runs them. The core's lock is held, but not throughout.
func (s *stream) reach(upTo int64) {
	for s.completed < upTo {
		if s.running || !s.core.config.Late {
			s.progress.Wait()
			continue
		}
		s.running = true
		s.runNext()
		s.running = false
		s.progress.Broadcast() // to those who wait to run the next one, too
	}
}

// runNext runs the first operation of the queue, for the goroutine that set running. The core's lock is
// held, but not while the operation runs.
func (s *stream) runNext() {
	op := s.take()
	if op.kind == opWait {
		s.core.await(op.on)
	}
	if s.core.failed == nil {
		s.core.mu.Unlock()
		err := s.core.run(s.id, &op)
		s.core.mu.Lock()
		if err != nil && s.core.failed == nil {
			s.core.failed = err
		}
	}
	switch op.kind {
	case opFree: // on a failed device too: nothing else would free it
		s.core.memory.remove(op.block, true)
	case opStamp:
		op.stamp.at = time.Now()
	}
	s.completed++
	if s.orphan && s.completed == s.issued {
		delete(s.core.orphans, s)
	}
	s.progress.Broadcast()
}

// take removes the first operation from the queue. The array is used again once the queue is empty, or when
// half of it lies unused before the head.
func (s *stream) take() operation {
	op := s.queue[s.head]
	s.queue[s.head] = operation{}
	s.head++
	if s.head == len(s.queue) || s.head > 64 && s.head > len(s.queue)/2 {
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:]) // they may refer to device memory
		s.queue, s.head = s.queue[:n], 0
	}
	return op
}

// run carries op out, without any lock held.
func (c *core) run(id driver.Stream, op *operation) *driver.Error {
	if op.kind != opStamp && (c.config.Delay != nil || c.config.Fail != nil) {
		seen := Op{Call: op.kind.String(), Device: c.ordinal, Stream: id, Bytes: op.n, N: op.number}
		if op.launch != nil {
			seen.Kernel = op.launch.function.name
		}
		if c.config.Delay != nil {
			time.Sleep(c.config.Delay(seen))
		}
		if c.config.Fail != nil {
			if err := c.config.Fail(seen); err != nil {
				return asFailure(seen.Call, err)
			}
		}
	}
	switch op.kind {
	case opCopyHtoD, opCopyDtoH, opCopyDtoD, opCopyPeer, opMemset:
		return c.move(op)
	case opLaunch:
		return c.compute(op.launch)
	}
	return nil
}
