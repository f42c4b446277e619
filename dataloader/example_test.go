package dataloader_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/dataloader"
)

// squares is a set of n samples: a number, and its square as the label.
func squares(n int) dataloader.Dataset {
	fields := []dataloader.Field{
		{Name: "x", Dtype: tensor.Float32, Shape: tensor.Shape{1}},
		{Name: "label", Dtype: tensor.Int64},
	}
	return dataloader.FromFunc(n, fields, func(_ context.Context, i int, row dataloader.Row) error {
		dataloader.Values[float32](row, 0)[0] = float32(i)
		dataloader.Values[int64](row, 1)[0] = int64(i * i)
		return nil
	})
}

func ExampleNew() {
	loader, err := dataloader.New(squares(10), dataloader.Config{BatchSize: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	fmt.Println(loader.Len(), "batches")
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		x, label := batch.Host(0), batch.Host(1)
		fmt.Println(batch.Index, x.Shape(), label.Data())
	}
	// Output:
	// 3 batches
	// 0 (4, 1) [0 1 4 9]
	// 1 (4, 1) [16 25 36 49]
	// 2 (2, 1) [64 81]
}

func ExampleNew_badConfig() {
	_, err := dataloader.New(squares(10), dataloader.Config{BatchSize: -3})
	fmt.Println(err)
	// Output: dataloader: Config.BatchSize = -3: want > 0
}

func ExampleFromTensors() {
	images := tensor.New(tensor.WithShape(3, 2), tensor.WithBacking([]float32{0, 1, 10, 11, 20, 21}))
	labels := tensor.New(tensor.WithShape(3), tensor.WithBacking([]uint8{0, 1, 2}))
	set, err := dataloader.FromTensors(images, labels)
	if err != nil {
		log.Fatal(err)
	}
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Indices, batch.Host(0).Data(), batch.Host(1).Data())
	}
	// Output:
	// [0 1] [0 1 10 11] [0 1]
	// [2] [20 21] [2]
}

// Each sample has a random generator of its own, for augmentation: what it gives does not depend on workers
// or batches.
func ExampleRow_Rand() {
	fields := []dataloader.Field{{Name: "noise", Dtype: tensor.Int64}}
	set := dataloader.FromFunc(6, fields, func(_ context.Context, i int, row dataloader.Row) error {
		dataloader.Values[int64](row, 0)[0] = row.Rand().Int64N(100)
		return nil
	})
	for _, cfg := range []dataloader.Config{{BatchSize: 6, Workers: 1}, {BatchSize: 2, Workers: 3}} {
		loader, err := dataloader.New(set, cfg)
		if err != nil {
			log.Fatal(err)
		}
		for batch, err := range loader.Batches(context.Background()) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(batch.Host(0).Data())
		}
		fmt.Println()
		loader.Close()
	}
	// Output:
	// [33 30 55 79 2 76]
	// [33 30][55 79][2 76]
}

// Class 1 is rare, and drawn as often as class 0.
func ExampleWeighted() {
	class := []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}
	weights := make([]float64, len(class))
	for i, c := range class {
		weights[i] = []float64{1.0 / 9, 1}[c]
	}
	sampler, err := dataloader.Weighted(weights, 1000, 1)
	if err != nil {
		log.Fatal(err)
	}
	var drawn [2]int
	for k := range sampler.Len() {
		drawn[class[sampler.Index(0, k)]]++
	}
	fmt.Println(drawn)
	// Output: [499 501]
}

// pairs is a BatchSampler of neighbours.
type pairs int

func (p pairs) Len(epoch int) int { return int(p) / 2 }
func (p pairs) Batch(epoch, b int, dst []int) []int {
	return append(dst, 2*b, 2*b+1)
}

func ExampleBatchSampler() {
	loader, err := dataloader.New(squares(6), dataloader.Config{BatchSampler: pairs(6)})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(batch.Indices)
	}
	// Output: [0 1][2 3][4 5]
}

// An error stands in its batch's place. A loop that goes on gets the next batch.
func ExampleSampleError() {
	fields := []dataloader.Field{{Name: "x", Dtype: tensor.Float32}}
	set := dataloader.FromFunc(6, fields, func(_ context.Context, i int, row dataloader.Row) error {
		if i == 3 {
			return errors.New("file is truncated")
		}
		return nil
	})
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		var bad *dataloader.SampleError
		switch {
		case errors.As(err, &bad):
			fmt.Println(err)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(batch.Index, batch.Indices)
		}
	}
	// Output:
	// 0 [0 1]
	// dataloader: epoch 0, batch 1, sample 3: file is truncated
	// 2 [4 5]
}

