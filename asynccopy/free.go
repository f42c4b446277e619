package asynccopy

// This file has how the memory of tensors is freed: behind everything that uses it, whoever lets it go.

// free gives the memory back behind all its uses. If that fails the device tries again later. It waits for
// no stage and no stream's Close: those may be waiting for the goroutine which is here.
func (b *buffer) free() error {
	d := b.dev
	if b.ptr == 0 {
		d.forget(b)
		return nil
	}
	s := b.lastUser()
	for !s.gate.enter() {
		switch s {
		case d.own:
			return nil // Close frees it
		case b.home:
			s = d.own
		default:
			s = b.home
		}
	}
	defer s.gate.leave()
	tick, err := s.follow(b)
	if err == nil {
		err = d.memory.free(b.ptr, b.size, s, tick)
	}
	if err != nil && !sticky(err) { // on a device that is lost nothing can be freed, nor is left
		d.postponeFree(b)
		return err
	}
	d.forget(b)
	return err
}

// lastUser returns the stream to free b on: the device's that uses it last, so that no other has to wait for that. Were
// it always home, a stream of copies would wait for the kernel that uses the last copy before it makes the next.
func (b *buffer) lastUser() *Stream {
	for i := len(b.uses) - 1; i >= 0; i-- {
		if u := b.uses[i]; u.stream.dev == b.dev && !u.over() {
			return u.stream
		}
	}
	if b.ready != nil {
		if u := (use{stream: b.ready.stream, last: b.ready}); !u.over() {
			return u.stream
		}
	}
	return b.home
}

// follow makes s wait for everything that uses b, which nobody changes any more, and returns the tick at which s is
// seen to have done so.
func (s *Stream) follow(b *buffer) (tick int64, err error) {
	if b.ready == nil { // else what wrote it has followed what was issued to home before it was allocated
		if err := s.afterAll(b.home); err != nil {
			return 0, err
		}
	}
	waited := false
	for i := -1; i < len(b.uses); i++ {
		u := use{last: b.ready}
		if i >= 0 {
			u = b.uses[i]
		} else if b.ready == nil {
			continue
		} else {
			u.stream = b.ready.stream
		}
		if u.over() {
			continue
		}
		if !u.foreign && u.stream == s && u.last.tick.Load() != 0 {
			tick = max(tick, u.last.tick.Load())
			continue
		}
		waited = true
		if u.foreign {
			err = s.afterAll(u.stream)
		} else {
			err = s.after(u.last)
		}
		if err != nil {
			return 0, err
		}
	}
	switch {
	case waited: // which the clock of s does not know of
		e, err := s.record()
		if err != nil {
			s.dev.postpone(err)
			return unknown, nil
		}
		return e.tick.Load(), nil
	case b.ready == nil && len(b.uses) == 0: // what allocated the memory, and used it before, may be under way
		return unknown, nil
	}
	return tick, nil
}

// postponeFree lists b to be freed at the next occasion.
func (d *Device) postponeFree(b *buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limbo = append(d.limbo, b)
	d.hasLimbo.Store(true)
}

// dropped is what the collector does with memory that nobody released. It only lists it: a finalizer must not
// wait, and a driver call may.
func (d *Device) dropped(b *buffer) {
	select {
	case <-d.gone:
		return // Close has freed it
	default:
	}
	b.mu.Lock()
	first, busy := !b.released, b.busy > 0
	b.released = true
	b.mu.Unlock()
	if !first {
		return
	}
	d.counts.reclaimed.Add(1)
	if !busy { // else the last call frees it
		d.postponeFree(b)
	}
}

// freeLimbo frees what is listed. Errors are left for the next call.
func (d *Device) freeLimbo() {
	if !d.hasLimbo.Load() {
		return
	}
	d.mu.Lock()
	list := d.limbo
	d.limbo = nil
	d.hasLimbo.Store(false)
	d.mu.Unlock()
	for _, b := range list {
		d.postpone(b.free())
	}
}

// freeAll frees everything that is left. All streams but the device's own are closed.
func (d *Device) freeAll() error {
	d.mu.Lock()
	d.limbo, d.young = nil, young{} // those are in live too
	var left []*buffer
	for b := d.live; b != nil; b = b.next {
		left = append(left, b)
	}
	d.mu.Unlock()
	var errs []error
	for _, b := range left {
		b.awaitElsewhere()
		if b.ptr != 0 {
			errs = append(errs, d.retry(func() error { return d.memory.free(b.ptr, b.size, d.own, unknown) }))
		}
		d.forget(b)
	}
	return distinct(errs)
}
