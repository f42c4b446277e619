package main

// This file tests how figures are found, reckoned with, and written.

import (
	"slices"
	"testing"
)

func TestQuery(t *testing.T) {
	one := func(params map[string]string, v float64, command string) sample {
		return sample{"pin.Loader", params, map[string]float64{"ns/op": v}, command}
	}
	q := &query{run: &run{samples: []sample{
		one(map[string]string{"batch": "64", "workers": "16"}, 30, "a"),
		one(map[string]string{"batch": "64", "workers": "2"}, 10, "a"),
		one(map[string]string{"batch": "64", "workers": "2"}, 20, "b"), // measured again
		one(map[string]string{"batch": "64"}, 5, "b"),
		one(map[string]string{"batch": "256", "size": "1MiB"}, 1, "c"),
		one(map[string]string{"batch": "256", "size": "64KiB"}, 1, "c"),
	}}}
	if v := q.get("pin.Loader", "batch=64/workers=2", "ns/op"); v != (value{15, true}) {
		t.Errorf("got %v, want the median, 15", v)
	}
	if v := q.get("pin.Loader", "batch=64", "ns/op"); v != (value{5, true}) {
		t.Errorf("got %v, want 5, of the one with no other parameter", v)
	}
	if !slices.Equal(q.commands, []string{"a", "b"}) {
		t.Errorf("commands %v, want a and b, once", q.commands)
	}
	for _, nothing := range []value{q.get("pin.Loader", "batch=1", "ns/op"), q.get("pin.Loader", "batch=64", "MB/s"), q.get("pin.Other", "", "ns/op")} {
		if nothing.ok {
			t.Errorf("got %v for what was not measured", nothing)
		}
	}
	if v, at := q.best("pin.Loader", "batch=64", "workers", "ns/op"); v.v != 30 || at != "16" {
		t.Errorf("the best is %v at %s, want 30 at 16", v, at)
	}
	if s := q.sizes("pin.Loader"); !slices.Equal(s, []string{"64KiB", "1MiB"}) {
		t.Errorf("sizes %v, want 64KiB, 1MiB", s)
	}
}

func TestValues(t *testing.T) {
	none, two := value{}, value{2, true}
	if none.over(two).ok || two.over(none).ok || two.over(value{0, true}).ok || none.inverse().ok {
		t.Error("a figure came out of none")
	}
	if v := least(none, two, value{1, true}); v.v != 1 {
		t.Errorf("the least is %v, want 1", v)
	}
}

func TestFigures(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{figure(value{}), absent},
		{figure(value{0, true}), "0"},
		{figure(value{1234567.8, true}), "1,234,568"},
		{figure(value{99.95, true}), "100"}, // rounded, not "99.95"
		{figure(value{9.876, true}), "9.88"},
		{figure(value{0.01234, true}), "0.0123"},
		{rate(value{3_900_000, true}), "3.90M"},
		{rate(value{57_474, true}), "57.5k"},
		{rate(value{512, true}), "512"},
		{duration(value{0.312, true}), "312 ns"},
		{duration(value{5.11, true}), "5.11 µs"},
		{duration(value{43915, true}), "43.9 ms"},
		{duration(value{}), absent},
		{percent(value{0.9849, true}), "98.5 %"},
		{at("3.9M", "8", " workers"), "3.9M (8 workers)"},
		{at(absent, "8", ""), absent},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	most, least := target{bound: 4, format: figure}, target{bound: 40, atLeast: true, format: figure}
	for _, c := range []struct {
		t    target
		v    value
		want string
	}{
		{most, value{4, true}, "met"}, {most, value{5, true}, "25 % over"}, {most, value{}, "not measured"},
		{least, value{40, true}, "met"}, {least, value{30, true}, "25 % short"},
	} {
		if got := c.t.verdict(c.v); got != c.want {
			t.Errorf("%v for %v: %q, want %q", c.v, c.t.bound, got, c.want)
		}
	}
}