// A checkpoint in the middle of an epoch, restored in another process with other workers.
func ExampleLoader_Restore() {
	cfg := dataloader.Config{BatchSize: 2, Shuffle: true, Seed: 1, Workers: 2}
	loader, err := dataloader.New(squares(8), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	var checkpoint []byte
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(batch.Indices)
		if batch.Index == 1 {
			if checkpoint, err = json.Marshal(loader.State()); err != nil {
				log.Fatal(err)
			}
		}
	}
	fmt.Println()

	cfg.Workers = 1
	again, err := dataloader.New(squares(8), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer again.Close()
	var state dataloader.State
	if err := json.Unmarshal(checkpoint, &state); err != nil {
		log.Fatal(err)
	}
	if err := again.Restore(state); err != nil {
		log.Fatal(err)
	}
	for batch, err := range again.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(batch.Indices)
	}
	// Output:
	// [1 5][4 0][2 6][7 3]
	// [2 6][7 3]
}

func ExampleLoader_SetEpoch() {
	loader, err := dataloader.New(squares(6), dataloader.Config{BatchSize: 6, Shuffle: true})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for i := range 3 {
		if i == 2 {
			loader.SetEpoch(0) // the first one's order again
		}
		for batch, err := range loader.Batches(context.Background()) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(batch.Epoch, batch.Indices)
		}
	}
	// Output:
	// 0 [1 0 2 4 3 5]
	// 1 [2 1 3 4 5 0]
	// 0 [1 0 2 4 3 5]
}

func ExampleBatch_Keep() {
	loader, err := dataloader.New(squares(6), dataloader.Config{BatchSize: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	var last *dataloader.Batch
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		if batch.Index == 1 {
			batch.Keep() // or the memory would hold batch 2 by and by
			last = batch
		}
	}
	fmt.Println(last.Host(1).Data())
	if err := last.Release(); err != nil {
		log.Fatal(err)
	}
	// Output: [4 9]
}

// With a stream, batches are copied to its device ahead of the loop.
func ExampleBatch_Device() {
	device, err := asynccopy.OpenSoft()
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	stream, err := device.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	loader, err := dataloader.New(squares(4), dataloader.Config{BatchSize: 2, Stream: stream})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		download, err := stream.ToHost(batch.Device(1), true)
		if err != nil {
			log.Fatal(err)
		}
		labels, err := download.Wait(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(labels.Data())
	}
	// Output:
	// [0 1]
	// [4 9]
}

// MakeRows tests a data set by itself.
// A kernel launched on a stream of one's own reads a batch: Use orders the two, in both directions.
func ExampleBatch_Use() {
	device, err := asynccopy.OpenSoft()
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	copies, err := device.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	compute, err := device.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	loader, err := dataloader.New(squares(4), dataloader.Config{BatchSize: 2, Stream: copies})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		if err := batch.Use(compute); err != nil {
			log.Fatal(err)
		}
		// Here a kernel would be launched on compute.Handle() with batch.Device(0).DevicePtr().
		fmt.Println(batch.Device(0).Shape(), batch.Device(0).DevicePtr() != 0)
	}
	// Output:
	// (2, 1) true
	// (2, 1) true
}

func ExampleMakeRows() {
	set := squares(10)
	rows, err := dataloader.MakeRows(set.Fields(), 1)
	if err != nil {
		log.Fatal(err)
	}
	if err := set.Read(context.Background(), 7, rows.Row(0)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(dataloader.Values[float32](rows.Row(0), 0), dataloader.Values[int64](rows.Row(0), 1))
	// Output: [7] [49]
}

// Waited/Looped is the share of a loop that waiting for data costs.
func ExampleLoader_Stats() {
	loader, err := dataloader.New(squares(1000), dataloader.Config{BatchSize: 10, Workers: 2, Prefetch: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for _, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
	}
	s := loader.Stats()
	fmt.Println(s.Batches, "batches of", s.Samples, "samples; memory for at most", s.PinnedLimit, "bytes")
	fmt.Println("waited for data:", s.Waited <= s.Looped)
	// Output:
	// 100 batches of 1000 samples; memory for at most 2560 bytes
	// waited for data: true
}
