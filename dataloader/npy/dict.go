package npy

// The dictionary of a header. It is a Python literal such as
//
//	{'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
//
// of which only what NumPy writes is understood.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// dict is the three entries that a header has.
type dict struct {
	descr   string
	fortran bool
	shape   []int
}

func parseDict(text string) (*dict, error) {
	p := &parser{rest: text}
	d, seen := &dict{}, make(map[string]bool)
	if err := p.expect('{'); err != nil {
		return nil, err
	}
	for !p.accept('}') {
		key, err := p.quoted()
		if err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, fmt.Errorf("%q is there twice", key)
		}
		seen[key] = true
		if err := p.expect(':'); err != nil {
			return nil, err
		}
		switch key {
		case "descr":
			if p.peek() == '[' {
				return nil, errors.New("'descr' is a list: records of several fields: save an array for each")
			}
			d.descr, err = p.quoted()
		case "fortran_order":
			d.fortran, err = p.boolean()
		case "shape":
			d.shape, err = p.tuple()
		default:
			err = fmt.Errorf("the unknown key %.50q", key)
		}
		if err != nil {
			return nil, err
		}
		if !p.accept(',') && p.peek() != '}' {
			return nil, p.expect('}')
		}
	}
	if p.space(); p.rest != "" {
		return nil, fmt.Errorf("%.20q after the dictionary", p.rest)
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return nil, fmt.Errorf("no %q", key)
		}
	}
	return d, nil
}

// parser consumes its text token by token.
type parser struct{ rest string }

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// peek returns the first byte of the next token, or 0 at the end.
func (p *parser) peek() byte {
	if p.space(); p.rest == "" {
		return 0
	}
	return p.rest[0]
}

func (p *parser) accept(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *parser) expect(c byte) error {
	if !p.accept(c) {
		return fmt.Errorf("found %.20q, expected %q", p.rest, c)
	}
	return nil
}

// quoted reads a string in either kind of quotes, without escapes.
func (p *parser) quoted() (string, error) {
	quote := p.peek()
	if quote != '\'' && quote != '"' {
		return "", fmt.Errorf("found %.20q, expected a string", p.rest)
	}
	text, rest, ok := strings.Cut(p.rest[1:], string(quote))
	if !ok || strings.ContainsAny(text, "\\\n") {
		return "", fmt.Errorf("found %.20q, expected a string that ends, without escapes", p.rest)
	}
	p.rest = rest
	return text, nil
}

func (p *parser) boolean() (bool, error) {
	p.space()
	for text, value := range map[string]bool{"True": true, "False": false} {
		if rest, ok := strings.CutPrefix(p.rest, text); ok {
			p.rest = rest
			return value, nil
		}
	}
	return false, fmt.Errorf("found %.20q, expected True or False", p.rest)
}

// tuple reads numbers in parentheses.
func (p *parser) tuple() ([]int, error) {
	if err := p.expect('('); err != nil {
		return nil, err
	}
	numbers := []int{}
	for !p.accept(')') {
		p.space()
		digits := len(p.rest) - len(strings.TrimLeft(p.rest, "0123456789"))
		n, err := strconv.Atoi(p.rest[:digits])
		if err != nil {
			return nil, fmt.Errorf("found %.20q, expected a length", p.rest)
		}
		numbers = append(numbers, n)
		p.rest = strings.TrimPrefix(p.rest[digits:], "L") // as Python 2 wrote them
		if !p.accept(',') && p.peek() != ')' {
			return nil, p.expect(')')
		}
	}
	return numbers, nil
}
