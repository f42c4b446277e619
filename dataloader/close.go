package dataloader

// The end of a loop, and of a Loader.

import (
	"errors"
	"slices"
	"time"
)

// finish ends a loop, however it was left. When it has consumed its leg the run stays for the next loop.
func (l *Loader) finish(r *run) {
	if r.current != nil { // the body panicked
		r.current.endTurn()
		r.current = nil
	}
	// Where the loop's context is done the readers' is too, and what they read ahead may have failed of it.
	if r.detach() && r.taken > 0 && r.consumed() && !l.cfg.SingleEpoch {
		r.rest()
		if l.stand(r) {
			return
		}
	}
	l.retire(r)
}

// stand keeps the run of a loop that is over for the next, unless the Loader is closed.
func (l *Loader) stand(r *run) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.looped.Add(int64(time.Since(r.entered)))
	r.spent += time.Since(r.entered)
	l.run, l.standing = nil, r
	return true
}

// retire ends a run, and waits for its workers as long as Timeout says.
func (l *Loader) retire(r *run) {
	r.shut()
	timer := time.NewTimer(l.cfg.grace())
	ended := r.await(timer.C)
	timer.Stop()
	r.collect()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == r {
		l.run = nil
		l.looped.Add(int64(time.Since(r.entered)))
	}
	l.spent.add(r.tally())
	l.leftover = slices.DeleteFunc(l.leftover, func(old *run) bool { return old == r || old.ended() })
	if !ended {
		l.leftover = append(l.leftover, r)
	}
}

// Close ends a loop that runs, which gets [ErrClosed], and releases the memory of batches, but for that
// in the hands of a loop's body, which follows at the end of its turn, and that of kept ones. It waits for
// workers to end, as [Config.Timeout] says, and its error names the samples that are still being read
// then. It also reports errors met when memory was given back. Further calls
// return nil, once the first is done.
func (l *Loader) Close() error {
	if err := l.made("Close"); err != nil {
		return err
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		<-l.freed
		return nil
	}
	defer close(l.freed)
	l.closed = true
	runs := l.leftover
	if l.run != nil {
		runs = append(runs, l.run)
	}
	if l.standing != nil {
		runs = append(runs, l.standing)
	}
	standing, pool := l.standing, l.pool
	l.leftover, l.standing, l.pool = nil, nil, nil
	l.mu.Unlock()

	for _, r := range runs {
		r.shut()
	}
	timer := time.NewTimer(l.cfg.grace())
	defer timer.Stop()
	var errs []error
	expired := make(chan time.Time) // a timeout that is over, for the runs after the one that used it up
	var timeout <-chan time.Time = timer.C
	for _, r := range runs {
		if !r.await(timeout) {
			errs = append(errs, r.stuck()...)
			if timeout == timer.C {
				close(expired)
				timeout = expired
			}
		}
		r.collect()
	}
	for _, s := range pool {
		errs = append(errs, s.free()...)
	}
	l.mu.Lock()
	if standing != nil {
		l.spent.add(standing.tally())
	}
	errs = append(l.errs, errs...)
	l.errs = nil
	l.mu.Unlock()
	return errors.Join(distinct(errs)...)
}

// distinct leaves errors out that read like an earlier one: a device that failed says so for each tensor.
func distinct(errs []error) []error {
	seen := make(map[string]bool)
	var kept []error
	for _, err := range errs {
		if err != nil && !seen[err.Error()] {
			seen[err.Error()] = true
			kept = append(kept, err)
		}
	}
	return kept
}

// note keeps an error met in the background for Close.
func (l *Loader) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = distinct(append(l.errs, err))
}
