package dataloader

// Where a Loader is in its sequence of epochs and batches, and how that survives the process.

import (
	"errors"
	"fmt"
	"slices"
)

// position is the next batch to be consumed. It is never at the end of an epoch, but at the start of the
// next.
type position struct {
	epoch, batch int
	ahead        []int // batches after batch that were consumed before it, ascending: Unordered only
}

func (p position) clone() position {
	p.ahead = slices.Clone(p.ahead)
	return p
}

// consume marks batch b of an epoch with n batches.
func (p *position) consume(b, n int) {
	if b != p.batch {
		i, _ := slices.BinarySearch(p.ahead, b)
		p.ahead = slices.Insert(p.ahead, i, b)
		return
	}
	p.batch++
	for len(p.ahead) > 0 && p.ahead[0] == p.batch {
		p.batch++
		p.ahead = slices.Delete(p.ahead, 0, 1)
	}
	if p.batch >= n {
		*p = position{epoch: p.epoch + 1, ahead: p.ahead[:0]}
	}
}

// upcoming is where the next loop starts. The caller holds l.mu.
func (l *Loader) upcoming() position {
	switch {
	case l.setEpoch != nil:
		return position{epoch: *l.setEpoch}
	case !l.resumed && (l.at.batch > 0 || len(l.at.ahead) > 0): // a loop was left
		return position{epoch: l.at.epoch + 1}
	}
	return l.at
}

// advance marks a batch of the running loop as consumed.
func (l *Loader) advance(number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at.consume(number, l.run.leg.count)
}

// passOver marks an epoch without batches as consumed.
func (l *Loader) passOver(epoch int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = position{epoch: epoch + 1}
}

// SetEpoch makes n the epoch of the next loop, from its first batch on. A loop that runs is not affected. An
// n below 0 or above [math.MaxInt]/2 is an error of the next loop. Epochs advance by themselves: there is no
// need to call it each time.
func (l *Loader) SetEpoch(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setEpoch = &n
}

// stateVersion is raised when what a State means changes.
const stateVersion = 1

// State is a place in the sequence of batches, for a checkpoint. It is plain data and survives
// encoding/json. Except for where it is, it describes the data set and configuration, for Restore to
// compare.
type State struct {
	Version int   `json:"version"`
	Epoch   int   `json:"epoch"`
	Batch   int   `json:"batch"`           // the next of Epoch to be delivered
	Ahead   []int `json:"ahead,omitempty"` // batches after it that were delivered already (Unordered)

	Seed      uint64   `json:"seed,string"` // text: JSON numbers of other languages end at 2^53
	Samples   int      `json:"samples"`     // of the data set
	Fields    []string `json:"fields"`
	Data      string   `json:"data,omitempty"` // what the data set says of itself, see [Fingerprinter]
	Order     string   `json:"order"`
	BatchSize int      `json:"batch_size"`
	LastBatch string   `json:"last_batch"`
	Rank      int      `json:"rank"`
	WorldSize int      `json:"world_size"`
}

// State returns the place after the batches that the loop has consumed, the one in its body included; those
// read ahead don't count. An error in place of a batch counts as that batch. At the end of an epoch it
// is the start of the next.
func (l *Loader) State() State {
	s := l.describe()
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.at
	if l.run == nil && l.setEpoch != nil {
		at = l.upcoming()
	}
	s.Epoch, s.Batch, s.Ahead = at.epoch, at.batch, slices.Clone(at.ahead)
	return s
}

func (l *Loader) describe() State {
	order := l.order
	if l.probed != nil {
		order += l.probed()
	}
	s := State{
		Version: stateVersion, Seed: l.cfg.Seed, Samples: l.plan.samples, Fields: l.layout.describe(), Data: l.data, Order: order,
		BatchSize: l.cfg.BatchSize, LastBatch: l.cfg.LastBatch.String(), Rank: l.plan.rank, WorldSize: l.plan.world,
	}
	if l.plan.feed != nil {
		s.Samples = -1
	}
	return s
}

// describeOrder writes what decides on the order, for a State to compare.
func (l *Loader) describeOrder() string {
	switch {
	case l.plan.feed != nil:
		return fmt.Sprintf("%v, shuffled: %v", l.ds, l.cfg.Shuffle)
	case l.plan.dealt != nil:
		return fmt.Sprintf("BatchSampler %T%s", l.plan.dealt, fingerprint(l.plan.dealt))
	case l.cfg.Sampler != nil:
		return fmt.Sprintf("Sampler %T of %d%s", l.plan.sampler, l.plan.places, fingerprint(l.plan.sampler))
	case l.cfg.Shuffle:
		return "shuffled"
	}
	return "sequential"
}

