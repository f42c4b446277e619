package devicevm

// This file has the session: the streams that VMs which share weights run on, and the lock that keeps their calls
// apart.

import (
	"errors"
	"sync"

	"github.com/pintensor/pin/asynccopy"
)

type session struct {
	mu     sync.Mutex
	stream *asynccopy.Stream
	copies *asynccopy.Stream // of host values to the device, beside stream; nil until there are some
	refs   int               // VMs
}

// join returns the session of another VM, or a new one on dev.
func join(dev *asynccopy.Device, other *VM) (*session, error) {
	if other != nil {
		other.session.refs++
		return other.session, nil
	}
	stream, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	return &session{stream: stream, refs: 1}, nil
}

// leave ends a VM's part in the session.
func (s *session) leave() error {
	s.refs--
	if s.refs > 0 {
		return nil
	}
	var err error
	if s.copies != nil {
		err = s.copies.Close()
	}
	return errors.Join(err, s.stream.Close())
}

// copying returns the stream for host values.
func (s *session) copying() (*asynccopy.Stream, error) {
	if s.copies != nil {
		return s.copies, nil
	}
	var err error
	s.copies, err = s.stream.Device().NewStream()
	return s.copies, err
}
