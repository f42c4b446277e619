package asynccopy

// This file tests how many events a stream lists.

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

// TestListedBehindABusyDevice has a device that is always many copies behind: the list is of those, and not much longer.
func TestListedBehindABusyDevice(t *testing.T) {
	leak.Check(t)
	synctest.Test(t, func(t *testing.T) {
		const behind = 300
		d, err := OpenDriver(soft.New(soft.Config{Delay: func(op soft.Op) time.Duration {
			if op.Call == "CopyHtoD" {
				return time.Millisecond
			}
			return 0
		}}), 0)
		if err != nil {
			t.Fatal(err)
		}
		s, err := d.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		x, err := s.Empty(tensor.Uint8, 4)
		if err != nil {
			t.Fatal(err)
		}
		host := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(4))
		longest := 0
		for i := range 3 * behind {
			if err := s.ToDeviceInto(x, host, true); err != nil {
				t.Fatal(err)
			}
			if i >= behind {
				time.Sleep(time.Millisecond)
			}
			longest = max(longest, len(s.unfinished()))
		}
		if longest < behind || longest > behind+2*tolerated {
			t.Errorf("%d events were listed of a device that is %d copies behind, want at most %d more", longest, behind, 2*tolerated)
		}
		if err := errors.Join(s.Synchronize(context.Background()), x.Release(), d.Close()); err != nil {
			t.Error(err)
		}
	})
}
