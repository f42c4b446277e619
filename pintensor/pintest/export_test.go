package pintest

import "time"

// SetGrace changes how long Check waits, and returns how long it did before.
func SetGrace(d time.Duration) (before time.Duration) {
	before, grace = grace, d
	return before
}
