package dataloader

// Data sets without length or random access.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
)

// Source is where the samples of a stream come from: see [FromStream]. Fields, Open and Read must be set.
type Source[T any] struct {
	// Fields is what each sample consists of.
	Fields []Field

	// Open returns the items of a shard (0 <= shard < Shards) in an epoch, in order. It is called, and what it
	// returns is run, in a goroutine of its own for each shard, and should end soon when ctx is done. An item may
	// not be changed after it was yielded. An error yielded in place of one is that sample's, see [Config.OnError],
	// and more items may follow. A panic is raised again in the loop, as a [*PanicError].
	Open func(ctx context.Context, epoch, shard int) iter.Seq2[T, error]

	// Read makes a sample of an item: decodes it into row, which is zeroed, as [Dataset.Read] does. Several workers
	// call it at once.
	Read func(ctx context.Context, item T, row Row) error

	// Shards is how many parts the stream has, such as files. 0: 1.
	Shards int

	// Interleave is how many shards are open, and read, at the same time; their items come in turn, and where one ends
	// the next shard takes its place. The order depends on it. 0: 1.
	Interleave int

	// Ahead is how many items of each open shard are read ahead at most. 0: 16.
	Ahead int

	// ShuffleBuffer is how many items Config.Shuffle has in hand, of which it takes one at random each time: how far
	// an item can get from its place. With Config.Shuffle the order of shards is random too. 0: 1024.
	ShuffleBuffer int

	// SplitByShard has ranks read different shards, of which there must be at least Config.WorldSize. Otherwise
	// every rank reads all items, and makes samples of its share only.
	SplitByShard bool
}

// FromStream returns the Dataset of a stream, for a Loader only. Its samples are read in the order in which they come,
// and so cannot be asked for by number, nor other sets be made of them: what Map would do belongs into src.Read. How
// many there are shows at the end. It is PyTorch's IterableDataset, but for this: items are read by one goroutine a
// shard, merged into one order, put into batches, and only then made into samples by all workers. So batches do not
// depend on workers, none is short but the last, and no item is lost or comes twice.
//
// The Loader is as with other sets, except for these:
//   - [Loader.Len] is -1. A loop has as many turns as the stream gives batches.
//   - [Config.Shuffle] is within a buffer. It takes memory for so many items, and is a function of seed and epoch.
//     Config.Sampler and Config.BatchSampler are errors.
//   - Batch.Indices are the places of samples in the merged order before shuffling, over all ranks.
//   - Ranks have equal shares, as Config.Rank says, but with SplitByShard they have what is in their shards.
//   - Resuming reads the stream from the epoch's start, and passes over as many batches as there were, without
//     making samples of them. Open must give the same items then. A State in the body of an epoch's last
//     batch continues with no more batches of that epoch.
//   - Nothing is read of an epoch before its loop.
//   - [Config.Timeout] holds for waiting for items too.
//
// Values of src that make no sense are errors that name them. Fields are checked by [New].
func FromStream[T any](src Source[T]) (Dataset, error) {
	bad := func(name string, value any, want string) (Dataset, error) {
		return nil, fmt.Errorf("dataloader: FromStream: Source.%s = %v: want %s", name, value, want)
	}
	switch {
	case src.Open == nil:
		return bad("Open", "nil", "a function")
	case src.Read == nil:
		return bad("Read", "nil", "a function")
	case src.Shards < 0:
		return bad("Shards", src.Shards, ">= 0")
	case src.Interleave < 0 || src.Interleave > maxInterleave:
		return bad("Interleave", src.Interleave, fmt.Sprintf("0 to %d", maxInterleave))
	case src.Ahead < 0 || src.Ahead > maxAhead:
		return bad("Ahead", src.Ahead, fmt.Sprintf("0 to %d", maxAhead))
	case src.ShuffleBuffer < 0:
		return bad("ShuffleBuffer", src.ShuffleBuffer, ">= 0")
	}
	for _, d := range []struct {
		value *int
		usual int
	}{{&src.Shards, 1}, {&src.Interleave, 1}, {&src.Ahead, 16}, {&src.ShuffleBuffer, 1024}} {
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	return &streamSet[T]{src}, nil
}

const (
	maxInterleave = 4096
	maxAhead      = 1 << 20
)

type streamSet[T any] struct{ src Source[T] }

// Len is -1: not known.
func (s *streamSet[T]) Len() int        { return -1 }
func (s *streamSet[T]) Fields() []Field { return s.src.Fields }

// Read makes a sample of the item that the stream had for this row of the batch.
func (s *streamSet[T]) Read(ctx context.Context, i int, row Row) error {
	items, ok := row.b.items.([]item[T])
	if !ok {
		return errors.New("a stream has no samples by number: only a Loader can read it")
	}
	if it := &items[row.k]; it.err != nil {
		return it.err
	} else {
		return s.src.Read(ctx, it.value, row)
	}
}

// String says what is streamed.
func (s *streamSet[T]) String() string {
	return fmt.Sprintf("FromStream(%v, %d shards)", reflect.TypeFor[T](), s.src.Shards)
}

// item is what a stream has for one sample.
type item[T any] struct {
	value T
	err   error       // in its place
	panic *PanicError // of the stream
	index int
}

// streamed is a Dataset that is a stream.
type streamed interface {
	// feed returns what gives a Loader's workers the batches of its stream.
	feed(cfg *Config) (feed, error)
}

// feed hands batches of items to the workers of one Loader.
type feed interface {
	// batch waits for the batch that s is for, and puts its samples into s: none at the stream's end. began is called
	// when it is the batch's turn.
	batch(ctx context.Context, r *run, s *slot, began func()) error

	// batches is how many the run's epoch turned out to have, at the stream's end.
	batches(r *run) int
}

// feed checks what streams can not do.
func (s *streamSet[T]) feed(cfg *Config) (feed, error) {
	switch {
	case cfg.Sampler != nil:
		return nil, fmt.Errorf("dataloader: Config.Sampler = %T: want nil with a stream, which is the order", cfg.Sampler)
	case cfg.BatchSampler != nil:
		return nil, fmt.Errorf("dataloader: Config.BatchSampler = %T: want nil with a stream, which is the order", cfg.BatchSampler)
	case s.src.SplitByShard && s.src.Shards < max(cfg.WorldSize, 1):
		return nil, fmt.Errorf("dataloader: Config.WorldSize = %d: want at most %d, the shards of a stream with SplitByShard", cfg.WorldSize, s.src.Shards)
	}
	return &streamFeed[T]{&s.src, *cfg}, nil
}
