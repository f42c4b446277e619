package pintensor

// This file has Locked: whether the memory is what the program asked for.

import "fmt"

// Locked reports whether all memory that the engine holds now, lent or cached, is page-locked. With a CUDA
// device it is, since the driver's refusal is an error of New. Without one the system may refuse, and the
// engine then lends ordinary memory: why says how much, what the system answered, and how to raise the limit
// that it named. It is nil if and only if locked is true. An engine that holds no memory has none that isn't
// locked, and doesn't ask the system what it would say. Of an engine that NewEngine did not make, why says that.
//
//	if ok, why := pintensor.Default().Locked(); !ok {
//		log.Print(why)
//	}
//
// Trim gives up what is cached, so that memory which is needed later is page-locked if the limit was raised since.
func (e *Engine) Locked() (locked bool, why error) {
	if !e.made() {
		return false, fmt.Errorf("pintensor: Locked: %w", errNotMade)
	}
	n := e.n.pageable.current.Load()
	if n == 0 {
		return true, nil
	}
	reason := e.lockErr.Load()
	return false, fmt.Errorf("pintensor: %d bytes of the engine's memory are not page-locked: %w", n, reason.err)
}
