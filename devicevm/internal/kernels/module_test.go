package kernels

// This file tests modules of some of the kernels.

import (
	"slices"
	"strings"
	"testing"

	"github.com/pintensor/pin/devicevm/internal/emulate"
	"github.com/pintensor/pin/internal/leak"
)

// Each kernel can be had alone, with the functions that it calls and no others.
func TestModule(t *testing.T) {
	leak.Check(t)
	var all []string
	called := 0
	for name := range parsed().kernels {
		all = append(all, name)
		text, err := Module(name)
		check(t, err)
		if n := strings.Count(text, ".entry"); n != 1 {
			t.Errorf("%s: %d kernels", name, n)
		}
		if strings.Count(text, "{\n") < 1 || strings.Count(text, "\n{\n") != strings.Count(text, "\n}\n") {
			t.Errorf("%s: the braces do not match", name)
		}
		if strings.Contains(parsed().rest, ".func") {
			t.Error("a declaration comes with every module")
		}
		for f, body := range parsed().functions {
			if declared := strings.Contains(text, parsed().declarations[f]); parsed().declarations[f] != "" && declared != strings.Contains(text, body) {
				t.Errorf("%s: has %s: %v, and its declaration: %v", name, f, !declared, declared)
			}
			calls := strings.Contains(strings.TrimPrefix(text, parsed().rest), f)
			if has := strings.Contains(text, body); has != calls {
				t.Errorf("%s: has the function %s: %v, calls it: %v", name, f, has, calls)
			}
			if calls {
				called++
			}
		}
	}
	slices.Sort(all)
	if want := emulate.Load(t).Names(); !slices.Equal(all, want) {
		t.Errorf("kernels\n%v\nwant\n%v", all, want)
	}
	if called == 0 {
		t.Error("no kernel calls a function: this test tests nothing")
	}
	if _, err := Module("nothing"); err == nil {
		t.Error("no error for a kernel that is not there")
	}
	text, err := Module(all...)
	check(t, err)
	if again, _ := Module(all...); again != text {
		t.Error("the same kernels are not the same module")
	}
	if n := strings.Count(text, ".entry"); n != len(all) {
		t.Errorf("%d kernels in a module of all, want %d", n, len(all))
	}
}
