package dataloader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/pintensor/pin/dataloader"
)

// A progress bar needs no code in the loop.
func ExampleProgress() {
	loader, err := dataloader.New(squares(10), dataloader.Config{
		BatchSize: 4,
		Progress: func(p dataloader.Progress) {
			fmt.Printf("epoch %d: %d of %d batches\n", p.Epoch, p.Done, p.Batches)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for _, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// epoch 0: 1 of 3 batches
	// epoch 0: 2 of 3 batches
	// epoch 0: 3 of 3 batches
}

// Printed, figures say whether training waits for data.
func ExampleStats() {
	s := dataloader.Stats{
		Samples: 48000, Bytes: 48000 * 3140, Looped: 2100 * time.Millisecond, Waited: 1281 * time.Millisecond,
		Busy: 4 * time.Second, Workers: 2, Prefetch: 4,
	}
	fmt.Println(s)
	fmt.Printf("%.0f%% of the time waiting\n", 100*s.WaitShare())
	// Output:
	// 48000 samples in 2.1s (22857/s, 150.7 MB), waiting 61% of it: reading is the limit; 2 workers, 4 batches ahead: more Workers, a ReadBatch, or a cheaper Read would help
	// 61% of the time waiting
}

// A source that may fail for a while says so, and is asked again.
func ExampleRetryError() {
	var asked atomic.Int32
	set := dataloader.FromFunc(1, squares(1).Fields(), func(_ context.Context, i int, row dataloader.Row) error {
		if asked.Add(1) < 3 {
			return &dataloader.RetryError{Err: errors.New("503 Service Unavailable")}
		}
		dataloader.Values[float32](row, 0)[0] = 7
		return nil
	})
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 1, SingleEpoch: true})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Host(0).Data(), loader.Stats().Retried, "tries more")
	}
	// Output: [7] 2 tries more
}

// What is no fault of a sample's is not skipped with it.
func ExampleFatalError() {
	set := dataloader.FromFunc(2, squares(2).Fields(), func(context.Context, int, dataloader.Row) error {
		return &dataloader.FatalError{Err: errors.New("the decoder is closed")}
	})
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 2, OnError: dataloader.SkipErrors, SingleEpoch: true})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for _, err := range loader.Batches(context.Background()) {
		fmt.Println(err)
	}
	// Output: dataloader: epoch 0, batch 0, sample 0: the decoder is closed
}

// everyOther is a sampler of one's own.
type everyOther struct{ n, first int }

func (s everyOther) Len() int               { return s.n / 2 }
func (s everyOther) Index(epoch, k int) int { return 2*k + s.first }

// Fingerprint tells samplers with different first samples apart.
func (s everyOther) Fingerprint() string { return fmt.Sprintf("first %d", s.first) }

func ExampleFingerprinter() {
	var loaders [2]*dataloader.Loader
	for first := range loaders {
		loader, err := dataloader.New(squares(10), dataloader.Config{BatchSize: 2, Sampler: everyOther{10, first}})
		if err != nil {
			log.Fatal(err)
		}
		defer loader.Close()
		loaders[first] = loader
	}
	fmt.Println(loaders[1].Restore(loaders[0].State()))
	// Output:
	// dataloader: Restore: the State does not fit: State.Order = Sampler dataloader_test.everyOther of 5 (first 0): this loader has Sampler dataloader_test.everyOther of 5 (first 1)
}

// What depends on what a program does between two loops must not be read before.
func ExampleConfig_singleEpoch() {
	scale := float32(1)
	set := dataloader.FromFunc(2, squares(2).Fields(), func(_ context.Context, i int, row dataloader.Row) error {
		dataloader.Values[float32](row, 0)[0] = scale * float32(i+1)
		return nil
	})
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 2, SingleEpoch: true})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for range 2 {
		for batch, err := range loader.Batches(context.Background()) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(batch.Host(0).Data())
		}
		scale = 10
	}
	// Output:
	// [1 2]
	// [10 20]
}