// Restore makes the next loop continue at s, with exactly the batches that would have followed there. The
// number of workers, Prefetch, Unordered, Stream and what happens to errors may be different. It returns
// [ErrRunning] while a loop runs, and an [ErrState] that lists what differs if s is of another data set,
// order or seed, batch size or rank; the Loader is where it was then.
//
// WorldSize may be different, too, where all ranks together had consumed as many batches as make a whole number for
// each rank now, and s was not taken in an Unordered epoch that is not over: the ranks then share what was left
// of the epoch. Every rank restores a State, of whichever rank, taken after the same batch.
func (l *Loader) Restore(s State) error {
	if err := l.made("Restore"); err != nil {
		return err
	}
	at, err := l.fits(s)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return ErrClosed
	case l.run != nil || l.starting:
		return ErrRunning
	}
	l.at = at
	l.setEpoch, l.resumed = nil, true
	return nil
}

// fits returns the place of s, and an error that lists what of s is not as this Loader's States are.
func (l *Loader) fits(s State) (position, error) {
	at := position{s.Epoch, s.Batch, slices.Clone(s.Ahead)}
	if s.Version != stateVersion {
		return at, fmt.Errorf("dataloader: Restore: %w: State.Version = %d: want %d", ErrState, s.Version, stateVersion)
	}
	want := l.describe()
	var errs []error
	differ := func(what string, have, want any) {
		errs = append(errs, fmt.Errorf("dataloader: Restore: %w: State.%s = %v: this loader has %v", ErrState, what, have, want))
	}
	if s.Samples != want.Samples {
		differ("Samples", s.Samples, want.Samples)
	}
	if !slices.Equal(s.Fields, want.Fields) {
		differ("Fields", s.Fields, want.Fields)
	}
	if s.Data != want.Data {
		differ("Data", fmt.Sprintf("%q", s.Data), fmt.Sprintf("%q", want.Data))
	}
	if s.Order != want.Order {
		differ("Order", s.Order, want.Order)
	}
	if s.Seed != want.Seed {
		differ("Seed", s.Seed, want.Seed)
	}
	if s.BatchSize != want.BatchSize {
		differ("BatchSize", s.BatchSize, want.BatchSize)
	}
	if s.LastBatch != want.LastBatch {
		differ("LastBatch", s.LastBatch, want.LastBatch)
	}
	valid := s.WorldSize >= 1 && s.Rank >= 0 && s.Rank < s.WorldSize
	own := s.WorldSize == want.WorldSize && s.Rank == want.Rank
	// A stream is divided among ranks as it comes, so its States are for as many ranks, and the same one.
	if !valid || !own && (s.WorldSize == want.WorldSize || l.plan.feed != nil) {
		differ("Rank", fmt.Sprintf("%d of %d", s.Rank, s.WorldSize), fmt.Sprintf("%d of %d", want.Rank, want.WorldSize))
	}
	if s.Epoch < 0 || s.Epoch > maxEpoch {
		differ("Epoch", s.Epoch, fmt.Sprintf("epochs 0 to %d", maxEpoch))
	}
	if len(errs) > 0 {
		return at, errors.Join(errs...)
	}
	n := l.plan.len(s.Epoch)
	if s.WorldSize != want.WorldSize {
		return l.redeal(s, n)
	}
	if s.Batch < 0 || s.Batch > max(n-1, 0) {
		differ("Batch", s.Batch, fmt.Sprintf("batches 0 to %d in epoch %d", n-1, s.Epoch))
	}
	last := s.Batch
	for _, b := range s.Ahead {
		if b <= last || b >= n {
			differ("Ahead", s.Ahead, fmt.Sprintf("batches above %d, ascending, to %d", s.Batch, n-1))
			break
		}
		last = b
	}
	return at, errors.Join(errs...)
}

// redeal returns the place of s, which is of another number of ranks, in an epoch of n batches for each rank now. The
// first b batches of w ranks are the first b*w*BatchSize places of the order, however many ranks there are.
func (l *Loader) redeal(s State, n int) (position, error) {
	w := l.plan.world
	differ := func(format string, args ...any) (position, error) {
		return position{}, fmt.Errorf("dataloader: Restore: %w: State of %d ranks, this loader is one of %d: %s", ErrState, s.WorldSize, w, fmt.Sprintf(format, args...))
	}
	switch {
	case len(s.Ahead) > 0:
		return differ("State.Ahead = %v: want none, which means a State without Unordered or of an epoch's start", s.Ahead)
	case s.Batch < 0 || s.Batch > maxInt/s.WorldSize:
		return differ("State.Batch = %d: want a batch of the epoch", s.Batch)
	}
	done := s.Batch * s.WorldSize
	if done%w > 0 {
		return differ("State.Batch = %d makes %d batches of all ranks together: want a multiple of %d", s.Batch, done, w)
	}
	switch b := done / w; {
	case b == 0:
		return position{epoch: s.Epoch}, nil
	case b < n:
		return position{epoch: s.Epoch, batch: b}, nil
	case b == n: // what one number of ranks fills up or cuts the other does not
		return position{epoch: s.Epoch + 1}, nil
	default:
		return differ("State.Batch = %d: want a batch of the epoch, which has %d for each rank now", s.Batch, n)
	}
}
