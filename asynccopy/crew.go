package asynccopy

// This file has the goroutines that share the work of a staged copy.
//
// To wake a thread takes up to 50 µs, in which a core copies half a MiB, and Go wakes one after another. So whoever
// starts the work begins with it at once, those who come take from what is left, and the work is done when those who
// have come are: nobody waits for a goroutine that has yet to begin, which then finds nothing to do.

import "sync"

// crew is the goroutines of one piece of work. The zero value is ready.
type crew struct {
	mu     sync.Mutex
	inside int
	over   bool // nothing is left to take
	err    error
	idle   chan struct{} // closed when it is over and nobody is inside; made by who waits
}

// run has up to n goroutines do the work, the caller's among them. Work returns when nothing is left for anybody to
// take, or with an error, after which nobody may take more. The first error is run's.
func (c *crew) run(n int, work func() error) error {
	c.inside = 1
	for range n - 1 {
		go func() {
			if c.join() {
				c.leave(work())
			}
		}()
	}
	c.leave(work())
	if eventually(c.empty) {
		return c.err
	}
	c.mu.Lock()
	if c.inside > 0 {
		c.idle = make(chan struct{})
	}
	c.mu.Unlock()
	if c.idle != nil {
		<-c.idle
	}
	return c.err
}

func (c *crew) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inside == 0
}

// join lets a goroutine in, unless it comes too late.
func (c *crew) join() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.inside++
	return true
}

func (c *crew) leave(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.inside--
	if c.err == nil {
		c.err = err
	}
	if c.inside == 0 && c.idle != nil {
		close(c.idle)
	}
}
