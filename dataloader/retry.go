package dataloader

// Reading again what could not be read: for sources that fail now and then, such as a network.

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// RetryError is how a Read or ReadBatch says that it failed of something that passes: it is called again for the
// same rows after a pause, as often as [Config.Retries] says. It may be wrapped in other errors.
type RetryError struct {
	Err   error
	After time.Duration // the least pause, where the source said one; 0: the Loader's own
}

// Error says what Err says.
func (e *RetryError) Error() string {
	if e.Err == nil {
		return "a RetryError without an Err"
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *RetryError) Unwrap() error { return e.Err }

const (
	defaultRetries = 3
	firstPause     = 100 * time.Millisecond // doubled each time
	longestPause   = 10 * time.Second
)

// retries is how often a call is made again.
func (c *Config) retries() int {
	switch {
	case c.Retries < 0:
		return 0
	case c.Retries == 0:
		return defaultRetries
	}
	return c.Retries
}

// pauseOf returns how long to wait before a call is made again for the nth time, n >= 1: up to half longer than the
// last one doubled, by chance, so that many readers of a source that was overloaded do not come back at once.
func (s *slot) pauseOf(n, index int, after time.Duration) time.Duration {
	pause := longestPause
	if n < 8 {
		pause = min(firstPause<<(n-1), longestPause)
	}
	pause += time.Duration(reduce(hash(s.seed, uint64(s.epoch), uint64(index)<<8|uint64(n&255), streamRetry), int(pause/2)))
	return max(pause, after)
}

// again makes a call that failed with err again, until it succeeds, fails for good or has been tried often enough. It is
// named by its sample, and restores the rows itself.
func (w *worker) again(ctx context.Context, s *slot, index int, err error, call func() error) error {
	for n := 0; ; n++ {
		w.since.Store(0) // a pause is no call
		var retry *RetryError
		if err == nil || ctx.Err() != nil || !errors.As(err, &retry) {
			return err
		}
		if n == w.r.l.cfg.retries() {
			if n > 0 {
				err = fmt.Errorf("tried %d times: %w", n+1, err)
			}
			return err
		}
		w.r.l.retried.Add(1)
		pause := time.NewTimer(s.pauseOf(n+1, index, retry.After))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
		err = call()
	}
}
