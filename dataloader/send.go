package dataloader

// Copies to the device: one worker at a time issues them, for all.
//
// A driver lets one goroutine in at a time, and whoever else comes meanwhile sleeps: with small batches workers would
// spend more time on each other than on copies. So a worker that has filled a batch puts it into a queue, and
// goes on, unless nobody is sending: then it sends until the queue is empty. Batches that queued up
// meanwhile go together: they share the event that the loop's streams wait for, and what the copies have to
// wait for themselves. So the more there is to do the less each costs, and a batch that comes alone is copied at
// once.

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/asynccopy"
)

// together is how many batches are sent with one event, at most: the first is delivered when the last is issued.
const together = 8

// sender has the batches that are filled and wait for their copies.
type sender struct {
	sendMu  sync.Mutex
	filled  []*slot
	sending bool // by a worker

	// Of the worker that sends.
	load []*slot
	dst  []*asynccopy.Tensor
	src  []*tensor.Dense
}

// join adds a slot, and reports whether the caller is to send.
func (d *sender) join(s *slot) bool {
	d.sendMu.Lock()
	defer d.sendMu.Unlock()
	d.filled = append(d.filled, s)
	if d.sending {
		return false
	}
	d.sending = true
	return true
}

// fetch returns the next slots to be sent. If there are none the caller has stopped sending.
func (d *sender) fetch() []*slot {
	d.sendMu.Lock()
	defer d.sendMu.Unlock()
	n := min(len(d.filled), together)
	d.load = append(d.load[:0], d.filled[:n]...)
	left := copy(d.filled, d.filled[n:])
	clear(d.filled[left:])
	d.filled = d.filled[:left]
	d.sending = n > 0
	return d.load
}

// send copies the slot's batch to the device, and hands it over: the caller does, or the worker that sends already.
func (w *worker) send(ctx context.Context, s *slot) {
	if !w.r.join(s) {
		return
	}
	for {
		slots := w.r.fetch()
		if len(slots) == 0 {
			return
		}
		began := time.Since(w.r.began)
		w.issue(ctx, slots)
		w.copying.Add(int64(time.Since(w.r.began) - began))
		for i, s := range slots {
			w.handOver(s)
			slots[i] = nil
		}
	}
}

// issue starts the copies of slots, together if that can be.
func (w *worker) issue(ctx context.Context, slots []*slot) {
	ok := false
	defer func() {
		for _, s := range slots {
			if !ok {
				s.resolve()
			}
		}
	}()
	defer w.capture(&ok, slots...)
	if w.r.l.spanned() {
		defer w.r.l.span(ctx, spanCopy)()
	}
	if err := w.r.copyOut(w.r.l.cfg.Stream, slots); err != nil {
		for i, s := range slots {
			if len(slots) > 1 { // whose it is shows when each goes by itself
				err = w.r.copyOut(w.r.l.cfg.Stream, slots[i:i+1])
			}
			if err != nil {
				s.err = s.asSampleError(err)
			}
		}
	}
	ok = true
}

// copyOut issues the copies of the slots' batches.
func (d *sender) copyOut(stream *asynccopy.Stream, slots []*slot) error {
	d.dst, d.src = d.dst[:0], d.src[:0]
	defer func() { clear(d.dst); clear(d.src) }()
	for _, s := range slots {
		if err := s.prepareDevice(s.view); err != nil {
			return fmt.Errorf("copy to the device: %w", err)
		}
		d.dst, d.src = append(d.dst, s.view.copied), append(d.src, s.view.raw)
	}
	if err := stream.ToDeviceBatchInto(d.dst, d.src, true); err != nil {
		return fmt.Errorf("copy to the device: %w", err)
	}
	for _, s := range slots {
		s.copies = append(s.copies, s.view.copied.Ready())
		if err := s.sendWide(s.view); err != nil {
			return fmt.Errorf("copy to the device: %w", err)
		}
	}
	return nil
}

// endUses says that what uses the batch on the device has been issued: the copy of the slot's next batch follows that,
// and nothing later.
func (s *slot) endUses() {
	if s.l.cfg.Stream == nil || s.view == nil {
		return
	}
	s.view.copied.EndUse()
	for i := range s.wides {
		s.wides[i].device.EndUse()
	}
}
