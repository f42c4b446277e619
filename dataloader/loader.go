package dataloader

// Loader: what it has, and how it is made. Its loops are in loop.go, its end in close.go.

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/pintensor"
)

const (
	maxInt   = math.MaxInt
	maxEpoch = maxInt / 2 // that may be asked for; epochs after it still have a number

	warmBytes = 256 << 10 // of a batch, from which on two of them do not stay in a core's cache
)

// Loader reads a data set batch by batch, ahead of the loop that uses the batches. See the package's
// documentation for order, ownership and errors. Its methods are safe for concurrent use.
type Loader struct {
	ds      Dataset
	cfg     Config
	layout  *layout
	plan    *plan
	engine  *pintensor.Engine
	rows    int  // that a slot has room for at least
	workers int  // at most
	tokens  int  // batches in memory at once, at most, but for kept ones
	zero    bool // rows are zeroed before they are read
	trace   *asynccopy.Trace

	ownOrder  bool // the sampler is one of ours: a single worker may look samples up early
	keepsWarm bool // and a batch is so large that the worker prefers the memory that it wrote last, see warm.go

	proof *proof // that rows are written whole

	hands, depth atomic.Int64 // workers, and batches that are read ahead, now
	tuner        *tuner       // of the loop's goroutine; nil: those stay
	shallow      atomic.Bool  // there was no memory for a larger depth
	shallowest   int          // the depth to begin with

	order, data string        // for States
	probed      func() string // asks a Sampler that says nothing of itself, once, when a State is made

	_ line // what follows changes with each batch, and workers read what is before

	mu       sync.Mutex
	closed   bool
	at       position
	resumed  bool   // the next loop starts at exactly at
	setEpoch *int   // by SetEpoch, for the next loop
	run      *run   // of the loop that runs
	starting bool   // a loop is about to
	standing *run   // reads ahead for the next loop
	leftover []*run // with readers that did not return when they were told to
	pool     []*slot
	owned    int           // slots, but for kept ones: in pool and in runs
	errs     []error       // met in the background
	freed    chan struct{} // closed when Close is done

	spent tally // by workers of runs that are over; guarded by mu
	counters
}

// New returns a Loader of ds. It reads nothing yet. Values in cfg that make no sense, and a data set with
// such fields, are errors that name the field, the value and what was expected.
//
// A Loader holds the memory of its batches until Close. While no loop runs over it it has no goroutines, once what it
// reads ahead of the next loop has been read.
func New(ds Dataset, cfg Config) (*Loader, error) {
	if ds == nil {
		return nil, fmt.Errorf("dataloader: New: ds is nil: want a Dataset")
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if f, ok := ds.(*funcDataset); ok && f.read == nil {
		return nil, fmt.Errorf("dataloader: FromFunc: read is nil: want a function")
	}
	layout, err := newLayout(ds.Fields())
	if err != nil {
		return nil, err
	}
	plan, err := planOf(ds, &cfg)
	if err != nil {
		return nil, err
	}
	if plan.places < 0 {
		return nil, fmt.Errorf("dataloader: Config.Sampler: Len() = %d: want >= 0", plan.places)
	}
	l := &Loader{ds: ds, cfg: cfg, layout: layout, plan: plan, engine: cfg.Pin, trace: traceOf(cfg.Stream), freed: make(chan struct{})}
	l.rows = l.plan.maxSize()
	l.order = l.describeOrder()
	if _, says := cfg.Sampler.(Fingerprinter); !says && cfg.Sampler != nil {
		l.probed = sync.OnceValue(l.plan.probe)
	}
	if f, ok := ds.(Fingerprinter); ok {
		l.data = f.Fingerprint()
	}
	if cfg.LastBatch == PadLast && l.rows > 0 {
		l.rows = cfg.BatchSize
	}
	if l.rows > maxInt/layout.total {
		return nil, fmt.Errorf("dataloader: Config.BatchSize = %d: a batch of samples of %d bytes takes more than %d", cfg.BatchSize, layout.total, maxInt)
	}
	if l.engine == nil {
		l.engine = pintensor.Default()
	}
	l.size()
	_, l.ownOrder = plan.sampler.(bulkSampler)
	l.keepsWarm = l.ownOrder && cfg.Stream == nil && layout.batchBytes(l.rows) >= warmBytes
	l.zero = !overwrites(ds)
	l.proof = newProof(ds)
	return l, nil
}

// made refuses a Loader that is nil or zero: one of a New that failed, say, and that is closed all the same.
func (l *Loader) made(call string) error {
	if l == nil || l.plan == nil {
		return fmt.Errorf("dataloader: %s: the Loader was not made by New", call)
	}
	return nil
}

// String says what is loaded, and how.
func (l *Loader) String() string {
	if l.made("String") != nil {
		return "no loader"
	}
	size := "batches"
	if l.plan.dealt == nil {
		size = fmt.Sprint("batches of ", l.cfg.BatchSize)
	}
	if l.plan.feed != nil {
		return fmt.Sprintf("%s of %s", size, l.order)
	}
	return fmt.Sprintf("%s of %s, %s", size, describeSet(l.ds), l.order)
}

// Len returns the number of batches of an epoch: with a [BatchSampler], of the epoch that runs, or else
// comes next. A loop has that many turns, but for batches of which SkipErrors left nothing. With a stream it is
// -1: not known.
func (l *Loader) Len() int {
	if l.plan.feed != nil {
		return -1
	}
	l.mu.Lock()
	epoch := l.upcoming().epoch
	if l.run != nil {
		epoch = l.run.leg.epoch
	}
	l.mu.Unlock()
	return l.plan.len(epoch)
}
