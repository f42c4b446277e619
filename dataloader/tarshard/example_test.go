package tarshard_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"testing/fstest"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/tarshard"
)

// shard is a tar file with samples of two files: some bytes, and a number.
func shard(samples int) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range samples {
		for _, part := range [][2]string{{"txt", fmt.Sprint("text ", i)}, {"cls", fmt.Sprint(i % 2)}} {
			if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%04d.%s", i, part[0]), Size: int64(len(part[1]))}); err != nil {
				log.Fatal(err)
			}
			if _, err := w.Write([]byte(part[1])); err != nil {
				log.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	return b.Bytes()
}

func ExampleStreamFS() {
	whole := shard(2)
	fsys := fstest.MapFS{"0.tar": {Data: whole[:3000]}, "1.tar": {Data: whole}} // the first one was cut off
	for sample, err := range tarshard.StreamFS(fsys, "0.tar", "1.tar") {
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%s: %q is of class %s\n", sample.Key, sample.Files["txt"], sample.Files["cls"])
	}
	// Output:
	// 0000: "text 0" is of class 0
	// tarshard: 0.tar: after 0001.txt: not a readable shard: truncated: it ends after 3000 bytes, without the mark of an archive's end
	// 0000: "text 0" is of class 0
	// 0001: "text 1" is of class 1
}

func ExampleStream() {
	for _, err := range tarshard.Stream("testdata/none.tar") {
		fmt.Println(errors.Is(err, fs.ErrNotExist))
	}
	// Output: true
}

func ExampleExpand() {
	shards, err := tarshard.Expand("{train,val}-{098..100}.tar")
	fmt.Println(shards, err)
	// Output: [train-098.tar train-099.tar train-100.tar val-098.tar val-099.tar val-100.tar] <nil>
}

// Samples in random order, of a shard on a disk.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "tarshard")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "train-0000.tar")
	if err := os.WriteFile(path, shard(4), 0o600); err != nil {
		log.Fatal(err)
	}

	fields := []dataloader.Field{{Name: "class", Dtype: tensor.Int64}}
	set, err := tarshard.Open([]string{path}, fields, func(_ context.Context, s *tarshard.Sample, row dataloader.Row) error {
		class, err := strconv.ParseInt(string(s.Files["cls"]), 10, 64)
		dataloader.Values[int64](row, 0)[0] = class
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 4, Shuffle: true, Seed: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		for k, i := range batch.Indices {
			_, key := set.Key(i)
			fmt.Println(key, batch.Host(0).Data().([]int64)[k])
		}
	}
	// Unordered output:
	// 0000 0
	// 0001 1
	// 0002 0
	// 0003 1
}

func ExampleNew() {
	fsys := fstest.MapFS{"0.tar": {Data: shard(3)}, "1.tar": {Data: shard(2)}}
	fields := []dataloader.Field{{Name: "length", Dtype: tensor.Int64}}
	set, err := tarshard.New(fsys, []string{"0.tar", "1.tar"}, fields, func(_ context.Context, s *tarshard.Sample, row dataloader.Row) error {
		dataloader.Values[int64](row, 0)[0] = int64(len(s.Files["txt"]))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	shard, key := set.Key(3)
	fmt.Println(set.Len(), "samples; number 3 is", key, "in", shard)
	// Output: 5 samples; number 3 is 0000 in 1.tar
}

// A stream as a Loader's data set: the shards are read in turn, their samples shuffled in a buffer, and decoded by all
// workers.
func ExampleStreamFS_loader() {
	fsys := fstest.MapFS{"0.tar": {Data: shard(3)}, "1.tar": {Data: shard(3)}}
	shards, err := tarshard.Expand("{0..1}.tar")
	if err != nil {
		log.Fatal(err)
	}
	set, err := dataloader.FromStream(dataloader.Source[*tarshard.Sample]{
		Fields: []dataloader.Field{{Name: "class", Dtype: tensor.Int64}},
		Shards: len(shards),
		Open: func(_ context.Context, _, shard int) iter.Seq2[*tarshard.Sample, error] {
			return tarshard.StreamFS(fsys, shards[shard])
		},
		Read: func(_ context.Context, s *tarshard.Sample, row dataloader.Row) error {
			class, err := strconv.ParseInt(string(s.Files["cls"]), 10, 64)
			dataloader.Values[int64](row, 0)[0] = class
			return err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 4})
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
	// [0 1 0 0]
	// [1 0]
}
