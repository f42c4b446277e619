// Package drivertest has what tests of drivers, and of everything built on them, need:
//
//   - [Run] is the conformance suite: what internal/driver promises, as tests. Every implementation passes it.
//   - [Checked] wraps a driver and fails the test for what is used wrongly or left behind.
//   - [NewFaulty] wraps a driver and makes chosen calls fail.
//
// Wrappers compose. NewFaulty(Checked(t, drv)) does not let the checks see the calls that fail by
// injection, so that a release that was made to fail is reported as a leak; Checked(t, NewFaulty(drv))
// lets them see every call, and counts an attempted release as a release.
//
// # Ownership
//
// Wrappers own nothing. Their devices must be closed, which closes the wrapped ones.
//
// # Concurrency
//
// Wrappers may be used from any goroutine, as drivers may.
//
// # Errors
//
// Wrappers return the errors of what they wrap, unchanged, and [Faulty] those that it was given.
//
// # Platforms
//
// All that Go has.
package drivertest
