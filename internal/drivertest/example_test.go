package drivertest_test

import (
	"fmt"

	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/soft"
)

// The second allocation fails, the others do not.
func ExampleNewFaulty() {
	drv := drivertest.NewFaulty(soft.New(soft.Config{}))
	d, err := drv.Open(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	drv.FailNth("Alloc", 2, nil)
	for range 3 {
		p, err := d.Alloc(64)
		fmt.Println(err)
		if err == nil {
			d.Free(p)
		}
	}
	fmt.Println(drv.Calls("Alloc"), "calls of Alloc,", drv.Calls("Free"), "of Free")
	// Output:
	// <nil>
	// drivertest: injected (999)
	// <nil>
	// 3 calls of Alloc, 2 of Free
}
