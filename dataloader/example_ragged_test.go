package dataloader_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
)

var lines = []string{"to be", "or not to be", "that is", "the question is this"}

// words is a set of texts, as the length of each word, padded to the longest text of a batch.
func words() dataloader.Dataset {
	fields := []dataloader.Field{{
		Name: "words", Dtype: tensor.Int32, Shape: tensor.Shape{-1},
		Pad: &dataloader.Padding{Value: int32(-1)},
	}}
	return dataloader.FromFunc(len(lines), fields, func(_ context.Context, i int, row dataloader.Row) error {
		text := strings.Fields(lines[i])
		tokens, err := dataloader.Ragged[int32](row, 0, len(text))
		for k := range tokens {
			tokens[k] = int32(len(text[k]))
		}
		return err
	})
}

func printFields(set dataloader.Dataset, cfg dataloader.Config) {
	loader, err := dataloader.New(set, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		for i, f := range set.Fields() {
			fmt.Println(f.Name, batch.Host(i).Shape(), batch.Host(i).Data())
		}
	}
}

func ExampleRagged() {
	printFields(words(), dataloader.Config{BatchSize: 2})
	// Output:
	// words (2, 4) [2 2 -1 -1 2 3 2 2]
	// words (2, 4) [4 2 -1 -1 3 8 2 4]
}

// Texts of similar length together: nothing is left to pad.
func ExampleRagged_bucketed() {
	var lengths []int
	for _, line := range lines {
		lengths = append(lengths, len(strings.Fields(line)))
	}
	batches, err := dataloader.Bucketed(lengths, dataloader.Buckets{MaxTokens: 8})
	if err != nil {
		log.Fatal(err)
	}
	printFields(words(), dataloader.Config{BatchSampler: batches})
	// Output:
	// words (2, 4) [2 3 2 2 3 8 2 4]
	// words (2, 2) [2 2 4 2]
}

func ExampleWithMask() {
	set, err := dataloader.WithMask(words(), "words", tensor.Float32)
	if err != nil {
		log.Fatal(err)
	}
	printFields(set, dataloader.Config{BatchSize: 2})
	// Output:
	// words (2, 4) [2 2 -1 -1 2 3 2 2]
	// words.mask (2, 4) [1 1 0 0 1 1 1 1]
	// words (2, 4) [4 2 -1 -1 3 8 2 4]
	// words.mask (2, 4) [1 1 0 0 1 1 1 1]
}

func ExampleWithLengths() {
	set, err := dataloader.WithLengths(words(), "words")
	if err != nil {
		log.Fatal(err)
	}
	printFields(set, dataloader.Config{BatchSize: 4})
	// Output:
	// words (4, 4) [2 2 -1 -1 2 3 2 2 4 2 -1 -1 3 8 2 4]
	// words.length (4) [2 4 2 4]
}
