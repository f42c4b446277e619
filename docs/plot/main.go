// Plot fills the tables of this module's documents with figures, and draws the plots beside them, from the logs that
// docs/benchmarks/run.sh writes:
//
//	cd docs/plot && go run . -import LOGS -name h200    # takes logs over into docs/benchmarks/results/h200 first
//	cd docs/plot && go run .                            # from the logs that are there
//	cd docs/plot && go run . -check                     # changes nothing; fails if documents are not what it would write
//
// No figure in those tables is typed. Each says which command gave it, on what machine, and at which commit; one that
// nothing was measured for is not there.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	logs := flag.String("import", "", "`folder` that run.sh has written, to be taken over into the results")
	name := flag.String("name", "h200", "what to call it there")
	root := flag.String("root", "../..", "`folder` with the module")
	check := flag.Bool("check", false, "only see whether documents are up to date")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "plot: argument %q: only flags are expected\n", flag.Arg(0))
		os.Exit(2)
	}
	var err error
	if *logs != "" {
		err = takeOver(*logs, filepath.Join(*root, results, *name))
	}
	if err == nil {
		err = update(*root, *check)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

const (
	results = "docs/benchmarks/results"
	plots   = "docs/benchmarks"
)

// generators are the tables that documents may have.
var generators = []struct {
	name     string
	generate func(q *query) *table
}{
	{"targets", withGPU(targetTable)}, {"summary", withGPU(summary)},
	{"pin-cold", pinCold}, {"pin-warm", pinWarm}, {"pin-goroutines", pinGoroutines}, {"pin-threads", pinThreads}, {"pin-layout", pinLayout}, {"waste", waste},
	{"h2d", hostToDevice}, {"d2h", deviceToHost}, {"both-ways", bothWays}, {"issue", issueCost}, {"batch", manySmall}, {"overlap", overlapped},
	{"peer", peerCopies}, {"devices", bothDevices}, {"when-to-pin", whenToPin},
	{"load-peers", withGPU(loadPeers)}, {"load-workers", withGPU(loadWorkers)}, {"load-host", withGPU(loadHost)}, {"tuning", tuning}, {"images", withGPU(images)},
	{"load-gather", withGPU(loadGather)}, {"load-gather-cpu", withoutGPU(loadGather)}, {"load-cpu", withoutGPU(loadCPU)}, {"images-cpu", withoutGPU(images)},
	{"train", training}, {"kernels", kernels}, {"example", example},
	{"curve-mlp", curves("mlp", "The loss of the MLP, step by step")}, {"curve-cnn", curves("cnn", "The loss of the CNN, step by step")},
	{"behind", nil}, // made of the others
}

// generate makes the tables that the newest run has figures for, and their plots. A table that it has none for is nil.
func generate(runs []*run) (tables map[string]*table, drawings map[string][]byte, err error) {
	tables, drawings = map[string]*table{}, map[string][]byte{}
	var all []*table
	for _, g := range generators {
		if g.generate == nil {
			tables[g.name] = behind(all)
			continue
		}
		t := newest(runs, g.generate)
		tables[g.name] = t
		if t == nil {
			continue
		}
		all = append(all, t)
		if t.chart == nil {
			continue
		}
		svg, err := t.chart.svg(t.title)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", g.name, err)
		}
		if svg != nil {
			drawings[g.name] = svg
		}
	}
	return tables, drawings, nil
}

// newest makes a table of the first run that has figures for it.
func newest(runs []*run, generate func(q *query) *table) *table {
	for _, r := range runs {
		q := &query{run: r}
		if t := generate(q); t != nil {
			t.run, t.commands = r, q.commands
			return t
		}
	}
	return nil
}

// update writes the documents and plots, or if check is true says which of them are not up to date.
func update(root string, check bool) error {
	runs, err := readRuns(filepath.Join(root, results))
	if err != nil {
		return err
	}
	tables, drawings, err := generate(runs)
	if err != nil {
		return err
	}
	var stale []error
	write := func(path string, want []byte) error {
		have, err := os.ReadFile(path)
		if err == nil && bytes.Equal(have, want) {
			return nil
		}
		if check {
			stale = append(stale, fmt.Errorf("%s is not what the logs give: run make plots", path))
			return nil
		}
		return os.WriteFile(path, want, 0o644)
	}

	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, path := range append(documents, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		filled, err := fill(string(text), func(name string) (string, error) {
			t, known := tables[name]
			if !known {
				return "", fmt.Errorf("there is no table %q", name)
			}
			used[name] = true
			if t == nil {
				return notMeasured, nil
			}
			image := ""
			if drawings[name] != nil {
				if image, err = filepath.Rel(filepath.Dir(path), filepath.Join(root, plots, name+".svg")); err != nil {
					return "", err
				}
			}
			return t.markdown(filepath.ToSlash(image)), nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := write(path, []byte(filled)); err != nil {
			return err
		}
	}

	for name, svg := range drawings {
		if !used[name] {
			continue
		}
		if err := write(filepath.Join(root, plots, name+".svg"), svg); err != nil {
			return err
		}
	}
	old, err := filepath.Glob(filepath.Join(root, plots, "*.svg"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if name := strings.TrimSuffix(filepath.Base(path), ".svg"); drawings[name] == nil || !used[name] {
			if check {
				stale = append(stale, fmt.Errorf("%s belongs to no table: run make plots", path))
			} else if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(stale, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(stale...)
}
