package asynccopy

// This file lets the other packages of this module issue work of their own.

import (
	"errors"

	"github.com/pintensor/pin/internal/driver"
)

// Driver returns the driver's device, for packages of this module, which load modules and make graphs with it.
// It is d's: whoever uses it makes sure that d is open, and closes neither it nor what d made.
func (d *Device) Driver() driver.Device { return d.drv }

// Issue calls issue to issue work to s with the driver, for packages of this module; others use [Stream.Handle].
// The work comes after what was issued to s so far, copies of pageable memory included. issue gets the driver's
// device and stream, and must neither keep them nor call this package. What the work reads or writes must be
// told of before: [Tensor.Use]. Issue allocates nothing. It returns issue's error, and remembers a sticky one.
// name is what a trace calls the work.
func (s *Stream) Issue(name string, issue func(dev driver.Device, stream driver.Stream) error) error {
	if issue == nil {
		return errors.New("asynccopy: Issue: issue is nil")
	}
	if err := s.enter("Issue"); err != nil {
		return err
	}
	defer s.gate.leave()
	s.awaitTurn()
	if t, ok := s.dev.drv.(*traced); ok {
		return s.dev.fail(t.issue(name, s.handle, issue))
	}
	return s.dev.fail(issue(s.dev.drv, s.handle))
}
