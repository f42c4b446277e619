package dataloader

// Whether rows that are not zeroed are written whole. A set that says so and leaves something out would give the loop remains of
// other samples, and not even that at first: new memory is zero. It need not have been meant: a set inside another
// one's struct lends it its Overwrites. So the first rows that are read are filled with what no sample has, and looked at.

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// proofs is how many calls have to prove it, each with its first row.
const proofs = 8

// canary is what rows are filled with: no number that a sample would have as float32, float64, int32 or int64.
var canary = [16]byte{0xd3, 0x5c, 0x96, 0xff, 0x2b, 0xe1, 0xf4, 0x7f, 0x6d, 0xb5, 0xfa, 0xff, 0x98, 0x47, 0xfd, 0x7f}

// errUnwritten is in errors about rows that were not written whole.
var errUnwritten = errors.New("Overwrites() is true: want it false, or every byte of each row written")

// plant fills row k with the canary, and with zeros where proven could not tell it from a sample.
func (b *buffer) plant(k int) {
	for f := range b.fields {
		if b.wide[f] != nil {
			continue // its memory is the sample's own
		}
		row := (Row{b, k}).fixed(f)
		if len(row) < b.unit(f) {
			clear(row)
			continue
		}
		for len(row) > 0 {
			row = row[copy(row, canary[:]):]
		}
	}
}

// unit is how many bytes of a field have to be as plant left them for it to be no chance: an element, or eight bytes of
// elements that are shorter than four.
func (b *buffer) unit(f int) int {
	if element := int(b.fields[f].Dtype.Size()); element >= 4 {
		return element
	}
	return 8
}

// proven returns an error if some of row k is still what plant has put there.
func (b *buffer) proven(k int) error {
	for f := range b.fields {
		if b.wide[f] != nil {
			continue
		}
		unit := b.unit(f)
		row := (Row{b, k}).fixed(f)
		for at := 0; at+unit <= len(row); at += unit {
			if same(row[at:at+unit], canary[at%len(canary):]) {
				return fmt.Errorf("element %d of field %s was left as it was: %w", at/int(b.fields[f].Dtype.Size()), b.fields[f].describe(), errUnwritten)
			}
		}
	}
	return nil
}

// same reports whether have, of 4, 8 or 16 bytes, is how want begins.
func same(have, want []byte) bool {
	if len(have) == 4 {
		return binary.NativeEndian.Uint32(have) == binary.NativeEndian.Uint32(want)
	}
	for ; len(have) > 0; have, want = have[8:], want[8:] {
		if binary.NativeEndian.Uint64(have) != binary.NativeEndian.Uint64(want) {
			return false
		}
	}
	return true
}
