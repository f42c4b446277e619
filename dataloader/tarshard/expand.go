package tarshard

// Names of shards, as WebDataset writes them.

import (
	"fmt"
	"strconv"
	"strings"
)

// maxNames is how many names Expand makes at most.
const maxNames = 1_000_000

// Expand returns the names that a pattern stands for. As in a shell {a,b} stands for a and b, and
// {0000..0146} for the numbers from the first to the second, which have as many digits as the first if that
// begins with a zero. There may be several of them, but none in another.
func Expand(pattern string) ([]string, error) {
	names := []string{""}
	rest := pattern
	for {
		before, after, found := strings.Cut(rest, "{")
		for i := range names {
			names[i] += before
		}
		if !found {
			break
		}
		inside, tail, found := strings.Cut(after, "}")
		if !found || strings.Contains(inside, "{") {
			return nil, fmt.Errorf("tarshard: Expand(%q): a { without its }, or with another in it", pattern)
		}
		choices, err := expandOne(inside)
		if err != nil {
			return nil, fmt.Errorf("tarshard: Expand(%q): %w", pattern, err)
		}
		if len(names)*len(choices) > maxNames {
			return nil, fmt.Errorf("tarshard: Expand(%q): more than %d names", pattern, maxNames)
		}
		all := make([]string, 0, len(names)*len(choices))
		for _, name := range names {
			for _, choice := range choices {
				all = append(all, name+choice)
			}
		}
		names, rest = all, tail
	}
	return names, nil
}

// expandOne returns what the text between braces stands for.
func expandOne(text string) ([]string, error) {
	first, last, isRange := strings.Cut(text, "..")
	if !isRange {
		return strings.Split(text, ","), nil
	}
	from, err := strconv.ParseUint(first, 10, 32)
	if err == nil {
		var to uint64
		if to, err = strconv.ParseUint(last, 10, 32); err == nil && from <= to && to-from < maxNames {
			width := 0
			if strings.HasPrefix(first, "0") {
				width = len(first)
			}
			var names []string
			for n := from; n <= to; n++ {
				names = append(names, fmt.Sprintf("%0*d", width, n))
			}
			return names, nil
		}
	}
	return nil, fmt.Errorf("{%s}: want two numbers, the first not larger, and at most %d of them", text, maxNames)
}
