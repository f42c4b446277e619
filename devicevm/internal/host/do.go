package host

// This file runs operations that compute themselves.

import (
	"fmt"
	"strings"

	G "gorgonia.org/gorgonia"
)

// Do is op.Do with an error in place of a panic, and without Gorgonia's long texts about where it was.
func Do(op G.Op, operands []G.Value) (result G.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v of %s panicked: %v", op, shapes(operands), p)
		}
	}()
	result, err = op.Do(operands...)
	if err == nil && result == nil {
		err = fmt.Errorf("%v gave no value", op)
	}
	return result, err
}

func shapes(values []G.Value) string {
	var list []string
	for _, v := range values {
		list = append(list, fmt.Sprint(v.Shape()))
	}
	return strings.Join(list, ", ")
}
