package pintest_test

import (
	"fmt"
	"path"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/pintensor"
	"github.com/pintensor/pin/pintensor/pintest"
)

// The test below forgets to release a tensor.
func ExampleCheck() {
	test := func(t testing.TB) {
		engine, err := pintensor.NewEngine(pintensor.WithLeakTracking())
		if err != nil {
			t.Fatal(err)
		}
		pintest.Check(t, engine)
		batch, err := engine.New(tensor.Float32, 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			line := engine.Leaks()[0].Callers[0] // the message has it with its file and line
			fmt.Println("made in", path.Base(line.Function), batch.Shape())
		})
	}
	run(test)
	// Output:
	// made in pintest_test.ExampleCheck.func1 (2, 3)
	// FAIL: pintest: 24 bytes of pinned memory are lent at the end of the test
}
