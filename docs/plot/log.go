package main

// This file reads what docs/benchmarks/run.sh writes: Go's benchmark output, PyTorch's lines of JSON, and the facts
// about the machine.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A sample is one figure, or several of one benchmark.
type sample struct {
	bench   string             // "asynccopy.BothWays", "pin.ToDevice" for the module's root, "torch.copy"
	params  map[string]string  // "size": "4KiB"
	metrics map[string]float64 // by unit: "ns/op", "MB/s", "x-longest"
	command string             // that gave it
}

// A run is what one run.sh has written.
type run struct {
	facts   map[string]string // of machine.txt
	samples []sample
	curves  map[string]*curve // of curve-NAME.csv, by name
}

// readRun reads a folder of logs.
func readRun(dir string) (*run, error) {
	r := &run{facts: map[string]string{}, curves: map[string]*curve{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		part := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))
		switch {
		case e.Name() == "machine.txt":
			r.facts = parseFacts(data)
		case filepath.Ext(path) == ".bench":
			samples, err := parseBench(bytes.NewReader(data))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			r.samples = append(r.samples, samples...)
		case filepath.Ext(path) == ".jsonl":
			samples, err := parseJSON(bytes.NewReader(data), part)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			r.samples = append(r.samples, samples...)
		case e.Name() == "mnist.log":
			samples, err := parseExample(bytes.NewReader(data))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			r.samples = append(r.samples, samples...)
		case filepath.Ext(path) == ".csv":
			c, err := parseCurve(bytes.NewReader(data))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			r.curves[strings.TrimPrefix(part, "curve-")] = c
		}
	}
	if r.facts["commit"] == "" {
		return nil, fmt.Errorf("%s: machine.txt does not say which commit was measured", dir)
	}
	return r, nil
}

func parseFacts(data []byte) map[string]string {
	facts := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[key] = strings.TrimSpace(value)
		}
	}
	return facts
}

// module is the path that benchmarks' packages are below.
const module = "github.com/pintensor/pin"

var (
	benchLine = regexp.MustCompile(`^Benchmark(\S+)\s+\d+\s+(\d\S*\s+\S+.*)$`)
	procs     = regexp.MustCompile(`-\d+$`)
)

// parseBench reads the output of `go test -bench`. A line "# command" says where what follows comes from.
func parseBench(r io.Reader) ([]sample, error) {
	type line struct{ pkg, command, name, values string }
	var lines []line
	var pkg, command string
	in := bufio.NewScanner(r)
	for in.Scan() {
		text := strings.TrimSpace(in.Text())
		if c, ok := strings.CutPrefix(text, "# "); ok {
			command = c
		} else if p, ok := strings.CutPrefix(text, "pkg: "); ok {
			pkg = strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
			if pkg == "" {
				pkg = "pin"
			}
		} else if m := benchLine.FindStringSubmatch(text); m != nil {
			lines = append(lines, line{pkg, command, m[1], m[2]})
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}

	// Names end in -GOMAXPROCS, except where that is 1; then "list=ResNet-50" must stay what it is.
	count, suffix := map[string]int{}, ""
	for _, l := range lines {
		s := procs.FindString(l.name)
		if count[s]++; count[s] > count[suffix] {
			suffix = s
		}
	}
	samples := make([]sample, 0, len(lines))
	for _, l := range lines {
		parts := strings.Split(strings.TrimSuffix(l.name, suffix), "/")
		s := sample{bench: l.pkg + "." + parts[0], params: map[string]string{}, metrics: map[string]float64{}, command: l.command}
		for _, p := range parts[1:] {
			key, value, _ := strings.Cut(p, "=")
			s.params[key] = value
		}
		values := strings.Fields(l.values)
		for i := 0; i+1 < len(values); i += 2 {
			v, err := strconv.ParseFloat(values[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q is no number, of the benchmark %s", values[i], l.name)
			}
			s.metrics[values[i+1]] = v
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// parseJSON reads the lines that the scripts for PyTorch print.
func parseJSON(r io.Reader, part string) ([]sample, error) {
	var samples []sample
	in := bufio.NewScanner(r)
	for in.Scan() {
		if !strings.HasPrefix(in.Text(), "{") { // a warning of a library
			continue
		}
		var values map[string]any
		if err := json.Unmarshal(in.Bytes(), &values); err != nil {
			return nil, err
		}
		unit, _ := values["unit"].(string)
		bench, _ := values["bench"].(string)
		value, ok := values["value"].(float64)
		if unit == "" || bench == "" || !ok {
			return nil, fmt.Errorf("no bench, unit or value in %s", in.Text())
		}
		s := sample{bench: "torch." + bench, params: map[string]string{}, metrics: map[string]float64{unit: value},
			command: "docs/benchmarks/run.sh OUT " + part}
		for k, v := range values {
			switch v := v.(type) {
			case float64:
				s.params[k] = strconv.FormatFloat(v, 'f', -1, 64)
			default:
				s.params[k] = fmt.Sprint(v)
			}
		}
		delete(s.params, "value")
		if n, err := strconv.Atoi(s.params["bytes"]); err == nil {
			s.params["size"] = sizeName(n)
		}
		samples = append(samples, s)
	}
	return samples, in.Err()
}

// sizeName writes a number of bytes as Go's benchmarks do.
func sizeName(n int) string {
	for _, unit := range []struct {
		name  string
		bytes int
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.bytes {
			return fmt.Sprintf("%d%s", n/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// sizeBytes is what sizeName has written, and 0 for anything else.
func sizeBytes(s string) float64 {
	for unit, bytes := range map[string]int{"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10} {
		if n, err := strconv.Atoi(strings.TrimSuffix(s, unit)); err == nil && strings.HasSuffix(s, unit) {
			return float64(n * bytes)
		}
	}
	return 0
}

// readRuns reads each folder in dir, the newest run first.
func readRuns(dir string) ([]*run, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []*run
	for _, e := range entries {
		if e.IsDir() {
			r, err := readRun(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			runs = append(runs, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b *run) int { return strings.Compare(b.facts["date"], a.facts["date"]) })
	return runs, nil
}
