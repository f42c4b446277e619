package dataloader

// What a Loader can be told, and what is refused.

import (
	"fmt"
	"time"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/pintensor"
)

// LastBatch says what becomes of the batch at an epoch's end that has fewer than BatchSize samples.
type LastBatch int

const (
	// KeepLast delivers it as it is, smaller than the others. A Gorgonia graph that was made for BatchSize
	// rows refuses it: gorgonia.Let returns an error about its shape. Use DropLast or PadLast there.
	KeepLast LastBatch = iota

	// DropLast leaves its samples out of the epoch.
	DropLast

	// PadLast fills its tensors up to BatchSize rows with copies of its own samples, from its first
	// on, so that all batches have one shape; Len and Indices count the real ones. Batches that
	// SkipErrors made smaller are filled up as well.
	PadLast
)

// String returns the constant's name.
func (l LastBatch) String() string {
	return nameOf(int(l), "LastBatch", "KeepLast", "DropLast", "PadLast")
}

// ErrorPolicy says what becomes of a batch with a sample whose Read returned an error.
type ErrorPolicy int

const (
	// StopOnError gives the loop a [*SampleError] in place of the batch. A loop that goes on gets the next
	// batch.
	StopOnError ErrorPolicy = iota

	// SkipErrors leaves the sample out, but for a [FatalError]: the batch gets smaller, and its Skipped lists what is missing. A
	// batch with nothing left is left out of the loop, and Stats counts it.
	SkipErrors
)

// String returns the constant's name.
func (p ErrorPolicy) String() string {
	return nameOf(int(p), "ErrorPolicy", "StopOnError", "SkipErrors")
}

func nameOf(value int, kind string, names ...string) string {
	if value < 0 || value >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, value)
	}
	return names[value]
}

// Config is what a [Loader] is told. Only BatchSize has no default.
type Config struct {
	// BatchSize is the number of samples in a batch, > 0. With a BatchSampler it must be 0.
	BatchSize int

	// Shuffle reads the samples in a new random order each epoch, each of them once. It takes no memory
	// that grows with the data set.
	Shuffle bool

	// Seed is what all randomness is derived from, together with the epoch: the order of Shuffle, and
	// Row.Rand. The same seed gives the same batches, on any machine.
	Seed uint64

	// Sampler is the order of the samples. Nil: in order, or shuffled. It excludes Shuffle.
	Sampler Sampler

	// BatchSampler says which samples make up which batch. Nil: BatchSize consecutive ones of the order.
	// It excludes BatchSize, Shuffle, Sampler and LastBatch.
	BatchSampler BatchSampler

	// LastBatch says what becomes of a smaller batch at the end of an epoch. KeepLast by default.
	LastBatch LastBatch

	// Workers is how many goroutines read samples, at most 4096. 0: at first as many as GOMAXPROCS; where the
	// loop still waits for batches the Loader tries more, and fewer, and stays with what delivers most: at
	// most four times as many, or 32 if that is more, for sets that wait for a disk or a network. [Stats] has
	// the number. The order does not depend on it.
	Workers int

	// Prefetch is how many batches are read ahead of the loop, at most 65536; one more is in its hands. 0:
	// at first two for each worker, but not more than 256 MiB of them and at least two; where workers have to
	// wait for the loop although it waits for them, as with samples of which some take much longer, the Loader
	// tries more, up to eight for each worker and 256 MiB. Stats has the number, and PinnedLimit the memory.
	Prefetch int

	// SingleEpoch reads nothing of an epoch before its loop has begun. Otherwise, when all batches of
	// an epoch are being read, workers go on with the next one's, at most Prefetch of them, so that no loop but
	// the first begins with a wait. Set it where that is wasted, as in a Loader that is looped over once, and where
	// Read or what it reads depends on what happens between two loops.
	SingleEpoch bool

	// Unordered delivers batches as they get ready, so that a slow one does not hold up the rest. Which
	// samples make up a batch does not change.
	Unordered bool

	// Pin is the engine whose page-locked memory batches are in. Nil: pintensor.Default().
	Pin *pintensor.Engine

	// Stream is the stream on which batches are copied to its device, ahead of the loop; see
	// [Batch.Device]. Nil: batches stay on the host. It stays the caller's, and must be closed after
	// the Loader.
	Stream *asynccopy.Stream

	// Timeout is how long one call of Read or ReadBatch may take; longer ones end the loop with an
	// error that is [ErrTimeout] and names the sample. It is also how long the end of a loop and Close
	// wait for readers that do not return though their context is done. 0: reads may take as long
	// as they like, and the end waits 5 seconds for them.
	Timeout time.Duration

	// Progress is told of each turn of a loop when it is over, by the goroutine that runs the loop. Nil: nobody is.
	Progress func(Progress)

	// OnError says what becomes of a sample whose Read fails. StopOnError by default.
	OnError ErrorPolicy

	// MaxSkipped is the largest share of an epoch's samples that SkipErrors may leave out in one loop, from 0 to 1:
	// with more the loop ends with an error that is [ErrSkipped]. Of an epoch whose length nobody knows, one by a
	// BatchSampler or without an end, it is that of the samples so far, taken as 10,000 at least. 0: no limit.
	MaxSkipped float64

	// Retries is how often a Read or ReadBatch that returned a [*RetryError] is called again, after pauses of
	// 100 to 150 ms, 200 to 300 ms, and so on up to 15 s, or as long as the error says. After a ReadBatch that failed
	// each time, each of its samples is read by Read, and that as often. A pause does not count for Timeout. 0: 3 times;
	// below 0: never.
	Retries int

	// Rank and WorldSize are this process's number and how many there are, 0 <= Rank < WorldSize; each
	// rank gets an equal share of every epoch, every WorldSize-th sample starting with its own number.
	// Shares are made equal by filling the order up from its start, or by cutting it with DropLast. 0
	// and 0: one process. With a BatchSampler, batches are dealt out instead of samples.
	Rank, WorldSize int
}

