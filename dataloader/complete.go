package dataloader

// From a filled slot to a batch: errors, samples left out, padding, tensors, copies.

// resolve decides what becomes of a filled slot: a batch with at least one sample (true), or an error, a
// panic, or nothing. Of several faults that of the first row counts, so that it does not matter how the
// rows were divided among workers.
func (s *slot) resolve() (whole bool) {
	skip := s.l.cfg.OnError == SkipErrors
	var first *fault
	for i := range s.faults {
		f := &s.faults[i]
		if (!f.skip || !skip) && (first == nil || f.row < first.row) {
			first = f
		}
	}
	switch {
	case first == nil:
		if len(s.faults) > 0 {
			s.leaveOut()
		}
		return len(s.indices) > 0
	case first.panic != nil:
		s.panic = first.panic
	default:
		s.err = first.err
	}
	return false
}

// leaveOut takes the rows that have a fault out of the batch, and closes the gaps.
func (s *slot) leaveOut() {
	bad := make(map[int]*SampleError, len(s.faults))
	for i := range s.faults {
		bad[s.faults[i].row] = s.faults[i].err
	}
	kept := 0
	for k, index := range s.indices {
		if err := bad[k]; err != nil {
			s.skipped = append(s.skipped, err)
			continue
		}
		if kept < k {
			s.move(kept, k)
			s.indices[kept] = index
		}
		kept++
	}
	s.indices = s.indices[:kept]
}

// publish makes the tensors of the batch.
func (s *slot) publish() error {
	rows := len(s.indices)
	if s.l.cfg.LastBatch == PadLast {
		for ; rows < s.l.cfg.BatchSize; rows++ {
			s.move(rows, rows-len(s.indices))
		}
	}
	if err := s.pad(rows); err != nil {
		return err
	}
	v, err := s.look(rows)
	if err != nil {
		return err
	}
	s.view = v
	return nil
}
