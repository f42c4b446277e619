package main

// This file is what a table is, and how it and its figures are written.

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

type table struct {
	title    string
	header   []string
	rows     [][]string
	chart    *chart // drawn below it; nil for none
	pairs    []pair
	run      *run
	commands []string
}

// absent is the cell of what was not measured.
const absent = "–"

// compact drops rows and columns without figures. The first columns, labels of them, are what rows are about.
func (t *table) compact(labels int) *table {
	var rows [][]string
	for _, row := range t.rows {
		if some(row[labels:]) {
			rows = append(rows, row)
		}
	}
	keep := make([]bool, len(t.header))
	for k := range t.header {
		column := make([]string, len(rows))
		for i, row := range rows {
			column[i] = row[k]
		}
		keep[k] = k < labels || some(column)
	}
	t.header = only(t.header, keep)
	for i, row := range rows {
		rows[i] = only(row, keep)
	}
	t.rows = rows
	if len(rows) == 0 {
		return nil
	}
	return t
}

func some(cells []string) bool {
	for _, c := range cells {
		if c != absent && c != "" {
			return true
		}
	}
	return false
}

func only(cells []string, keep []bool) []string {
	var kept []string
	for i, c := range cells {
		if keep[i] {
			kept = append(kept, c)
		}
	}
	return kept
}

// markdown writes the table; image is its plot, as seen from the document, or empty.
func (t *table) markdown(image string) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.header)
	b.WriteString("|" + strings.Repeat(" --- |", len(t.header)) + "\n")
	for _, row := range t.rows {
		line(row)
	}
	if image != "" {
		fmt.Fprintf(&b, "\n![%s](%s)\n", t.title, image)
	}
	fmt.Fprintf(&b, "\n<sub>%s</sub>\n", t.source())
	return b.String()
}

// source is the line that says where figures come from.
func (t *table) source() string {
	commands := make([]string, len(t.commands))
	for i, c := range t.commands {
		commands[i] = "`" + c + "`"
	}
	text := strings.Join(commands, ", ")
	if text != "" {
		text += "; "
	}
	return text + t.run.machine()
}

// machine says on what, with which versions, and when a run was made.
func (r *run) machine() string {
	f := r.facts
	var parts []string
	add := func(format string, keys ...string) {
		values := make([]any, len(keys))
		for i, k := range keys {
			if f[k] == "" {
				return
			}
			values[i] = f[k]
		}
		parts = append(parts, fmt.Sprintf(format, values...))
	}
	switch {
	case f["gpu"] == "":
		parts = append(parts, "the software device")
	case f["gpus"] != "" && f["gpus"] != "1":
		add("%s × %s", "gpus", "gpu")
	default:
		add("%s", "gpu")
	}
	add("driver %s, CUDA %s", "driver", "cuda")
	add("PCIe %s", "pcie")
	add("%s cores of %s", "cores", "cpu")
	add("%s", "go")
	add("PyTorch %s", "torch")
	commit := f["commit"]
	if f["changes"] != "" {
		commit += " with changes"
	}
	date, _, _ := strings.Cut(f["date"], "T")
	return strings.Join(append(parts, "commit "+commit, date), ", ")
}

// figure writes three digits of a number, or all before the point.
func figure(v value) string {
	if !v.ok || math.IsNaN(v.v) || math.IsInf(v.v, 0) {
		return absent
	}
	if rounded, err := strconv.ParseFloat(strconv.FormatFloat(v.v, 'e', 2, 64), 64); err == nil && math.Abs(v.v) < 1000 {
		v.v = rounded
	}
	switch {
	case math.Abs(v.v) >= 100:
		return thousands(int64(math.Round(v.v)))
	case v.v == 0:
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v.v))))
	return strconv.FormatFloat(v.v, 'f', min(max(digits, 0), 4), 64)
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// rate writes a number of things a second.
func rate(v value) string {
	switch {
	case v.ok && v.v >= 999_500:
		return figure(v.times(1e-6)) + "M"
	case v.ok && v.v >= 9_995:
		return figure(v.times(1e-3)) + "k"
	}
	return figure(v)
}

// duration writes microseconds in the unit that fits.
func duration(µs value) string {
	switch {
	case !µs.ok:
		return absent
	case µs.v >= 999.5:
		return figure(µs.times(1e-3)) + " ms"
	case µs.v < 0.9995:
		return figure(µs.times(1e3)) + " ns"
	}
	return figure(µs) + " µs"
}

func percent(v value) string {
	if !v.ok {
		return absent
	}
	return fmt.Sprintf("%.1f %%", 100*v.v)
}

// at says for which setting a best figure is.
func at(cell, setting, unit string) string {
	if cell == absent || setting == "" {
		return cell
	}
	return cell + " (" + setting + unit + ")"
}
