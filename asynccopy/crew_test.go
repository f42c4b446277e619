package asynccopy

// This file tests who works in a crew, and who is waited for.

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintensor/pin/internal/leak"
)

// TestCrewWaitsForWorkers: run returns when all who came have ended, the caller's work long before.
func TestCrewWaitsForWorkers(t *testing.T) {
	leak.Check(t)
	synctest.Test(t, func(t *testing.T) {
		var c crew
		var came, ended atomic.Int32
		err := c.run(4, func() error {
			n := came.Add(1)
			time.Sleep(time.Duration(n) * time.Second)
			ended.Add(1)
			return nil
		})
		if err != nil || came.Load() != 4 || ended.Load() != 4 {
			t.Errorf("%d came and %d ended before run returned %v; want 4", came.Load(), ended.Load(), err)
		}
	})
}

// TestCrewWithoutLatecomers: goroutines that get to run only when nothing is left find the door closed, and run does not
// wait for them.
func TestCrewWithoutLatecomers(t *testing.T) {
	leak.Check(t)
	synctest.Test(t, func(t *testing.T) {
		var c crew
		if !c.join() {
			t.Fatal("nobody may join a new crew")
		}
		c.leave(nil) // all is done
		if c.join() {
			t.Error("a goroutine that came late may work")
		}
		var works atomic.Int32
		if err := new(crew).run(1, func() error { works.Add(1); return nil }); err != nil || works.Load() != 1 {
			t.Errorf("a crew of one worked %d times, and ended with %v", works.Load(), err)
		}
	})
}

// TestCrewErrors: the first error is run's, whoever has it.
func TestCrewErrors(t *testing.T) {
	leak.Check(t)
	synctest.Test(t, func(t *testing.T) {
		first, second := errors.New("first"), errors.New("second")
		var c crew
		var came atomic.Int32
		err := c.run(3, func() error {
			n := came.Add(1)
			time.Sleep(time.Duration(n) * time.Second)
			return []error{nil, first, second}[n-1]
		})
		if err != first {
			t.Errorf("%v, want the first error", err)
		}
	})
}
