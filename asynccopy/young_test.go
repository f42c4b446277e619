package asynccopy

// This file tests when the collector begins to watch tensors.

import (
	"runtime"
	"testing"
	"time"

	"gorgonia.org/tensor"
)

// reclaims collects until n tensors in all were found dropped, and a moment longer.
func reclaims(t *testing.T, d *Device, n int64) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); d.counts.reclaimed.Load() < n && time.Now().Before(deadline); {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	runtime.GC()
	if got := d.counts.reclaimed.Load(); got != n {
		t.Errorf("%d tensors were reclaimed, want %d", got, n)
	}
}

func TestDroppedSmallTensors(t *testing.T) {
	d, s, _ := softStreams(t)
	drop := func(n, size int) {
		for range n {
			if _, err := s.Empty(tensor.Uint8, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	drop(mostYoung, 100)
	reclaims(t, d, 0)
	drop(100, largestYoung)
	reclaims(t, d, 100)
	drop(10, largestYoung+1) // these are watched at once
	reclaims(t, d, 110)
	if got := d.Stats().Tensors; got != mostYoung && got != mostYoung+10 { // the next allocation frees what was found
		t.Errorf("%d tensors are left, want the last %d small ones", got, mostYoung)
	}
	reclaims(t, d, 110+mostYoung) // who asks has the rest watched
	drop(3, 100)
	if err := d.Trim(); err != nil {
		t.Fatal(err)
	}
	reclaims(t, d, 113+mostYoung)
}

// TestReleasedYoung: what was released is not watched when others take its place, nor counted, and parts keep their memory.
func TestReleasedYoung(t *testing.T) {
	d, s, _ := softStreams(t)
	for range 3 * mostYoung {
		x, err := s.Empty(tensor.Uint8, 100)
		if err != nil {
			t.Fatal(err)
		}
		part, err := x.Part(10, tensor.Uint8, 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Release(); err != nil {
			t.Fatal(err)
		}
		if err := part.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if st := d.Stats(); st.Tensors != 0 {
		t.Errorf("%d tensors are left", st.Tensors)
	}
	reclaims(t, d, 0)
	x, err := s.Empty(tensor.Uint8, 100)
	if err != nil {
		t.Fatal(err)
	}
	if d.Stats(); !x.watched {
		t.Error("a tensor is not watched though somebody has asked")
	}
	if err := x.Release(); err != nil {
		t.Fatal(err)
	}
	x = nil
	reclaims(t, d, 0)
}
