package main

// This file looks figures up. A query notes the commands that gave what was found, for the line below a table.

import (
	"maps"
	"slices"
	"strings"
)

type query struct {
	run      *run
	commands []string
}

// withGPU is a table of machines that have a GPU only: others, though newer, have no say in it.
func withGPU(generate func(q *query) *table) func(q *query) *table { return where(true, generate) }

// withoutGPU is one of machines that have none.
func withoutGPU(generate func(q *query) *table) func(q *query) *table { return where(false, generate) }

func where(gpu bool, generate func(q *query) *table) func(q *query) *table {
	return func(q *query) *table {
		if (q.run.facts["gpu"] != "") != gpu {
			return nil
		}
		return generate(q)
	}
}

// value is a figure that may not have been measured.
type value struct {
	v  float64
	ok bool
}

// find returns the samples of a benchmark that have these parameters ("size=1MiB/mem=pinned"), whatever others they
// have; those with the fewest others only.
func (q *query) find(bench, params string) []sample {
	var found []sample
	for _, s := range q.run.samples {
		if s.bench != bench || !s.has(params) {
			continue
		}
		if len(found) > 0 && len(s.params) != len(found[0].params) {
			if len(s.params) > len(found[0].params) {
				continue
			}
			found = nil
		}
		found = append(found, s)
	}
	return found
}

func (s sample) has(params string) bool {
	for p := range strings.SplitSeq(params, "/") {
		if key, v, _ := strings.Cut(p, "="); p != "" && s.params[key] != v {
			return false
		}
	}
	return true
}

// get is a figure, the median if it was measured more than once.
func (q *query) get(bench, params, unit string) value {
	var all []float64
	for _, s := range q.find(bench, params) {
		if v, ok := s.metrics[unit]; ok {
			all = append(all, v)
			q.note(s.command)
		}
	}
	if len(all) == 0 {
		return value{}
	}
	slices.Sort(all)
	return value{(all[(len(all)-1)/2] + all[len(all)/2]) / 2, true}
}

func (q *query) note(command string) {
	if command != "" && !slices.Contains(q.commands, command) {
		q.commands = append(q.commands, command)
	}
}

// best is the largest figure over a parameter, and which value of it gives it.
func (q *query) best(bench, params, over, unit string) (v value, at string) {
	for _, x := range q.values(bench, params, over) {
		if got := q.get(bench, params+"/"+over+"="+x, unit); got.ok && (!v.ok || got.v > v.v) {
			v, at = got, x
		}
	}
	return v, at
}

// values are those that a parameter has in a benchmark's samples, in the order of the log.
func (q *query) values(bench, params, key string) []string {
	var all []string
	for _, s := range q.run.samples {
		if v, ok := s.params[key]; ok && s.bench == bench && s.has(params) && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// sizes are the sizes of some benchmarks together, the smallest first.
func (q *query) sizes(benches ...string) []string {
	all := map[string]bool{}
	for _, b := range benches {
		for _, s := range q.values(b, "", "size") {
			all[s] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int { return int(sizeBytes(a) - sizeBytes(b)) })
}

func (v value) times(f float64) value { return value{v.v * f, v.ok} }

func (v value) over(w value) value {
	if !v.ok || !w.ok || w.v == 0 {
		return value{}
	}
	return value{v.v / w.v, true}
}

// inverse turns a time in seconds into a rate, and the other way round.
func (v value) inverse() value { return value{1, v.ok}.over(v) }

// least is the smallest of those that were measured.
func least(all ...value) (v value) {
	for _, w := range all {
		if w.ok && (!v.ok || w.v < v.v) {
			v = w
		}
	}
	return v
}
