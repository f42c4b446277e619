package dataloader

// Spans of time for those who look: regions of runtime/trace, and spans of the trace of Config.Stream's device.

import (
	"context"
	"runtime/trace"

	"github.com/pintensor/pin/asynccopy"
)

// The names of spans.
const (
	spanRead = "dataloader.Read"
	spanCopy = "dataloader.Copy"
	spanWait = "dataloader.Wait" // the loop, for a batch
)

// spanned reports whether anybody looks. When nobody does that is all that spans cost.
func (l *Loader) spanned() bool { return l.trace != nil || trace.IsEnabled() }

// span begins a span on the calling goroutine, which calls what is returned at its end.
func (l *Loader) span(ctx context.Context, name string) (end func()) {
	region := trace.StartRegion(ctx, name)
	span := l.trace.Span("dataloader", name)
	return func() {
		span.End()
		region.End()
	}
}

// traceOf returns the trace of a stream's device, nil if there is none.
func traceOf(s *asynccopy.Stream) *asynccopy.Trace {
	if s == nil {
		return nil
	}
	return s.Device().Trace()
}
