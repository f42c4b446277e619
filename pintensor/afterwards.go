package pintensor

// This file has what finalizers and cleanups leave to others: all that calls the driver.

import (
	"sync"
	"sync/atomic"
)

// # The collector never waits for a driver
//
// The runtime calls all finalizers of a process on one goroutine, one after another, and cleanups on few. A driver that
// takes long, or hangs, would hold up those of every package: files would stay open, and memory would not come back. So
// what is to be unregistered because the collector found it is put into a queue, which a goroutine works off that there is
// only while there is something in it. There is one for an engine at most, however much the collector finds: a driver does
// one such call at a time.
//
// What is in the queue counts as being given up (Engine.freeing), so calls that lack memory wait for it, and in
// Stats.Leaving.

// workQueue is the queue.
type workQueue struct {
	n atomic.Int64 // in the queue, and being done

	mu      sync.Mutex
	queue   []func()
	working bool
}

// put adds work, and reports whether nobody is there to do it.
func (q *workQueue) put(work func()) (idle bool) {
	q.n.Add(1)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, work)
	idle = !q.working
	q.working = true
	return idle
}

// next returns what is to be done next. If there is nothing its caller must end.
func (q *workQueue) next() (work func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		q.working, q.queue = false, nil
		return nil
	}
	work = q.queue[0]
	q.queue[0] = nil // it may be all that keeps memory
	q.queue = q.queue[1:]
	return work
}

// afterwards has work done soon, and does not block.
func (e *Engine) afterwards(work func()) {
	e.freeing.Add(1)
	if e.leaving.put(work) {
		go e.workOff()
	}
}

func (e *Engine) workOff() {
	for work := e.leaving.next(); work != nil; work = e.leaving.next() {
		work()
		e.leaving.n.Add(-1)
		e.freeing.Add(-1)
	}
}
