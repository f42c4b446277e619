package main

// This file reads what examples/mnist prints.

import (
	"bufio"
	"io"
	"regexp"
	"strconv"
	"strings"
)

var (
	exampleFigures = map[string]*regexp.Regexp{
		"s":          regexp.MustCompile(`, ready in ([0-9.]+)s`),
		"us":         regexp.MustCompile(`images/s, ([0-9.]+) µs a step`),
		"%-accuracy": regexp.MustCompile(`^test accuracy ([0-9.]+)%`),
	}
	epochLine = regexp.MustCompile(`^epoch (\d+)/(\d+) in `)
)

// parseExample makes a sample of each run of examples/mnist: "mnist.Train", with the flags of the line "# command" above it as
// parameters. Its figures are those of the last epoch, and there are none of a run that ended before.
func parseExample(r io.Reader) ([]sample, error) {
	var samples []sample
	last := true // in the last epoch, or before the first
	in := bufio.NewScanner(r)
	for in.Scan() {
		line := in.Text()
		if command, ok := strings.CutPrefix(line, "# "); ok {
			s := sample{bench: "mnist.Train", params: map[string]string{}, metrics: map[string]float64{}, command: command}
			flags := strings.Fields(command)
			for i := 0; i+1 < len(flags); i++ {
				if name, ok := strings.CutPrefix(flags[i], "-"); ok {
					s.params[name] = flags[i+1]
				}
			}
			samples, last = append(samples, s), true
			continue
		}
		if m := epochLine.FindStringSubmatch(line); m != nil {
			last = m[1] == m[2]
		}
		for unit, pattern := range exampleFigures {
			if m := pattern.FindStringSubmatch(line); m != nil && last && len(samples) > 0 {
				v, err := strconv.ParseFloat(m[1], 64)
				if err != nil {
					return nil, err
				}
				samples[len(samples)-1].metrics[unit] = v
			}
		}
	}
	return samples, in.Err()
}
