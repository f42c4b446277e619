package devicevm

// This file has the session: the stream that VMs which share weights run on, and the lock that keeps their calls
// apart.

import (
	"sync"

	"github.com/pintensor/pin/asynccopy"
)

type session struct {
	mu     sync.Mutex
	stream *asynccopy.Stream
	refs   int // VMs
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
	return s.stream.Close()
}
