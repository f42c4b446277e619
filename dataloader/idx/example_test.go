package idx_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pintensor/pin/dataloader/idx"
)

func ExampleRead() {
	// Two dimensions, 2 rows of 3 unsigned bytes.
	a, err := idx.Read(strings.NewReader("\x00\x00\x08\x02" + "\x00\x00\x00\x02" + "\x00\x00\x00\x03" + "abcdef"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%v %q\n", a.Dims, a.Data)

	_, err = idx.Read(strings.NewReader("\x00\x00\x08\x01" + "\x00\x00\x00\x09" + "abcdef"))
	fmt.Println(err)
	// Output:
	// [2 3] "abcdef"
	// not a valid IDX file: truncated: 6 bytes of elements, expected 9
}

func ExampleReadFile() {
	_, err := idx.ReadFile("testdata/missing.gz")
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output: true
}
