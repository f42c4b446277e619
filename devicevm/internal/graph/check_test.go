package graph

import (
	"testing"

	"github.com/pintensor/pin/internal/leak"
)

func TestCheck(t *testing.T) {
	leak.Check(t)
	if err := Check(); err != nil {
		t.Fatal(err)
	}
}
