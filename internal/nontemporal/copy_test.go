package nontemporal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// Every byte is copied and none beside them, whatever lengths and alignments.
func TestCopy(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	for _, n := range []int{0, 1, 31, 32, 127, 128, 129, 159, 160, 255, 256, 1000, 4096, 4097, 100_000} {
		for _, from := range []int{0, 1, 8, 31} {
			for _, to := range []int{0, 1, 8, 31, 32} {
				src, dst := random(n+64), random(n+128)
				want := bytes.Clone(dst)
				copy(want[to:to+n], src[from:from+n])
				Copy(dst[to:to+n], src[from:from+n])
				if !bytes.Equal(dst, want) {
					t.Errorf("%d bytes from offset %d to %d: not what copy makes", n, from, to)
				}
			}
		}
	}
}

func TestCopyRefusesLengths(t *testing.T) {
	for _, n := range []int{3, 5} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("4 bytes to %d: no panic", n)
				}
			}()
			Copy(make([]byte, n), make([]byte, 4))
		}()
	}
}

// BenchmarkCopy copies beside Go's copy. What a device gains is in asynccopy's and pintensor's benchmarks.
func BenchmarkCopy(b *testing.B) {
	for _, n := range []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
		src, dst := bytes.Repeat([]byte("x"), n), bytes.Repeat([]byte("y"), n)
		for _, by := range []struct {
			name string
			copy func(dst, src []byte)
		}{{"past", Copy}, {"copy", func(dst, src []byte) { copy(dst, src) }}} {
			b.Run(fmt.Sprintf("size=%dKiB/by=%s", n>>10, by.name), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					by.copy(dst, src)
				}
			})
		}
	}
}
