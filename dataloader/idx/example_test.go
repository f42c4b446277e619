package idx_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/pintensor/pin/dataloader"
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

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "idx")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "labels-idx1-ubyte")
	if err := os.WriteFile(path, []byte("\x00\x00\x08\x01"+"\x00\x00\x00\x04"+"\x07\x02\x01\x00"), 0o600); err != nil {
		log.Fatal(err)
	}
	set, err := idx.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Host(0).Data())
	}
	// Output:
	// [7 2]
	// [1 0]
}
