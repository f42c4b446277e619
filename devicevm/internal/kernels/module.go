package kernels

// This file picks kernels out of the module. The driver compiles all of what it loads, which for all kernels takes seconds;
// a program uses a few of them, of one dtype.

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Module returns the PTX of a module with the kernels of these names, and what they call.
func Module(names ...string) (string, error) {
	m := parsed()
	var text strings.Builder
	text.WriteString(m.rest)
	var functions []string
	var bodies []string
	for _, name := range names {
		body, ok := m.kernels[name]
		if !ok {
			return "", fmt.Errorf("there is no kernel %q", name)
		}
		bodies = append(bodies, body)
	}
	for i := 0; i < len(bodies); i++ { // functions that are called are added behind
		for _, name := range slices.Sorted(maps.Keys(m.functions)) { // in order: drivers know again what they have compiled
			if !slices.Contains(functions, name) && strings.Contains(bodies[i], name) {
				functions = append(functions, name)
				bodies = append(bodies, m.functions[name])
			}
		}
	}
	for _, name := range functions { // a declaration without its function, called or not, is an error to the driver
		text.WriteString(m.declarations[name])
	}
	for _, body := range bodies {
		text.WriteString(body)
	}
	return text.String(), nil
}

// parts are the text of the module.
type parts struct {
	rest                             string // what comes before them: the version, and variables
	kernels, functions, declarations map[string]string
}

var (
	kernelLine   = regexp.MustCompile(`^\.visible \.entry (\w+)\(`)
	functionLine = regexp.MustCompile(`^\.func +(?:\([^)]*\) *)?(\w+)`)
)

// parsed takes the module apart. In what LLVM writes kernels and functions begin at the beginning of a line, and end in a
// line of their closing brace alone; the declaration of a function ends in one of a semicolon.
var parsed = sync.OnceValue(func() parts {
	p := parts{kernels: map[string]string{}, functions: map[string]string{}, declarations: map[string]string{}}
	var rest, body strings.Builder
	var to map[string]string // of what body belongs to; nil between
	var name string
	for line := range strings.Lines(PTX) {
		if to == nil {
			if m := kernelLine.FindStringSubmatch(line); m != nil {
				to, name = p.kernels, m[1]
			} else if m := functionLine.FindStringSubmatch(line); m != nil {
				to, name = p.functions, m[1]
			} else {
				rest.WriteString(line)
				continue
			}
		}
		body.WriteString(line)
		switch strings.TrimSuffix(line, "\n") {
		case "}":
			to[name] = body.String()
		case ";":
			p.declarations[name] = body.String()
		default:
			continue
		}
		body.Reset()
		to = nil
	}
	p.rest = rest.String()
	return p
})
