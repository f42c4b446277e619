//go:build race

package asynccopy_test

// Under the race detector functions that are inlined otherwise are not, and what they return escapes.
func init() { escapes = true }
