package tarshard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/tarshard"
)

// imagenet writes a shard of n samples of the sizes of ImageNet's: 110 kB of what looks like a JPEG, and a class.
func imagenet(b *testing.B, n int) (plain []byte, path string) {
	r := rand.NewChaCha8([32]byte{1})
	var files []string
	for i := range n {
		image := make([]byte, 110_000)
		r.Read(image) // it never fails
		files = append(files, fmt.Sprintf("%06d.jpg", i), string(image), fmt.Sprintf("%06d.cls", i), fmt.Sprint(i%1000))
	}
	plain = pack(b, files...)
	return plain, filepath.Join(b.TempDir(), "train")
}

// BenchmarkStream reads a shard from start to end; an operation is a shard of 200 samples.
func BenchmarkStream(b *testing.B) {
	plain, path := imagenet(b, 200)
	for _, kind := range []struct {
		name string
		data []byte
	}{{"tar", plain}, {"tar.gz", gzipped(b, plain)}, {"tar.zst", zstandard(b, plain)}} {
		b.Run("kind="+kind.name, func(b *testing.B) {
			if err := os.WriteFile(path, kind.data, 0o600); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				for _, err := range tarshard.Stream(path) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkRead reads random samples of a shard.
func BenchmarkRead(b *testing.B) {
	plain, path := imagenet(b, 200)
	if err := os.WriteFile(path, plain, 0o600); err != nil {
		b.Fatal(err)
	}
	s, err := tarshard.Open([]string{path}, []dataloader.Field{{Dtype: tensor.Byte}}, func(context.Context, *tarshard.Sample, dataloader.Row) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	b.SetBytes(110_000)
	for b.Loop() {
		if err := s.Read(b.Context(), rand.IntN(s.Len()), dataloader.Row{}); err != nil {
			b.Fatal(err)
		}
	}
}
