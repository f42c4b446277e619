package dataloader

// Whether rows that are not zeroed are written whole. A set that says so and leaves something out would give the loop remains of
// other samples, and not even that at first: new memory is zero. It need not have been meant: a set inside another
// one's struct lends it its Overwrites.
//
// So the first calls that read such a set, wherever it is, find a pattern in their first row, and where some of it is left
// they are made again with the inverse pattern: what is still as it was then was not written. With elements of fewer
// than four bytes, of which any may be as the pattern is by chance, the first call is made again in any case.

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
)

const (
	// proofs is how many calls of Read, and how many of ReadBatch, have to prove it.
	proofs = 8

	// chance is how many bytes are no longer as a pattern is by chance. That as many were as two inverse patterns are, one
	// after the other, would happen once in 2^64 times.
	chance = 4
)

// pattern is what rows are filled with: no number that a sample would have as float32, float64, int32 or int64.
var pattern = [16]byte{0xd3, 0x5c, 0x96, 0xff, 0x2b, 0xe1, 0xf4, 0x7f, 0x6d, 0xb5, 0xfa, 0xff, 0x98, 0x47, 0xfd, 0x7f}

// errUnwritten is in errors about rows that were not written whole.
var errUnwritten = errors.New("Overwrites() is true: want it false, or every byte of each row written")

// proof is what a set has to prove. nil: nothing.
type proof struct{ single, batch atomic.Int32 } // calls left

// newProof returns what ds has to prove: nothing, unless its user says that it writes whole rows.
func newProof(ds Dataset) *proof {
	if !claimed(ds) {
		return nil
	}
	p := new(proof)
	p.single.Store(proofs)
	p.batch.Store(proofs)
	return p
}

// claimed reports whether it is only said of ds that it writes whole rows, of one shape each. The sets of this package do,
// where those that they are made of do: those have to prove it.
func claimed(ds Dataset) bool {
	switch set := ds.(type) {
	case interface{ claims() bool }:
		return set.claims()
	case interface{ overwrites() bool }:
		return false
	case Overwriter:
		return set.Overwrites() && !slices.ContainsFunc(ds.Fields(), Field.ragged)
	}
	return false
}

// of returns how many of its calls, of Read or ReadBatch, p has to prove; nil if none any more.
func (p *proof) of(batch bool) *atomic.Int32 {
	if p == nil {
		return nil
	}
	left := &p.single
	if batch {
		left = &p.batch
	}
	if left.Load() <= 0 {
		return nil
	}
	return left
}

// prove has read write rows, and returns its error, or one if it has not written all of the first one. left counts down.
func prove(left *atomic.Int32, rows Rows, read func() error) error {
	b, k := rows.b, rows.start
	first := left.Load() == proofs
	chances := rows.chances()
	b.plant(k, false)
	if err := read(); err != nil {
		return err
	}
	if b.planted(k) || first && b.small() {
		was := b.snapshot(k)
		chances.again()
		b.plant(k, true)
		if err := read(); err != nil {
			return err
		}
		if err := b.unwritten(k, was); err != nil {
			return err
		}
	}
	left.Add(-1)
	return nil
}

// plant fills row k with the pattern, or with its inverse. Of bools that is true and false.
func (b *buffer) plant(k int, inverse bool) {
	for f := range b.fields {
		row := (Row{b, k}).fixed(f)
		for i := range row {
			row[i] = b.planting(f, i, inverse)
		}
	}
}

// planting is what plant puts into byte i of a field.
func (b *buffer) planting(f, i int, inverse bool) byte {
	p := pattern[i%len(pattern)]
	if b.fields[f].Dtype.Kind() == reflect.Bool {
		p &= 1
		if inverse {
			p ^= 1
		}
		return p
	}
	if inverse {
		p = ^p
	}
	return p
}

// small reports whether an element of some field may be as plant left it by chance.
func (b *buffer) small() bool {
	return slices.ContainsFunc(b.fields, func(f Field) bool { return f.Dtype.Size() < chance })
}

// planted reports whether more of row k is as plant left it than by chance.
func (b *buffer) planted(k int) bool {
	for f, field := range b.fields {
		if field.Dtype.Kind() == reflect.Bool {
			continue // too many are
		}
		run := 0
		for i, x := range (Row{b, k}).fixed(f) {
			if run++; x != b.planting(f, i, false) {
				run = 0
			}
			if run == chance {
				return true
			}
		}
	}
	return false
}

// snapshot returns a copy of row k, by field.
func (b *buffer) snapshot(k int) [][]byte {
	was := make([][]byte, len(b.fields))
	for f := range was {
		was[f] = slices.Clone((Row{b, k}).fixed(f))
	}
	return was
}

// unwritten returns an error if elements of row k are as plant left them: with the pattern, when the row was what was is,
// and with its inverse now. Where two reads of the sample differ otherwise, one element of a byte or two may be by chance.
func (b *buffer) unwritten(k int, was [][]byte) error {
	for f, field := range b.fields {
		size, row := int(field.Dtype.Size()), (Row{b, k}).fixed(f)
		first, left, most, same := -1, 0, 0, true
		for at := 0; at < len(row); at += size {
			written := false
			for i := at; i < at+size && !written; i++ {
				written = was[f][i] != b.planting(f, i, false) || row[i] != b.planting(f, i, true)
			}
			switch {
			case !written:
				if left += size; first < 0 {
					first = at / size
				}
				most = max(most, left)
			case !slices.Equal(was[f][at:at+size], row[at:at+size]):
				same, left = false, 0
			default:
				left = 0
			}
		}
		if most >= chance && field.Dtype.Kind() != reflect.Bool || most > 0 && same {
			return fmt.Errorf("element %d of field %s was left as it was: %w", first, field.describe(), errUnwritten)
		}
	}
	return nil
}

// chances are the generators of rows, as they were when it was made.
type chances struct {
	rows Rows
	was  []rowRand // nil: there were none
}

// chances returns the state of the rows' generators.
func (r Rows) chances() chances {
	for r.b.origin.b != nil {
		r = Rows{r.b.origin.b, r.b.origin.start + r.start, r.n}
	}
	c := chances{rows: r}
	if rands := r.b.rands.Load(); rands != nil {
		c.was = slices.Clone((*rands)[r.start : r.start+r.n])
	}
	return c
}

// again makes the generators go on from where they were.
func (c chances) again() {
	rands := c.rows.b.rands.Load()
	if rands == nil {
		return
	}
	for i := range c.rows.n {
		if c.was == nil {
			c.rows.b.forgetRand(c.rows.start + i)
		} else {
			(*rands)[c.rows.start+i] = c.was[i]
		}
	}
}
