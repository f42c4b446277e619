package kernels

// This file picks kernels out of the module. The driver compiles all of what it loads, which for all kernels takes seconds;
// a program uses a few of them, of one dtype.

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// Module returns the PTX of a module with the kernels of these names, and what they call.
func Module(names ...string) (string, error) {
	m := parsed()
	var text strings.Builder
	text.WriteString(m.rest)
	functions := map[string]bool{}
	var bodies []string
	for _, name := range names {
		body, ok := m.kernels[name]
		if !ok {
			return "", fmt.Errorf("there is no kernel %q", name)
		}
		bodies = append(bodies, body)
	}
	for i := 0; i < len(bodies); i++ { // functions that are called are added behind
		for name, body := range m.functions {
			if !functions[name] && strings.Contains(bodies[i], name) {
				functions[name] = true
				bodies = append(bodies, body)
			}
		}
	}
	for _, body := range bodies {
		text.WriteString(body)
	}
	return text.String(), nil
}

// parts are the text of the module.
type parts struct {
	rest               string // what comes before kernels: the version, and declarations
	kernels, functions map[string]string
}

var (
	kernelLine   = regexp.MustCompile(`^\.visible \.entry (\w+)\(`)
	functionLine = regexp.MustCompile(`^\.func +(?:\([^)]*\) *)?(\w+)`)
)

// parsed takes the module apart. In what LLVM writes kernels and functions begin at the beginning of a line, and end in a
// line of their closing brace alone; the declaration of a function ends in one of a semicolon.
var parsed = sync.OnceValue(func() parts {
	p := parts{kernels: map[string]string{}, functions: map[string]string{}}
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
			rest.WriteString(body.String())
		default:
			continue
		}
		body.Reset()
		to = nil
	}
	p.rest = rest.String()
	return p
})
