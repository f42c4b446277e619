package main

// This file finds what PyTorch does better.

// A pair is two figures of one table that are to be compared.
type pair struct {
	what         string
	ours, theirs value
	less         bool // is better
	format       func(value) string
}

// compare notes a pair, if both were measured.
func (t *table) compare(what string, ours, theirs value, less bool, format func(value) string) {
	if ours.ok && theirs.ok {
		t.pairs = append(t.pairs, pair{what, ours, theirs, less, format})
	}
}

// noise is how much better PyTorch has to be, to be better: runs differ by that.
const noise = 1.05

// behind is a table of the pairs in which PyTorch is better.
func behind(tables []*table) *table {
	t := &table{title: "Where PyTorch is faster", header: []string{"", "here", "PyTorch", "PyTorch is faster"}}
	compared := 0
	for _, from := range tables {
		for _, p := range from.pairs {
			compared++
			factor := p.theirs.over(p.ours)
			if p.less {
				factor = p.ours.over(p.theirs)
			}
			if factor.v > noise {
				t.rows = append(t.rows, []string{from.title + ": " + p.what, p.format(p.ours), p.format(p.theirs), figure(factor) + " times"})
			}
			t.run, t.commands = from.run, []string{"docs/benchmarks/run.sh OUT"}
		}
	}
	if compared == 0 {
		return nil
	}
	t.rows = append(t.rows, []string{thousands(int64(len(t.rows))) + " of " + thousands(int64(compared)) + " that were compared", "", "", ""})
	return t
}
