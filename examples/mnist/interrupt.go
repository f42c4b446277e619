// What a run says that Ctrl-C has ended.

package main

import (
	"context"
	"errors"
	"fmt"
)

// interrupted is the error of a run that its context has ended. It tells how far the run came, and leaves
// out what the packages below say about it.
type interrupted struct {
	while string
	tests []float64 // accuracies so far
	err   error
}

// explain returns err as an interrupted if the end of ctx is what it is about, and as it is otherwise.
func explain(ctx context.Context, err error, while string, tests []float64) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return &interrupted{while, tests, err}
}

func (e *interrupted) Error() string {
	text := "interrupted while " + e.while
	if n := len(e.tests); n > 0 {
		text += fmt.Sprintf("; the test accuracy after epoch %d was %.2f%%", n, e.tests[n-1])
	}
	return text
}

func (e *interrupted) Unwrap() error { return e.err }
