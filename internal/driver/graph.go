package driver

// This file has captured work that can be launched again and again, and times on a stream.

import "time"

// Graph is captured work that is ready to be launched (a CUgraphExec). Zero is no graph.
type Graph uintptr

// Node is captured work (a CUgraphNode). It is valid while its capture lasts.
type Node uintptr

// Grapher captures work and launches it again as a whole, at a fraction of the cost of issuing it. All
// devices do, except CUDA's before 11.4, which return [ErrNotSupported].
type Grapher interface {
	// BeginCapture makes work that is issued to s from now on part of a graph, instead of running it.
	// Until EndCapture s takes launches, copies between the device and registered memory or within the
	// device, and fills, all without an event, and work that other code issues to the handle, such as
	// cuBLAS. Calls that ask or wait for s fail with [CodeCaptureUnsupported] and spoil the capture; do
	// not record or wait for events on s, nor allocate on it. Other streams are not concerned.
	BeginCapture(s Stream) error

	// CaptureDependencies appends to nodes what work that is issued to s next will wait for, during a capture: the
	// work that was captured last, or what SetCaptureDependencies has set since. Drivers before CUDA 11.3 return
	// [ErrNotSupported].
	CaptureDependencies(s Stream, nodes []Node) ([]Node, error)

	// SetCaptureDependencies makes work that is issued to s next wait for nodes, which may be none, and for nothing
	// else of the capture. Without it what is captured is a chain; with it what does not depend on each other may
	// run at once. It is the caller who knows. Drivers before CUDA 11.3 return [ErrNotSupported].
	SetCaptureDependencies(s Stream, nodes []Node) error

	// EndCapture ends the capture, also where it fails, and returns what was captured, which keeps the
	// addresses that were given: host memory must stay registered, device memory allocated and modules
	// loaded until the graph is destroyed. Of a spoilt capture it returns [CodeCaptureInvalidated].
	EndCapture(s Stream) (Graph, error)

	// LaunchGraph issues all of g to s, behind the work issued to s so far, and behind earlier launches of g. Work
	// issued to s later waits for all of it.
	LaunchGraph(g Graph, s Stream) error

	// DestroyGraph releases g. Launches that were issued still run; the call does not wait for them.
	DestroyGraph(g Graph) error
}

// Clock tells when work ran.
type Clock interface {
	// NewTimingEvent is NewEvent for an event that also notes when its work completes. DestroyEvent
	// releases it.
	NewTimingEvent() (Event, error)

	// Elapsed returns the time on the device between two completed timing events of it, negative if from
	// completed later. It is exact to about a microsecond in the first seconds, and to 1 part in 10 million
	// of longer times.
	Elapsed(from, to Event) (time.Duration, error)
}
