package main

// This file tests which device the example runs on.

import (
	"strings"
	"testing"
)

// -device cuda on a machine without a GPU says what to do.
func TestNoCUDA(t *testing.T) {
	check(t)
	dev, err := openDevice("cuda")
	if err == nil {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		t.Skip("there is a CUDA device")
	}
	if text := err.Error(); !strings.HasPrefix(text, "-device cuda: ") || !strings.Contains(text, "-device auto or cpu") || strings.Contains(text, "\n") {
		t.Errorf("error %q", text)
	}
}
