package dataloader_test

import (
	"context"
	"fmt"
	"log"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
)

// column is a set of numbers.
func column(name string, values ...float32) dataloader.Dataset {
	set, err := dataloader.FromTensors(tensor.New(tensor.WithShape(len(values)), tensor.WithBacking(values)))
	if err == nil {
		set, err = dataloader.Rename(set, name)
	}
	if err != nil {
		log.Fatal(err)
	}
	return set
}

// printSet prints all of a set, in order, a column a field.
func printSet(set dataloader.Dataset) {
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 100})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		for field, f := range set.Fields() {
			fmt.Println(f.Name, batch.Host(field).Data())
		}
	}
}

func ExampleSubset() {
	set, err := dataloader.Subset(column("x", 0, 10, 20, 30), []int{3, 1})
	if err != nil {
		log.Fatal(err)
	}
	printSet(set)
	// Output: x [30 10]
}

func ExampleConcat() {
	set, err := dataloader.Concat(column("x", 1, 2), column("x", 3))
	if err != nil {
		log.Fatal(err)
	}
	printSet(set)
	_, err = dataloader.Concat(column("x", 1, 2), column("y", 3))
	fmt.Println(err)
	// Output:
	// x [1 2 3]
	// dataloader: Concat: set 1: field 0 is "y" float32 (): want "x" float32 (), as in set 0
}

func ExampleZip() {
	set, err := dataloader.Zip(column("x", 1, 2, 3), column("y", 10, 20, 30))
	if err != nil {
		log.Fatal(err)
	}
	printSet(set)
	// Output:
	// x [1 2 3]
	// y [10 20 30]
}

func ExampleRename() {
	set, err := dataloader.FromTensors(tensor.New(tensor.WithShape(2), tensor.WithBacking([]float32{1, 2})))
	if err != nil {
		log.Fatal(err)
	}
	named, err := dataloader.Rename(set, "temperature")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Fields()[0].Name, "is now", named.Fields()[0].Name)
	// Output: tensor 0 is now temperature
}

// Whole, divided into samples to train with and samples to test with, the same in each run.
func ExampleRandomSplit() {
	parts, err := dataloader.RandomSplit(column("x", 0, 1, 2, 3, 4, 5), 1, 4, 2)
	if err != nil {
		log.Fatal(err)
	}
	for _, part := range parts {
		printSet(part)
	}
	// Output:
	// x [5 0 3 2]
	// x [4 1]
}

func ExampleRandomSplitFractions() {
	parts, err := dataloader.RandomSplitFractions(squares(1001), 1, 0.8, 0.1, 0.1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(parts[0].Len(), parts[1].Len(), parts[2].Len())
	// Output: 801 100 100
}

// Other fields: from bytes to numbers, and noise that is another one in each epoch.
func ExampleMap() {
	set, err := dataloader.FromTensors(tensor.New(tensor.WithShape(3), tensor.WithBacking([]uint8{0, 51, 255})))
	if err != nil {
		log.Fatal(err)
	}
	fields := []dataloader.Field{{Name: "scaled", Dtype: tensor.Float32}, {Name: "noise", Dtype: tensor.Int64}}
	set, err = dataloader.Map(set, fields, func(_ context.Context, i int, in, out dataloader.Row) error {
		dataloader.Values[float32](out, 0)[0] = float32(dataloader.Values[uint8](in, 0)[0]) / 255
		dataloader.Values[int64](out, 1)[0] = out.Rand().Int64N(10)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	printSet(set)
	// Output:
	// scaled [0 0.2 1]
	// noise [3 3 5]
}

// A function that writes every byte of its row needs no zeroed one.
func ExampleOverwriting() {
	set := dataloader.FromFunc(3, []dataloader.Field{{Name: "x", Dtype: tensor.Float32, Shape: tensor.Shape{2}}},
		func(_ context.Context, i int, row dataloader.Row) error {
			copy(dataloader.Values[float32](row, 0), []float32{float32(i), 1})
			return nil
		})
	set, err := dataloader.Overwriting(set)
	if err != nil {
		log.Fatal(err)
	}
	printSet(set)
	// Output: x [0 1 1 1 2 1]
}

func ExampleMapInPlace() {
	set, err := dataloader.MapInPlace(column("x", 1, 2, 3), func(_ context.Context, i int, row dataloader.Row) error {
		x := dataloader.Values[float32](row, 0)
		x[0] = (x[0] - 2) / 2
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	printSet(set)
	// Output: x [-0.5 0 0.5]
}

// Two epochs over a slow set, which is read once.
func ExampleCache() {
	set, err := dataloader.Cache(squares(100), 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 10, Shuffle: true, SingleEpoch: true})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for range 2 {
		for _, err := range loader.Batches(context.Background()) {
			if err != nil {
				log.Fatal(err)
			}
		}
	}
	fmt.Printf("%+v\n", set.Stats())
	// Output: {Samples:100 Limit:100 Bytes:1200 Hits:100 Misses:100}
}

func ExampleRepeat() {
	set, err := dataloader.Repeat(column("x", 1, 2), 3)
	if err != nil {
		log.Fatal(err)
	}
	printSet(set)
	// Output: x [1 2 1 2 1 2]
}

// Two of the first set for each of the second.
func ExampleInterleave() {
	a, b := column("x", 1, 2, 3, 4, 5, 6), column("x", 10, 20)
	for _, stop := range []dataloader.StopRule{dataloader.FirstExhausted, dataloader.AllExhausted, dataloader.CycleUntilAllExhausted} {
		set, err := dataloader.Interleave(stop, []int{2, 1}, a, b)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(stop)
		printSet(set)
	}
	// Output:
	// FirstExhausted
	// x [1 10 2 3 20 4 5]
	// AllExhausted
	// x [1 10 2 3 20 4 5 6]
	// CycleUntilAllExhausted
	// x [1 10 2 3 20 4 5 10 6]
}
