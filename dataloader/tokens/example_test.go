package tokens_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/tokens"
)

// Windows side by side, in random order.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "tokens")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "train.bin")
	// Tokens 0 to 9 as uint16, what numpy.arange(10, dtype=numpy.uint16).tofile writes.
	if err := os.WriteFile(path, []byte("\x00\x00\x01\x00\x02\x00\x03\x00\x04\x00\x05\x00\x06\x00\x07\x00\x08\x00\x09\x00"), 0o600); err != nil {
		log.Fatal(err)
	}
	set, err := tokens.Open(path, tokens.Config{Window: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 1, Shuffle: true, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Host(tokens.Input).Data(), batch.Host(tokens.Target).Data())
	}
	// Unordered output:
	// [0 1 2] [1 2 3]
	// [3 4 5] [4 5 6]
	// [6 7 8] [7 8 9]
}

// A token that the vocabulary does not have is found when its window is read.
func ExampleNew() {
	data := []byte{1, 0, 2, 0, 9, 0, 3, 0}
	set, err := tokens.New(bytes.NewReader(data), int64(len(data)), "train.bin", tokens.Config{Window: 3, Vocab: 8})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := dataloader.MakeRows(set.Fields(), 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Read(context.Background(), 0, rows.Row(0)))

	_, err = tokens.New(bytes.NewReader(data), int64(len(data)), "train.bin", tokens.Config{Window: 4})
	fmt.Println(err)
	// Output:
	// tokens: train.bin: token 2: not a readable file of tokens: 9, expected less than 8
	// tokens: train.bin: not a readable file of tokens: 4 tokens, expected at least 5, for Config.Window and the one after it
}
