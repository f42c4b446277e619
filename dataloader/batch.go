package dataloader

// Batch: what a loop's body gets.

import (
	"errors"
	"fmt"
	"sync/atomic"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/asynccopy"
)

// Batch is a batch of samples. It is valid until the next turn of the loop, and so are its tensors and
// Indices: their memory is filled with other samples then. After [Batch.Keep] it is valid until
// [Batch.Release].
//
// Host, Device, Use and Keep panic on a Batch that is not valid any more, so that a use too late does not
// read another batch's data.
type Batch struct {
	Epoch int
	Index int // the batch's number in the epoch, from 0

	// Indices are the samples in the data set, in the order of the rows. It must not be changed.
	Indices []int

	// Meta is what [Row.SetMeta] has attached to each sample, in the order of Indices, nil where nothing; nil if
	// nothing was to any of them. It is the caller's, and stays.
	Meta []any

	// Skipped are the errors of samples that SkipErrors left out.
	Skipped []*SampleError

	n    int
	run  *run
	slot atomic.Pointer[slot] // nil once it is not valid
	kept bool
}

// batchBlock is how many Batches are allocated at once. They are never used again, which is how a use
// too late is found: one allocation in so many batches is the price.
const batchBlock = 64

// Len is the number of samples. With PadLast tensors may have more rows.
func (b *Batch) Len() int { return b.n }

// String says which batch it is, and what is in it.
func (b *Batch) String() string {
	text := fmt.Sprintf("batch %d of epoch %d, %d samples", b.Index, b.Epoch, b.n)
	s := b.slot.Load()
	if s == nil {
		return text + ", over"
	}
	sep := ": "
	for i, f := range s.l.layout.fields {
		text += sep + Field{Name: f.Name, Dtype: f.Dtype, Shape: s.view.host[i].Shape()}.describe()
		sep = ", "
	}
	return text
}

// Host returns the tensor of a field, numbered as in [Dataset.Fields], in page-locked host memory: its
// shape is the field's with the batch axis put first. It is the Loader's, an ordinary row-major
// tensor with tensor's standard engine. Its elements may be changed; with [Config.Stream] only when the
// copy is complete, which Device(field).Wait says. It panics if there is no such field,
// and if the batch is not valid any more.
func (b *Batch) Host(field int) *tensor.Dense {
	v := b.valid("Host").view
	if field < 0 || field >= len(v.host) {
		panic(fmt.Errorf("dataloader: Batch.Host(%d): want a field from 0 to %d", field, len(v.host)-1))
	}
	return v.host[field]
}

// Device returns the tensor of a field on the device of [Config.Stream]. Its copy was started when the
// batch was read; streams that use it through package asynccopy wait for it by themselves. It is the
// Loader's and must not be released. It holds what Host held when the batch was delivered, and is
// overwritten only after the work that was using it when the turn ended.
// It panics if there is no such field, if Config.Stream is nil, and if the batch is not valid any more.
func (b *Batch) Device(field int) *asynccopy.Tensor {
	s := b.valid("Device")
	if s.l.cfg.Stream == nil {
		panic(fmt.Errorf("dataloader: Batch.Device(%d): Config.Stream is nil: batches are on the host", field))
	}
	if field < 0 || field >= len(s.view.device) {
		panic(fmt.Errorf("dataloader: Batch.Device(%d): want a field from 0 to %d", field, len(s.view.device)-1))
	}
	return s.view.device[field]
}

// Use says that other code, such as a kernel, reads the batch's tensors on the device on s: it is
// [asynccopy.Tensor.Use] of all fields, which lie in one memory, in one call. Work issued to s from now on follows
// the batch's copy, and the memory is not overwritten before what was issued to s when the turn ended. It panics where
// Device does.
func (b *Batch) Use(s *asynccopy.Stream) error {
	held := b.valid("Use")
	if held.l.cfg.Stream == nil {
		panic(errors.New("dataloader: Batch.Use: Config.Stream is nil: batches are on the host"))
	}
	if err := held.view.copied.Use(s); err != nil {
		return fmt.Errorf("dataloader: Batch.Use: batch %d of epoch %d: %w", b.Index, b.Epoch, err)
	}
	return nil
}

func (b *Batch) valid(call string) *slot {
	s := b.slot.Load()
	if s == nil {
		panic(fmt.Errorf("dataloader: Batch.%s: batch %d of epoch %d is over: it was released, or its turn of the loop was and it was not kept",
			call, b.Index, b.Epoch))
	}
	return s
}

// Keep makes the batch the caller's: it stays valid after its turn, and after Close, until Release. The
// Loader takes new memory in its place. Memory of a kept batch that is dropped without Release goes
// back when the collector finds it. Keep belongs into the batch's own turn of the loop.
func (b *Batch) Keep() {
	s := b.valid("Keep")
	if b.kept {
		return
	}
	b.kept = true
	b.run.giveAway(s)
}

// Release gives the memory of a kept batch back to the Loader; of one not kept too, before its turn
// ends. The batch is not valid afterwards. Releasing it again is [ErrReleased] and harms nothing. It may
// be called from any goroutine. Copies and work on the device that was issued before may still be
// running.
func (b *Batch) Release() error {
	s := b.slot.Swap(nil)
	if s == nil {
		return fmt.Errorf("dataloader: Batch.Release: batch %d of epoch %d: %w", b.Index, b.Epoch, ErrReleased)
	}
	b.Indices = nil // they become another batch's
	s.endUses()
	if b.kept {
		s.l.own(s)
		return s.l.put(s)
	}
	return b.run.recycle(s)
}

// endTurn takes the batch back unless it was kept or released.
func (b *Batch) endTurn() {
	if b.kept {
		return
	}
	if s := b.slot.Swap(nil); s != nil {
		b.Indices = nil
		s.endUses()
		b.run.recycle(s)
	}
}
