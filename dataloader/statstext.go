package dataloader

// How figures look: to people, and in logs.

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Rate returns the samples a second of loops, bodies included; 0 before the first.
func (s Stats) Rate() float64 {
	if s.Looped <= 0 {
		return 0
	}
	return float64(s.Samples) / s.Looped.Seconds()
}

// WaitShare returns the share of the time in loops that was spent waiting for a batch, from 0 to 1.
func (s Stats) WaitShare() float64 { return share(s.Waited, s.Looped) }

func share(part, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return min(float64(part)/float64(whole), 1)
}

// enough is the share of waiting below which faster data would make no difference that one notices.
const enough = 0.05

// String returns how fast batches came, whether training waits for data, and what would help, in one line:
//
//	48000 samples in 2.1s (22857/s, 150.7 MB), waiting 61% of it: reading is the limit; 2 workers, 4 batches ahead: ...
func (s Stats) String() string {
	if s.Looped <= 0 {
		return fmt.Sprintf("no loop yet; up to %s of pinned memory", size(s.PinnedLimit))
	}
	var b strings.Builder
	unit := time.Millisecond
	if s.Looped < 10*unit {
		unit = time.Microsecond
	}
	fmt.Fprintf(&b, "%d samples in %v (%.0f/s, %s), waiting %.0f%% of it: %s; %d workers, %d batches ahead",
		s.Samples, s.Looped.Round(unit), s.Rate(), size(s.Bytes), 100*s.WaitShare(), s.limit(), s.Workers, s.Prefetch)
	if help := s.help(); help != "" {
		fmt.Fprintf(&b, ": %s", help)
	}
	for _, count := range []struct {
		n    int64
		what string
	}{{s.Skipped, "skipped"}, {s.Retried, "retried"}, {s.BatchReadErrors, "ReadBatch calls failed"}, {int64(s.Stuck), "loops stuck"}} {
		if count.n > 0 {
			fmt.Fprintf(&b, ", %d %s", count.n, count.what)
		}
	}
	return b.String()
}

// limited is what a loop waits for.
type limited int

const (
	byTraining limited = iota // it does not
	byReading
	byOrder   // a few slow samples, that workers have to wait for
	byCopying // the host's part
	byDevice  // the bus
)

// by returns what the loop waits for: that which takes most of the workers' time.
func (s Stats) by() limited {
	all := s.Busy + s.Copying + s.Landing + s.Idle
	switch {
	case s.WaitShare() < enough:
		return byTraining
	case s.Landing > s.Busy && s.Landing > s.Copying:
		return byDevice
	case s.Copying > s.Busy:
		return byCopying
	case share(s.Idle, all) > 0.25:
		return byOrder
	}
	return byReading
}

func (s Stats) limit() string {
	switch s.by() {
	case byReading:
		return "reading is the limit"
	case byOrder:
		return "a few slow samples hold up the rest"
	case byCopying:
		return "issuing copies is the limit"
	case byDevice:
		return "copies to the device are the limit"
	}
	return "data keeps up with training"
}

func (s Stats) help() string {
	switch s.by() {
	case byReading:
		return "more Workers, a ReadBatch, or a cheaper Read would help"
	case byOrder:
		return "more Prefetch, or Unordered, would help"
	case byCopying:
		return "larger batches would help"
	case byDevice:
		return "fewer bytes a sample would help, such as a smaller dtype"
	}
	return ""
}

// size writes a number of bytes with a unit of a thousand.
func size(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	x, unit := float64(n), 0
	for x >= 1000 && unit < len(units)-1 {
		x, unit = x/1000, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", x, units[unit])
}

// LogValue returns a group of the figures, times in nanoseconds, with the verdict of String in limit.
func (s Stats) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("limit", s.limit()), slog.Float64("samples_per_s", s.Rate()), slog.Float64("wait_share", s.WaitShare()),
		slog.Int64("batches", s.Batches), slog.Int64("samples", s.Samples), slog.Int64("bytes", s.Bytes),
		slog.Int64("skipped", s.Skipped), slog.Int64("retried", s.Retried), slog.Int64("batch_read_errors", s.BatchReadErrors),
		slog.Int64("looped_ns", int64(s.Looped)), slog.Int64("waited_ns", int64(s.Waited)),
		slog.Int64("busy_ns", int64(s.Busy)), slog.Int64("copying_ns", int64(s.Copying)),
		slog.Int64("landing_ns", int64(s.Landing)), slog.Int64("idle_ns", int64(s.Idle)),
		slog.Int("workers", s.Workers), slog.Int("prefetch", s.Prefetch), slog.Int("ready", s.Ready),
		slog.Int64("slots", s.Slots), slog.Int64("pinned_bytes", s.PinnedBytes), slog.Int64("pinned_limit", s.PinnedLimit),
		slog.Int("stuck", s.Stuck))
}
