package cuda_test

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/pintensor/pin/internal/cuda"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/soft"
)

// Load says whether there is a GPU; what follows is the same with one and without.
func ExampleLoad() {
	drv, err := cuda.Load()
	if errors.Is(err, driver.ErrUnavailable) {
		drv = soft.New(soft.Config{})
	}
	d, err := drv.Open(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	s, _ := d.NewStream(0)
	defer d.DestroyStream(s)
	p, _ := d.Alloc(4)
	defer d.Free(p)
	got := make([]byte, 4)
	d.Memset(p, 7, 4, s, 0)
	d.CopyDtoH(unsafe.Pointer(&got[0]), p, 4, s, 0)
	fmt.Println(d.SyncStream(s), got)
	// Output: <nil> [7 7 7 7]
}
