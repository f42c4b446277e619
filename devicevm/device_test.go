package devicevm_test

// This file says which devices the tests run on: all of them on each.

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/pintensor/pin/devicevm/internal/emulate"
	"github.com/pintensor/pin/internal/cuda"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/soft"
)

// deviceKind is a kind of device.
type deviceKind struct {
	name   string
	driver func(t testing.TB) driver.Driver
}

// kinds are the devices. The software device's memory is NaN at first, and its work runs as late as it may.
var kinds = []deviceKind{
	{"software", func(testing.TB) driver.Driver { return soft.New(soft.Config{Late: true}) }},
	{"emulated", emulate.Open},
	{"cuda", func(t testing.TB) driver.Driver {
		drv, err := cuda.Load()
		if err != nil {
			t.Fatal(err)
		}
		return drv
	}},
}

var kind int // of kinds, that the tests run on now

var only = flag.String("device", "", "run on this device alone: software, emulated or cuda")

// TestMain runs all tests on the software device, on an emulated GPU, and on a GPU if there is one, as there must be
// under REQUIRE_GPU.
func TestMain(m *testing.M) {
	flag.Parse()
	benchmark := flag.Lookup("test.bench").Value.String() != ""
	_, err := cuda.Load()
	gpu := err == nil || os.Getenv("REQUIRE_GPU") != ""
	code := 0
	if *only != "" && !slices.ContainsFunc(kinds, func(k deviceKind) bool { return k.name == *only }) {
		fmt.Fprintf(os.Stderr, "-device is %q, want software, emulated or cuda\n", *only)
		os.Exit(2)
	}
	for kind = range kinds {
		if *only != "" && *only != kinds[kind].name {
			continue
		}
		switch kinds[kind].name {
		case "cuda":
			if !gpu {
				continue
			}
		case "emulated":
			if benchmark { // it says nothing of any device's speed
				continue
			}
			if !emulate.Available() {
				fmt.Fprintln(os.Stderr, "NOT RUN on the emulated device: it needs Linux and a C++ compiler")
				continue
			}
		}
		if c := m.Run(); c != 0 {
			fmt.Fprintf(os.Stderr, "failed on the %s device\n", kinds[kind].name)
			code = c
		}
	}
	os.Exit(code)
}
