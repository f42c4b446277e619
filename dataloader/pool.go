package dataloader

// The slots that a Loader has: how many, and where they are while no run has them.

import "errors"

// most is the largest number of batches that are ever in memory at once, but for kept ones.
func (l *Loader) most() int {
	if l.plan.dealt != nil { // another epoch may have more
		return l.tokens
	}
	return min(l.tokens-1, l.plan.batches) + 1
}

// take returns a slot of the pool, or a new one without memory.
func (l *Loader) take() *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.pool); n > 0 {
		s := l.pool[n-1]
		l.pool[n-1] = nil
		l.pool = l.pool[:n-1]
		return s
	}
	l.owned++
	return &slot{l: l, buffer: buffer{layout: l.layout, seed: l.cfg.Seed, nonTemporal: l.cfg.Stream != nil && l.cfg.Stream.Device().IsCUDA()}}
}

// put takes a slot that nobody uses any more, and gives its memory back where the Loader has no use for
// it. An error also comes back from Close.
func (l *Loader) put(s *slot) error {
	s.mu.Lock()
	s.run, s.held, s.dead = nil, false, true
	s.mu.Unlock()
	l.mu.Lock()
	if !l.closed && l.owned <= l.most() {
		l.pool = append(l.pool, s)
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	return l.discard(s)
}

// discard gives the memory of a slot that nobody uses back.
func (l *Loader) discard(s *slot) error {
	err := errors.Join(distinct(s.free())...)
	l.mu.Lock()
	l.owned--
	l.mu.Unlock()
	if err != nil {
		l.note(err)
	}
	return err
}

// disown takes a slot that is kept out of the count, and own puts it back.
func (l *Loader) disown(s *slot) { l.countSlot(s, -1) }
func (l *Loader) own(s *slot)    { l.countSlot(s, 1) }

func (l *Loader) countSlot(s *slot, sign int) {
	l.mu.Lock()
	l.owned += sign
	l.mu.Unlock()
	s.count(int64(sign))
}
