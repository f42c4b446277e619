package dataloader

// What tells a sampler or a data set from others of the same type and length, for a State.

import "fmt"

// Fingerprinter is a Dataset, Sampler or BatchSampler that can tell itself from others of its type: by a seed, or a
// hash of what it was made from. A [State] has the text, so that [Loader.Restore] refuses a State of another
// one. It must be the same in every process. [New] asks for it once.
//
// All samplers of this package have it, and its sets that are made of sets: which ones, and how. Of a Sampler that has
// not, a State has what it says about some places.
type Fingerprinter interface{ Fingerprint() string }

// fingerprint returns v's, with text to set it off, or nothing if it has none.
func fingerprint(v any) string {
	if f, ok := v.(Fingerprinter); ok {
		return " (" + f.Fingerprint() + ")"
	}
	return ""
}

// samplerProbes is how many places of an epoch are asked about a Sampler that says nothing of itself.
const samplerProbes = 16

// probe is a fingerprint of what a Sampler that has none says of two epochs. One that panics has none: it does so again
// where a loop can tell of it. A BatchSampler is not asked: it may take long to answer.
func (p *plan) probe() (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	var d digest
	for epoch := range 2 {
		for i := range min(samplerProbes, p.places) {
			k := i * (p.places / samplerProbes)
			if p.places <= samplerProbes {
				k = i
			}
			d.add(uint64(p.sampler.Index(epoch, k)))
		}
	}
	return " that begins with " + d.String()
}

// digest is a hash of numbers: good enough to notice a difference, not to withstand an attack.
type digest uint64

func (d *digest) add(words ...uint64) {
	for _, w := range words {
		*d = digest(mix(uint64(*d)*0x9e3779b97f4a7c15 + w + 1))
	}
}

func (d *digest) addInts(numbers []int) {
	for _, n := range numbers {
		d.add(uint64(n))
	}
}

func (d digest) String() string { return fmt.Sprintf("%016x", uint64(d)) }

func (s shuffled) Fingerprint() string     { return fmt.Sprintf("seed %d", s.order.seed) }
func (s *replacement) Fingerprint() string { return fmt.Sprintf("seed %d, of %d", s.seed, s.n) }

func (s *weighted) Fingerprint() string {
	var d digest
	for _, c := range s.columns {
		d.add(c.threshold, uint64(c.alias))
	}
	return fmt.Sprintf("seed %d, weights %v", s.seed, d)
}

func (s listed) Fingerprint() string {
	var d digest
	d.addInts(s)
	return "indices " + d.String()
}

func (s *subsetRandom) Fingerprint() string {
	return fmt.Sprintf("seed %d, %s", s.order.seed, listed(s.of).Fingerprint())
}

func (s *batched) Fingerprint() string {
	return fmt.Sprintf("%d each of %T%s", s.size, s.s, fingerprint(s.s))
}

func (s *bucketed) Fingerprint() string {
	var d digest
	d.addInts(s.order)
	for _, b := range s.buckets {
		d.add(uint64(b.start), uint64(b.n), uint64(b.size))
	}
	if !s.shuffle {
		return "buckets " + d.String()
	}
	return fmt.Sprintf("seed %d, buckets %v", s.batchOrder.seed, d)
}

// selectionProbes is how many samples of a large selection its fingerprint looks at.
const selectionProbes = 1 << 16

func (s *selection) Fingerprint() string {
	var d digest
	for step, i := (s.n-1)/selectionProbes+1, 0; i < s.n; i += step {
		d.add(uint64(s.index(i)))
	}
	return fmt.Sprintf("%s %v of %T%s", s.call, d, s.Dataset, fingerprint(s.Dataset))
}

// Sets say what they are made of.

func (p *part) Fingerprint() string {
	return fmt.Sprintf("%d of %T%s", p.n, p.Dataset, fingerprint(p.Dataset))
}

func (s *several) Fingerprint() string {
	text := s.call
	for i := range s.parts {
		text += ", " + s.parts[i].Fingerprint()
	}
	return text
}

func (s *interleaved) Fingerprint() string {
	var d digest
	for _, st := range s.stretches {
		d.add(uint64(st.start))
		d.addInts(st.each)
	}
	return fmt.Sprintf("%s, weights %v", s.several.Fingerprint(), d)
}

// Fingerprint is that of the set which is cached: it is the same set with a cache and without.
func (c *Cached) Fingerprint() string {
	if f, ok := c.Dataset.(Fingerprinter); ok {
		return f.Fingerprint()
	}
	return ""
}
