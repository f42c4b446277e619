package pintensor

// This file has how figures look: to people, and in logs.

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// String returns the figures in one line, sizes rounded:
//
//	lent 1.0 MiB (peak 3.0 MiB), cached 0 B, in flight 0 B, registered 3.0 MiB (cuda), 3 cold, 197 warm, 0 forgotten, 0 waits, 0 trims
func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lent %v, cached %s, in flight %s, registered %s", s.Lent, size(s.Cached.Current), size(s.InFlight.Current), size(s.Registered.Current))
	if s.Locking != "" {
		fmt.Fprintf(&b, " (%s)", s.Locking)
	}
	fmt.Fprintf(&b, ", %d cold, %d warm, %d forgotten, %d waits, %d trims", s.Cold, s.Warm, s.Forgotten, s.Waits, s.Trims)
	if c := s.RegisterCalls; c.Count > 0 {
		fmt.Fprintf(&b, ", page-locking took %v (at most %v)", c.Time.Round(time.Microsecond), c.Max.Round(time.Microsecond))
	}
	if s.Pageable.Current > 0 {
		fmt.Fprintf(&b, ", %s not page-locked", size(s.Pageable.Current))
	}
	return b.String()
}

// String returns what the engine lends and holds, in one line; it serves %v, of which package tensor's errors make use.
func (e *Engine) String() string {
	switch {
	case e == nil:
		return "pintensor.Engine(nil)"
	case !e.made():
		return "pintensor.Engine(not made by NewEngine)"
	case e.closed.Load():
		return "pintensor.Engine(closed; " + e.Stats().String() + ")"
	}
	return "pintensor.Engine(" + e.Stats().String() + ")"
}

// GoString is String: an engine has nothing that Go syntax could show.
func (e *Engine) GoString() string { return e.String() }

// LogValue returns a group with a group for each Usage. Texts that are empty are left out.
func (s Stats) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Any("requested", s.Requested), slog.Any("lent", s.Lent), slog.Any("cached", s.Cached),
		slog.Any("in_flight", s.InFlight), slog.Any("registered", s.Registered), slog.Any("in_place", s.InPlace),
		slog.Any("pageable", s.Pageable),
		slog.Int64("allocated", s.Allocated), slog.Int64("cold", s.Cold), slog.Int64("warm", s.Warm),
		slog.Int64("reclaimed", s.Reclaimed), slog.Int64("forgotten", s.Forgotten), slog.Int64("lost_holds", s.LostHolds),
		slog.Int64("waits", s.Waits), slog.Int64("trims", s.Trims), slog.Int64("unlocked", s.Unlocked),
		slog.Int64("leaving", s.Leaving),
		slog.Any("register_calls", s.RegisterCalls), slog.Any("unregister_calls", s.UnregisterCalls),
		slog.String("locking", s.Locking), slog.Int("numa_node", s.NUMANode),
	}
	if s.NoCUDA != "" {
		attrs = append(attrs, slog.String("no_cuda", s.NoCUDA))
	}
	if s.NUMAError != "" {
		attrs = append(attrs, slog.String("numa_error", s.NUMAError))
	}
	if s.LockError != "" {
		attrs = append(attrs, slog.String("lock_error", s.LockError))
	}
	return slog.GroupValue(attrs...)
}

// String returns what is in use now and the peak, rounded: "1.0 MiB (peak 3.0 MiB)".
func (u Usage) String() string { return size(u.Current) + " (peak " + size(u.Peak) + ")" }

// LogValue returns a group of the three figures, in bytes.
func (u Usage) LogValue() slog.Value {
	return slog.GroupValue(slog.Int64("current", u.Current), slog.Int64("peak", u.Peak), slog.Int64("total", u.Total))
}

// LogValue returns a group of the figures, times in nanoseconds as in JSON.
func (c Calls) LogValue() slog.Value {
	return slog.GroupValue(slog.Int64("count", c.Count), slog.Int64("failed", c.Failed),
		slog.Int64("time_ns", int64(c.Time)), slog.Int64("max_ns", int64(c.Max)))
}

// size returns n bytes in the largest unit of which there is one.
func size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	x, unit := float64(n)/1024, 0
	for x >= 1023.95 { // would be printed as 1024.0
		x, unit = x/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", x, "KMGTPE"[unit])
}
