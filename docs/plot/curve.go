package main

// This file reads the losses of a training, one column for each of those that are compared.

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

type curve struct {
	command string
	names   []string
	steps   []float64
	losses  [][]float64 // of each name, at each step
}

// parseCurve reads a CSV file whose first column is the step, and whose other columns are losses, each under its
// name. A first line "# command" may say where it comes from.
func parseCurve(r io.Reader) (*curve, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	command := ""
	text := string(data)
	if rest, ok := strings.CutPrefix(text, "# "); ok {
		command, text, _ = strings.Cut(rest, "\n")
	}
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(records) < 2 || len(records[0]) < 2 {
		return nil, fmt.Errorf("no losses: a line with names and one for each step are expected")
	}
	c := &curve{command: command, names: records[0][1:], losses: make([][]float64, len(records[0])-1)}
	for i, record := range records[1:] {
		values := make([]float64, len(record))
		for k, field := range record {
			if values[k], err = strconv.ParseFloat(field, 64); err != nil {
				return nil, fmt.Errorf("line %d, %s: %q is no number", i+2, records[0][k], field)
			}
		}
		c.steps = append(c.steps, values[0])
		for k := range c.losses {
			c.losses[k] = append(c.losses[k], values[k+1])
		}
	}
	return c, nil
}
