package main

// This file tests what becomes of documents and plots, and that the tables in them are measured.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestFill(t *testing.T) {
	show := func(name string) (string, error) {
		if name == "gone" {
			return "", fmt.Errorf("there is no table %q", name)
		}
		return "new " + name + "\n", nil
	}
	got, err := fill("a\n<!-- table:x -->\nold figures\n\n<!-- end -->\nb\n<!-- table:y -->\n<!-- end -->\n", show)
	want := "a\n<!-- table:x -->\nnew x\n<!-- end -->\nb\n<!-- table:y -->\nnew y\n<!-- end -->\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if again, err := fill(got, show); err != nil || again != got {
		t.Errorf("filling again gives %q, %v", again, err)
	}
	for bad, want := range map[string]string{
		"<!-- table:x -->\n": "table x has no",
		"<!-- end -->\n":     "line 1: <!-- end --> without a table",
		"<!-- table:x -->\n<!-- table:y -->\n<!-- end -->\n": "line 2: table y begins inside table x",
		"a\n<!-- table:gone -->\n<!-- end -->\n":             `line 2: there is no table "gone"`,
	} {
		if _, err := fill(bad, show); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", bad, err, want)
		}
	}
}

// project writes a folder like this module's, with a document that has two tables.
func project(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{
		"README.md":        "# A\n",
		"docs/pin.md":      "<!-- table:pin-threads -->\n<!-- end -->\n\n<!-- table:peer -->\n| typed | 1 |\n<!-- end -->\n",
		"logs/x.bench":     "# go test -bench Pin\npkg: github.com/pintensor/pin/pintensor\nBenchmarkPin/size=1MiB/threads=1-2 5 10 ns/op 2000 MB/s\nBenchmarkPin/size=1MiB/threads=2-2 5 10 ns/op 4000 MB/s\n",
		"logs/notes":       "not taken over\n",
		"logs/y.jsonl":     `{"bench": "copy", "file": "/tmp/a.b/c-d/x.py", "value": 1, "unit": "us"}` + "\n",
		"logs/machine.txt": "date: 2026-01-02T03:04Z\ncommit: abc\ncpu: C\ncores: 2\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func contents(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestUpdate(t *testing.T) {
	root := project(t)
	if err := takeOver(filepath.Join(root, "logs"), filepath.Join(root, results, "one")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, results, "one", "notes")); err == nil {
		t.Error("a file that is no log was taken over")
	}
	if got := contents(t, filepath.Join(root, results, "one", "y.jsonl")); !strings.Contains(got, `"x.py"`) || strings.Contains(got, "tmp") {
		t.Errorf("%s has paths of the machine", got)
	}
	if err := update(root, true); err == nil || !strings.Contains(err.Error(), "pin.md is not what the logs give") || !strings.Contains(err.Error(), "pin-threads.svg") {
		t.Errorf("check before anything was written: %v", err)
	}
	if err := update(root, false); err != nil {
		t.Fatal(err)
	}
	doc, svg := filepath.Join(root, "docs", "pin.md"), filepath.Join(root, plots, "pin-threads.svg")
	for _, want := range []string{"| 1 MiB | 2.00 | 4.00 |", "(benchmarks/pin-threads.svg)", "`go test -bench Pin`; the software device, 2 cores of C, commit abc, 2026-01-02", "*Not measured.*"} {
		if got := contents(t, doc); !strings.Contains(got, want) {
			t.Errorf("the document has no %q:\n%s", want, got)
		}
	}
	if got := contents(t, doc); strings.Contains(got, "typed") {
		t.Errorf("a figure that nothing measured is still there:\n%s", got)
	}
	if err := update(root, true); err != nil {
		t.Errorf("check after writing: %v", err)
	}

	// Whatever is changed by hand, is noticed.
	for _, path := range []string{doc, svg} {
		was := contents(t, path)
		if err := os.WriteFile(path, []byte(strings.Replace(was, "4", "5", 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := update(root, true); err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s was changed, and the check says %v", path, err)
		}
		if err := os.WriteFile(path, []byte(was), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	// Without its log a table goes, and so does its plot.
	if err := os.RemoveAll(filepath.Join(root, results)); err != nil {
		t.Fatal(err)
	}
	if err := update(root, true); err == nil || !strings.Contains(err.Error(), "pin-threads.svg belongs to no table") {
		t.Errorf("check without logs: %v", err)
	}
	if err := update(root, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(svg); err == nil || strings.Count(contents(t, doc), notMeasured) != 2 {
		t.Errorf("the plot or the table is still there:\n%s", contents(t, doc))
	}
}

// A table is of the newest run that has figures for it.
func TestNewestRun(t *testing.T) {
	at := func(date, size string, mbs float64) *run {
		return &run{facts: map[string]string{"date": date, "commit": date}, samples: []sample{
			{"pintensor.Pin", map[string]string{"size": size, "threads": "1"}, map[string]float64{mbS: mbs}, ""},
		}}
	}
	newest := &run{facts: map[string]string{"date": "3", "commit": "3"}}
	tables, _, err := generate([]*run{newest, at("2", "1MiB", 2000), at("1", "1MiB", 1000)})
	if err != nil || tables["pin-threads"] == nil || tables["pin-threads"].run.facts["date"] != "2" {
		t.Errorf("got %v, %v, want the table of run 2", tables["pin-threads"], err)
	}
}

func TestBehind(t *testing.T) {
	figures := func(torch float64) *table {
		from := &table{title: "Copies, GB/s", run: &run{}}
		from.compare("to, 1 MiB", value{10, true}, value{torch, true}, false, figure)
		from.compare("wait", value{10, true}, value{20, true}, true, figure)
		from.compare("of nothing", value{}, value{20, true}, true, figure)
		return behind([]*table{from})
	}
	got := figures(20)
	if len(got.rows) != 2 || strings.Join(got.rows[0], "|") != "Copies, GB/s: to, 1 MiB|10.0|20.0|2.00 times" || got.rows[1][0] != "1 of 2 that were compared" {
		t.Errorf("got %q, want the copy, which is slower, and no other", got.rows)
	}
	if got := figures(10.4); len(got.rows) != 1 {
		t.Errorf("got %q for 4 %% more, which is noise", got.rows)
	}
	if got := behind([]*table{{}}); got != nil {
		t.Errorf("got %v, and nothing was compared", got.rows)
	}
}

// TestPlotsAreTheSameEachTime, or the check of documents would fail by chance.
func TestPlotsAreTheSameEachTime(t *testing.T) {
	for _, c := range []*chart{
		{logX: true, series: []series{{name: "a", x: []float64{1024, 4096}, y: []float64{1, 2}}, {name: "PyTorch", x: []float64{4096}, y: []float64{1}}}},
		{bars: true, logY: true, categories: []string{"a", "b"}, series: []series{{name: "c", x: []float64{0, 1}, y: []float64{20, 3000}}, {name: "d"}}},
	} {
		first, err := c.svg("title")
		if err != nil || !bytes.HasPrefix(first, []byte("<?xml")) {
			t.Fatalf("%q, %v", first, err)
		}
		for range 3 {
			if again, err := c.svg("title"); err != nil || !bytes.Equal(first, again) {
				t.Errorf("another plot of the same, or %v", err)
			}
		}
	}
	if svg, err := (&chart{series: []series{{name: "nothing"}}}).svg("title"); svg != nil || err != nil {
		t.Errorf("a plot of nothing: %s, %v", svg, err)
	}
}

// TestBenchmarksAreThere: what tables look for is a benchmark of this module, and run.sh runs it.
func TestBenchmarksAreThere(t *testing.T) {
	script := contents(t, "../benchmarks/run.sh")
	sources, err := filepath.Glob("ta*s*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, source := range sources {
		for _, m := range regexp.MustCompile(`"([a-z/]+)\.([A-Z]\w+)"`).FindAllStringSubmatch(contents(t, source), -1) {
			seen++
			if m[1] == "mnist" {
				continue // an example, no benchmark
			}
			folder := "./" + m[1]
			if m[1] == "pin" {
				folder = "."
			}
			tests, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, test := range tests {
				found = found || strings.Contains(contents(t, test), "func Benchmark"+m[2]+"(")
			}
			if !found {
				t.Errorf("%s looks for Benchmark%s of %s, which is not there", source, m[2], folder)
			}
			run := false
			for _, line := range regexp.MustCompile(`bench \w+ (\S+) '([^'/]*)`).FindAllStringSubmatch(script, -1) {
				run = run || line[1] == folder && regexp.MustCompile(line[2]).MatchString("Benchmark"+m[2])
			}
			if !run {
				t.Errorf("run.sh does not run Benchmark%s of %s, which %s looks for", m[2], folder, source)
			}
		}
	}
	if seen < 20 {
		t.Errorf("found %d benchmarks that tables look for, want more: is the pattern right?", seen)
	}
}

// TestEveryTableIsShown, in one document at least.
func TestEveryTableIsShown(t *testing.T) {
	documents, err := filepath.Glob("../*.md")
	if err != nil {
		t.Fatal(err)
	}
	all := contents(t, "../../README.md")
	for _, d := range documents {
		all += contents(t, d)
	}
	for _, g := range generators {
		name := g.name
		if !strings.Contains(all, "\n<!-- table:"+name+" -->\n") {
			t.Errorf("no document shows the table %s", name)
		}
	}
}
