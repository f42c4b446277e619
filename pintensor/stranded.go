package pintensor

// This file has the second chances of memory that the driver did not unregister. Until it does the memory is kept: it
// counts against the limit, and is of no use. The error was returned, or kept for the next call, when the driver
// refused; that it refuses again is no news. Trim, TrimOlder and Close ask for all of it, and tell.

import "slices"

// retryStranded asks the driver again for one piece of it. A call that makes new memory does so, which waits for the
// driver anyway: if it works again the rest follows, and a driver that never does costs each such call little.
func (e *Engine) retryStranded() (freed int64) {
	e.strandedMu.Lock()
	if len(e.stranded) == 0 {
		e.strandedMu.Unlock()
		return 0
	}
	c := e.stranded[0]
	e.stranded = slices.Delete(e.stranded, 0, 1)
	e.strandedMu.Unlock()
	n := c.b.bytes()
	if e.discard(c) != nil { // which keeps it again, last
		return 0
	}
	return n
}
