package dataloader

// Progress: what is told of each turn of a loop.

// Progress is how far a loop is: what a progress bar shows.
type Progress struct {
	Epoch   int
	Batches int // of the epoch
	Done    int // of those, including those of a loop before a Restore, errors, and batches of which nothing was left
	Samples int // in the batch of this turn, 0 if it had none
}

// report tells Config.Progress of a turn that is over.
func (l *Loader) report(r *run, samples int) {
	if f := l.cfg.Progress; f != nil {
		f(Progress{Epoch: r.leg.epoch, Batches: r.leg.count, Done: r.leg.count - (r.leg.end - r.leg.start - r.taken), Samples: samples})
	}
}
