package asynccopy

// This file has copies between devices that can't reach each other, through page-locked chunks on the host.

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"golang.org/x/sync/errgroup"
)

// relays is how many chunks a copy has under way: while some come, others go.
const relays = 4

// relay is a copy from one device to another.
type relay struct {
	from, to   *Stream
	src, dst   driver.DevicePtr
	size, step int64
	next       atomic.Int64 // chunk that nobody took
	failed     atomic.Bool

	mu    sync.Mutex
	loans []loan
}

// relay copies x to dst and returns when x was read. The caller is inside the gates of s and of x's device.
func (s *Stream) relay(dst, x *Tensor) (*Event, error) {
	from := x.buf.dev.own // which nothing is in turn on
	if !from.gate.enter() {
		return nil, x.buf.dev.closedError("Copy")
	}
	defer from.gate.leave()
	read, err := x.begin(from, false)
	if err != nil {
		return nil, err
	}
	defer read.end()
	write, err := dst.begin(s, true)
	if err != nil {
		return nil, err
	}
	defer write.end()
	s.awaitTurn()
	e, err := s.newEvent()
	if err != nil {
		return nil, err
	}
	s.dev.counts.onDevice.add(x.size, true)
	r := &relay{from: from, to: s, src: read.ptr, dst: write.ptr, size: x.size}
	r.step = int64(min(max((x.size-1)/(2*relays)+1, smallest), int64(largest)))
	err = r.run()
	if err == nil {
		err = s.recordStaged(e)
	}
	if err != nil {
		_ = from.dev.fail(from.dev.drv.SyncStream(from.handle)) // what reads x; err says more
		err = s.abandon(e, err)
	} else {
		write.publish(e)
	}
	s.track(e)
	for _, l := range r.loans { // not before e was recorded: it would be taken for complete
		s.dev.giveBack(l, e)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// run issues everything.
func (r *relay) run() error {
	var g errgroup.Group
	for range min(relays, (r.size+r.step-1)/r.step) {
		g.Go(func() error {
			err := r.work()
			if err != nil {
				r.failed.Store(true)
			}
			return err
		})
	}
	return g.Wait()
}

// work passes chunks on until there are none.
func (r *relay) work() error {
	in, out := r.from.dev, r.to.dev
	arrived, err := in.takeEvent()
	if err != nil {
		return err
	}
	defer in.events.put(arrived)
	l := out.lend(min(r.step, r.size))
	r.mu.Lock()
	r.loans = append(r.loans, l)
	r.mu.Unlock()
	k := chunk{raw: l.raw}
	if k.done, err = out.takeEvent(); err != nil {
		return err
	}
	defer out.events.put(k.done)
	for first := true; ; first = false {
		off := (r.next.Add(1) - 1) * r.step
		if off >= r.size || r.failed.Load() {
			return nil
		}
		n := min(r.step, r.size-off)
		if !first {
			if err := out.fail(out.drv.SyncEvent(k.done)); err != nil {
				return err
			}
		}
		host := unsafe.Pointer(&k.raw[0])
		err := in.fail(in.drv.CopyDtoH(host, r.src+driver.DevicePtr(off), n, r.from.handle, arrived))
		if err == nil {
			err = in.fail(in.drv.SyncEvent(arrived))
		}
		if err == nil {
			err = out.fail(out.drv.CopyHtoD(r.dst+driver.DevicePtr(off), host, n, r.to.handle, k.done))
		}
		if err != nil {
			return err
		}
	}
}
