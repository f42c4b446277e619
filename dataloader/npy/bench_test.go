package npy_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/npy"
)

// BenchmarkReadBatch gathers random samples of 3136 bytes, as float32 MNIST has, from a file; by=hand is
// the loop over memory that one would write.
func BenchmarkReadBatch(b *testing.B) {
	const n, size = 40_000, 3136
	in := shaped("<f4", fmt.Sprintf("(%d, %d)", n, size/4), make([]byte, n*size)...)
	path := filepath.Join(b.TempDir(), "x.npy")
	if err := os.WriteFile(path, in, 0o600); err != nil {
		b.Fatal(err)
	}
	s, err := npy.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	data := in[len(in)-n*size:]
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	for _, batch := range []int{64, 1024} {
		rows, err := dataloader.MakeRows(s.Fields(), batch)
		if err != nil {
			b.Fatal(err)
		}
		run := func(name string, read func(indices []int)) {
			b.Run(fmt.Sprintf("batch=%d/by=%s", batch, name), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(batch) * size)
				at := 0
				for b.Loop() {
					if at+batch > n {
						at = 0
					}
					read(order[at : at+batch])
					at += batch
				}
			})
		}
		run("hand", func(indices []int) {
			dst := rows.Bytes(0)
			for k, i := range indices {
				copy(dst[k*size:(k+1)*size], data[i*size:(i+1)*size])
			}
		})
		run("set", func(indices []int) {
			if err := s.ReadBatch(b.Context(), indices, rows); err != nil {
				b.Fatal(err)
			}
		})
		run("set-each", func(indices []int) {
			for k, i := range indices {
				if err := s.Read(b.Context(), i, rows.Row(k)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
