package npy_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/npy"
)

func ExampleOpen() {
	set, err := npy.Open("testdata/images.npy", "testdata/labels.npy")
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
		fmt.Println(batch.Host(0).Shape(), batch.Host(1).Data())
	}
	// Output:
	// (2, 2, 3) [3 1]
	// (2, 2, 3) [4 1]
}

func ExampleOpenNPZ() {
	set, err := npy.OpenNPZ("testdata/deflated.npz", "labels")
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	for _, f := range set.Fields() {
		fmt.Println(set.Len(), f.Name, f.Dtype, f.Shape)
	}

	_, err = npy.OpenNPZ("testdata/deflated.npz", "weights")
	fmt.Println(err)
	// Output:
	// 4 labels int64 ()
	// npy: testdata/deflated.npz: not a readable NumPy file: no entry "weights", there are ["images" "labels"]
}

// Arrays that are in memory, or in a file system such as embed.FS.
func ExampleNew() {
	data, err := os.ReadFile("testdata/labels.npy")
	if err != nil {
		log.Fatal(err)
	}
	set, err := npy.New(bytes.NewReader(data), int64(len(data)), "labels.npy")
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	for _, f := range set.Fields() {
		fmt.Println(set.Len(), f.Name, f.Dtype, f.Shape)
	}

	_, err = npy.New(bytes.NewReader(data[:130]), 130, "labels.npy")
	fmt.Println(err)
	// Output:
	// 4 labels int64 ()
	// npy: labels.npy: not a readable NumPy file: truncated: 2 bytes of elements, expected 32 for shape (4,) of int64
}

func ExampleNewNPZ() {
	data, err := os.ReadFile("testdata/stored.npz")
	if err != nil {
		log.Fatal(err)
	}
	set, err := npy.NewNPZ(bytes.NewReader(data), int64(len(data)), "stored.npz")
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	for _, f := range set.Fields() {
		fmt.Println(set.Len(), f.Name, f.Dtype, f.Shape)
	}
	// Output:
	// 4 images uint8 (2, 3)
	// 4 labels int64 ()
}
