package dataloader_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/pintensor/pin/dataloader"
)

// printBatches prints the samples of each batch of an epoch.
func printBatches(set dataloader.Dataset, cfg dataloader.Config) {
	loader, err := dataloader.New(set, cfg)
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
	fmt.Println()
}

func ExampleSequential() {
	order, err := dataloader.Sequential(5)
	if err != nil {
		log.Fatal(err)
	}
	printBatches(squares(5), dataloader.Config{BatchSize: 2, Sampler: order})
	// Output: [0 1][2 3][4]
}

// Shuffled, and every rank gets whole batches of the one order: with Config.Shuffle it would get every
// second sample of it.
func ExampleRandom() {
	order, err := dataloader.Random(8, 1)
	if err != nil {
		log.Fatal(err)
	}
	batches, err := dataloader.Batched(order, 2, false)
	if err != nil {
		log.Fatal(err)
	}
	for rank := range 2 {
		printBatches(squares(8), dataloader.Config{BatchSampler: batches, Rank: rank, WorldSize: 2})
	}
	// Output:
	// [1 5][2 6]
	// [4 0][7 3]
}

func ExampleRandomWithReplacement() {
	order, err := dataloader.RandomWithReplacement(10, 6, 2) // bootstrap: some twice, others not at all
	if err != nil {
		log.Fatal(err)
	}
	printBatches(squares(10), dataloader.Config{BatchSize: 3, Sampler: order})
	// Output: [3 8 9][7 6 7]
}

func ExampleFromIndices() {
	order, err := dataloader.FromIndices([]int{9, 0, 9, 3})
	if err != nil {
		log.Fatal(err)
	}
	printBatches(squares(10), dataloader.Config{BatchSize: 2, Sampler: order})
	// Output: [9 0][9 3]
}

func ExampleSubsetRandom() {
	order, err := dataloader.SubsetRandom([]int{10, 20, 30, 40, 50}, 1)
	if err != nil {
		log.Fatal(err)
	}
	printBatches(squares(60), dataloader.Config{BatchSize: 2, Sampler: order})
	// Output: [20 40][50 10][30]
}

func ExampleBatched() {
	order, err := dataloader.Sequential(7)
	if err != nil {
		log.Fatal(err)
	}
	batches, err := dataloader.Batched(order, 3, true)
	if err != nil {
		log.Fatal(err)
	}
	printBatches(squares(7), dataloader.Config{BatchSampler: batches})
	// Output: [0 1 2][3 4 5]
}

// Texts of similar length share a batch, which has at most 12 tokens with padding.
func ExampleBucketed() {
	lengths := []int{5, 1, 6, 2, 1, 6, 2, 1}
	batches, err := dataloader.Bucketed(lengths, dataloader.Buckets{MaxTokens: 12, Shuffle: true, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	for b := range batches.Len(0) {
		batch := batches.Batch(0, b, nil)
		longest := 0
		for _, i := range batch {
			longest = max(longest, lengths[i])
		}
		fmt.Println("samples", batch, "of length", longest, "at most")
	}
	// Output:
	// samples [3 0] of length 5 at most
	// samples [2 5] of length 6 at most
	// samples [4 7 6 1] of length 2 at most
}

// What torchrun has set, for one of its processes.
func ExampleFromEnv() {
	for name, value := range map[string]string{"RANK": "3", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "train"} {
		os.Setenv(name, value)
		defer os.Unsetenv(name)
	}
	rank, worldSize, err := dataloader.FromEnv()
	if err != nil {
		log.Fatal(err)
	}
	cfg := dataloader.Config{BatchSize: 64, Shuffle: true, Rank: rank, WorldSize: worldSize}
	fmt.Println(cfg.Rank, "of", cfg.WorldSize)
	// Output: 3 of 8
}
