package main

// Tables of pinned memory.

import (
	"fmt"
	"strings"
)

const (
	nsOp = "ns/op"
	mbS  = "MB/s"
)

func µs(v value) value { return v.times(1e-3) } // of nanoseconds

// column is one of a table by size.
type column struct {
	name string
	get  func(size string) value
}

// bySize makes a table with a row for each size.
func bySize(q *query, title, ylabel string, logY bool, format func(value) string, sizes []string, columns []column) *table {
	t := &table{title: title, header: []string{"size"}, chart: &chart{xlabel: "size", ylabel: ylabel, logX: true, logY: logY}}
	for _, c := range columns {
		t.header = append(t.header, c.name)
		t.chart.series = append(t.chart.series, series{name: c.name})
	}
	for _, size := range sizes {
		row := []string{sizeText(size)}
		var ours column // that PyTorch's columns behind it are compared with
		for i, c := range columns {
			v := c.get(size)
			row = append(row, format(v))
			t.chart.series[i].add(sizeBytes(size), v)
			if !strings.Contains(c.name, "PyTorch") {
				ours = c
			} else {
				t.compare(ours.name+", "+sizeText(size)+", and "+c.name, ours.get(size), v, ylabel == "µs", format)
			}
		}
		t.rows = append(t.rows, row)
	}
	return t.compact(1)
}

// sizeText is "16 MiB" for "16MiB".
func sizeText(s string) string {
	for i, c := range s {
		if c < '0' || c > '9' {
			return s[:i] + " " + s[i:]
		}
	}
	return s
}

// of returns the lookup of a benchmark by size.
func of(q *query, bench, params, unit string, factor float64) func(string) value {
	return func(size string) value { return q.get(bench, "size="+size+"/"+params, unit).times(factor) }
}

func pinCold(q *query) *table {
	registered := func(call string) func(string) value {
		return of(q, "torch.pin_cold", "call="+call+"/conf=pinned_use_cuda_host_register:True,pinned_num_register_threads:8", "us", 1)
	}
	return bySize(q, "Pinning memory for the first time", "µs", true, duration, q.sizes("pin.New", "torch.pin_cold"), []column{
		{"`Empty`", of(q, "pin.Empty", "cache=cold", nsOp, 1e-3)},
		{"PyTorch `empty`", of(q, "torch.pin_cold", "call=empty/conf=default", "us", 1)},
		{"PyTorch `empty`, 8 threads register", registered("empty")},
		{"`New`", of(q, "pin.New", "cache=cold", nsOp, 1e-3)},
		{"`Pin`", of(q, "pin.Pin", "cache=cold", nsOp, 1e-3)},
		{"PyTorch `pin_memory`", of(q, "torch.pin_cold", "call=pin_memory/conf=default", "us", 1)},
		{"PyTorch `pin_memory`, 8 threads register", registered("pin_memory")},
	})
}

func pinWarm(q *query) *table {
	return bySize(q, "Pinned memory from the cache", "µs", true, duration, q.sizes("pin.New"), []column{
		{"`Empty`", of(q, "pin.Empty", "cache=warm", nsOp, 1e-3)},
		{"PyTorch `empty`", of(q, "torch.pin_warm", "call=empty", "us", 1)},
		{"`New`", of(q, "pin.New", "cache=warm", nsOp, 1e-3)},
		{"PyTorch `zeros`", of(q, "torch.pin_warm", "call=zeros", "us", 1)},
		{"`Pin`", of(q, "pin.Pin", "cache=warm", nsOp, 1e-3)},
		{"PyTorch `pin_memory`", of(q, "torch.pin_warm", "call=pin_memory", "us", 1)},
	})
}

func pinGoroutines(q *query) *table {
	t := &table{title: "New and Release by goroutines", header: []string{"goroutines or threads", "`New` + `Release`, 1 KiB", "a second", "PyTorch `empty`", "a second"}}
	for _, n := range q.values("pintensor.NewReleaseParallel", "", "goroutines") {
		ours := q.get("pintensor.NewReleaseParallel", "goroutines="+n, nsOp)
		theirs := q.get("torch.pin_threads", "threads="+n, "ns")
		t.compare(n+" goroutines", µs(ours), µs(theirs), true, duration)
		t.rows = append(t.rows, []string{n, duration(µs(ours)), rate(ours.times(1e-9).inverse()), duration(µs(theirs)), rate(theirs.times(1e-9).inverse())})
	}
	return t.compact(1)
}

func pinThreads(q *query) *table {
	const bench = "pintensor.Pin"
	threads := q.values(bench, "", "threads")
	t := &table{title: "Pin by goroutines, GB/s", header: append([]string{"size"}, threads...), chart: &chart{xlabel: "goroutines", ylabel: "GB/s"}}
	for _, size := range q.sizes(bench) {
		row, line := []string{sizeText(size)}, series{name: sizeText(size)}
		for _, n := range threads {
			v := q.get(bench, "size="+size+"/threads="+n, mbS).times(1e-3)
			row = append(row, figure(v))
			line.add(number(n), v)
		}
		t.rows = append(t.rows, row)
		if len(line.x) > 1 {
			t.chart.series = append(t.chart.series, line)
		}
	}
	return t.compact(1)
}

func pinLayout(q *query) *table {
	const bench, size = "pintensor.PinLayout", "size=64MiB"
	t := &table{title: "Pin of what is not contiguous, 64 MiB", header: []string{"source", "GB/s", "of contiguous"}}
	whole := q.get(bench, size+"/layout=contiguous", mbS)
	for _, l := range q.values(bench, size, "layout") {
		v := q.get(bench, size+"/layout="+l, mbS)
		t.rows = append(t.rows, []string{spaced(l), figure(v.times(1e-3)), percent(v.over(whole))})
	}
	return t.compact(1)
}

func waste(q *query) *table {
	const bench = "pintensor.Waste"
	t := &table{title: "Memory beyond what is asked for", header: []string{"tensors", "MiB asked for", "lent beyond it", "page-locked beyond it"}}
	for _, l := range q.values(bench, "", "list") {
		get := func(unit string) value { return q.get(bench, "list="+l, unit) }
		t.rows = append(t.rows, []string{l, figure(get("MiB-requested")), percent(get("%waste").times(0.01)), percent(get("%beyond-registered").times(0.01))})
	}
	return t.compact(1)
}

func number(s string) (v float64) {
	fmt.Sscan(s, &v)
	return v
}

// spaced undoes what benchmarks' names do to spaces.
func spaced(s string) string {
	out := []rune(s)
	for i, c := range out {
		if c == '_' {
			out[i] = ' '
		}
	}
	return string(out)
}