const (
	maxWorkers   = 4096
	maxPrefetch  = 1 << 16
	defaultGrace = 5 * time.Second // how long ending waits for readers where Timeout is 0
)

// check returns an error that names the first field with a value that makes no sense.
func (c *Config) check() error {
	switch {
	case c.BatchSampler != nil && c.BatchSize != 0:
		return fmt.Errorf("dataloader: Config.BatchSize = %d: want 0 with a BatchSampler, which makes the batches", c.BatchSize)
	case c.BatchSampler != nil && c.Shuffle:
		return fmt.Errorf("dataloader: Config.Shuffle = true: want false with a BatchSampler, which is the order")
	case c.BatchSampler != nil && c.Sampler != nil:
		return fmt.Errorf("dataloader: Config.Sampler = %T: want nil with a BatchSampler, which is the order", c.Sampler)
	case c.BatchSampler != nil && c.LastBatch != KeepLast:
		return fmt.Errorf("dataloader: Config.LastBatch = %v: want KeepLast with a BatchSampler, which makes the batches", c.LastBatch)
	case c.BatchSampler == nil && c.BatchSize <= 0:
		return fmt.Errorf("dataloader: Config.BatchSize = %d: want > 0", c.BatchSize)
	case c.Sampler != nil && c.Shuffle:
		return fmt.Errorf("dataloader: Config.Shuffle = true: want false with a Sampler, which is the order")
	case c.LastBatch < KeepLast || c.LastBatch > PadLast:
		return fmt.Errorf("dataloader: Config.LastBatch = %d: want KeepLast, DropLast or PadLast", int(c.LastBatch))
	case c.OnError < StopOnError || c.OnError > SkipErrors:
		return fmt.Errorf("dataloader: Config.OnError = %d: want StopOnError or SkipErrors", int(c.OnError))
	case !(c.MaxSkipped >= 0 && c.MaxSkipped <= 1): // NaN too
		return fmt.Errorf("dataloader: Config.MaxSkipped = %v: want a share from 0 to 1", c.MaxSkipped)
	case c.MaxSkipped > 0 && c.OnError != SkipErrors:
		return fmt.Errorf("dataloader: Config.MaxSkipped = %v: want 0 unless OnError is SkipErrors", c.MaxSkipped)
	case c.Workers < 0 || c.Workers > maxWorkers:
		return fmt.Errorf("dataloader: Config.Workers = %d: want 0 to %d", c.Workers, maxWorkers)
	case c.Prefetch < 0 || c.Prefetch > maxPrefetch:
		return fmt.Errorf("dataloader: Config.Prefetch = %d: want 0 to %d", c.Prefetch, maxPrefetch)
	case c.Timeout < 0:
		return fmt.Errorf("dataloader: Config.Timeout = %v: want >= 0", c.Timeout)
	case c.WorldSize < 0:
		return fmt.Errorf("dataloader: Config.WorldSize = %d: want >= 0", c.WorldSize)
	case c.Rank < 0 || c.Rank >= max(c.WorldSize, 1):
		return fmt.Errorf("dataloader: Config.Rank = %d: want 0 to %d (WorldSize is %d)", c.Rank, max(c.WorldSize, 1)-1, c.WorldSize)
	}
	return nil
}

// grace returns how long ending waits for readers.
func (c *Config) grace() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return defaultGrace
}
