package main

// This file puts tables into documents. What stands between the lines
//
//	<!-- table:NAME -->
//	<!-- end -->
//
// is replaced by the table of that name, or by a word that it was not measured.

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	begin = regexp.MustCompile(`^<!-- table:(\S+) -->$`)
	end   = "<!-- end -->"
)

const notMeasured = "*Not measured.*\n"

// fill replaces the tables of a document by what table returns for each name.
func fill(text string, table func(name string) (string, error)) (string, error) {
	var out strings.Builder
	open := "" // the table that we are in
	number := 0
	for line := range strings.Lines(text) {
		number++
		trimmed := strings.TrimSpace(line)
		m := begin.FindStringSubmatch(trimmed)
		switch {
		case m != nil && open != "":
			return "", fmt.Errorf("line %d: table %s begins inside table %s", number, m[1], open)
		case m != nil:
			open = m[1]
			content, err := table(open)
			if err != nil {
				return "", fmt.Errorf("line %d: %w", number, err)
			}
			out.WriteString(line + content)
		case trimmed == end && open == "":
			return "", fmt.Errorf("line %d: %s without a table", number, end)
		case trimmed == end:
			open = ""
			out.WriteString(line)
		case open == "":
			out.WriteString(line)
		}
	}
	if open != "" {
		return "", fmt.Errorf("table %s has no %s", open, end)
	}
	return out.String(), nil
}
