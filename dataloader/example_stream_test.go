package dataloader_test

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"log"
	"strconv"
	"strings"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
)

// Lines of two files, read at the same time and in turn, and parsed by several workers.
func ExampleFromStream() {
	files := []string{"1\n2\n3\n", "10\n20\nthirty\n"}
	set, err := dataloader.FromStream(dataloader.Source[string]{
		Fields:     []dataloader.Field{{Name: "number", Dtype: tensor.Int64}},
		Shards:     len(files),
		Interleave: 2,
		Open: func(_ context.Context, epoch, shard int) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				lines := bufio.NewScanner(strings.NewReader(files[shard]))
				for lines.Scan() {
					if !yield(lines.Text(), nil) {
						return
					}
				}
				if err := lines.Err(); err != nil {
					yield("", err)
				}
			}
		},
		Read: func(_ context.Context, line string, row dataloader.Row) error {
			n, err := strconv.ParseInt(line, 10, 64)
			dataloader.Values[int64](row, 0)[0] = n
			return err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 4, OnError: dataloader.SkipErrors})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Host(0).Data(), batch.Skipped)
	}
	// Output:
	// [1 10 2 20] []
	// [3] [dataloader: epoch 0, batch 1, sample 5: strconv.ParseInt: parsing "thirty": invalid syntax]
}

// The names of files go along with their samples.
func ExampleRow_SetMeta() {
	names := []string{"cat.png", "dog.png", "owl.png"}
	fields := []dataloader.Field{{Name: "x", Dtype: tensor.Float32}}
	set := dataloader.FromFunc(len(names), fields, func(_ context.Context, i int, row dataloader.Row) error {
		dataloader.Values[float32](row, 0)[0] = float32(len(names[i]))
		row.SetMeta(names[i])
		return nil
	})
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Indices, batch.Meta)
	}
	// Output:
	// [0 1] [cat.png dog.png]
	// [2] [owl.png]
}
