package datafile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/internal/gather"
	"github.com/pintensor/pin/internal/leak"
)

var limits = map[string]int64{"mapped": MapLimit, "calls": 0}

func write(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	return data
}

func TestRead(t *testing.T) {
	leak.Check(t)
	data := pattern(10_000)
	path := write(t, data)
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			f, err := open(path, limit)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if mapped := f.mem != nil; mapped != (name == "mapped") && runtime.GOOS != "windows" {
				t.Errorf("mapped: %v", mapped)
			}
			if f.Size() != 10_000 || f.Name() != path {
				t.Errorf("size %d, name %q", f.Size(), f.Name())
			}
			got, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()+5))
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("ReadAt: %v, equal: %v", err, bytes.Equal(got, data))
			}
			rows := make([]byte, 300)
			n, err := f.ReadRows(rows, 50, 100, []int{7, 0, 98}, nil)
			want := append(append(bytes.Clone(data[750:850]), data[50:150]...), data[9850:9950]...)
			if n != 300 || err != nil || !bytes.Equal(rows, want) {
				t.Errorf("ReadRows = %d, %v, equal: %v", n, err, bytes.Equal(rows, want))
			}
			many, all := make([]int, 30), []byte{}
			for k := range many {
				many[k] = k * 7 % 33
				all = append(all, data[10+many[k]*300:][:300]...)
			}
			var by gather.Rows
			for range 100 {
				got := make([]byte, len(all))
				if n, err := f.ReadRows(got, 10, 300, many, &by); n != len(all) || err != nil || !bytes.Equal(got, all) {
					t.Fatalf("ReadRows of %d rows = %d, %v, equal: %v", len(many), n, err, bytes.Equal(got, all))
				}
			}
			if n, err := f.ReadAt(make([]byte, 8), 9996); n != 4 || err != io.EOF {
				t.Errorf("ReadAt over the end = %d, %v, want 4, EOF", n, err)
			}
			for _, off := range []int64{-1, 10_001} {
				if n, err := f.ReadAt(make([]byte, 8), off); n != 0 || !errors.Is(err, ErrOffset) {
					t.Errorf("ReadAt(%d) = %d, %v, want ErrOffset", off, n, err)
				}
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none") {
		t.Errorf("missing: %v", err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("folder: %v", err)
	}
	f, err := Open(write(t, nil))
	if err != nil || f.Size() != 0 {
		t.Fatalf("empty file: %v", err)
	}
	if n, err := f.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF {
		t.Errorf("read of an empty file: %d, %v", n, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// A mapping of a file that gets shorter faults when it is read. That must be an error, not the end.
func TestTruncatedWhileOpen(t *testing.T) {
	leak.Check(t)
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			path := write(t, pattern(1<<20))
			f, err := open(path, limit)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := os.Truncate(path, 1<<16); err != nil {
				t.Skip("this system keeps files that are open:", err)
			}
			if n, err := f.ReadAt(make([]byte, 100), 1<<19); n == 100 || !errors.Is(err, ErrTruncated) {
				t.Errorf("read of what is gone: %d, %v, want ErrTruncated", n, err)
			}
			if n, err := f.ReadAt(make([]byte, 100), 1000); n != 100 || err != nil {
				t.Errorf("read of what is left: %d, %v", n, err)
			}
			// Of many rows, asked for ahead, those before the first that is gone are read.
			const size = 1 << 10
			rows := []int{1, 5, 9, 2, 63, 0, 7, 8, 3, 4, 6, 900, 10, 11, 12, 13, 14, 901}
			var by gather.Rows
			for range 100 {
				dst := make([]byte, len(rows)*size)
				n, err := f.ReadRows(dst, 0, size, rows, &by)
				if !errors.Is(err, ErrTruncated) || n/size != 11 || !bytes.Equal(dst[:size], pattern(1 << 20)[size:2*size]) {
					t.Fatalf("rows of which one is gone: %d bytes, %v, want 11 rows and ErrTruncated", n, err)
				}
			}
		})
	}
}

// Close must wait for readers: the mapping must not go while they copy.
func TestCloseWhileRead(t *testing.T) {
	leak.Check(t)
	path := write(t, pattern(1<<20))
	for name, limit := range limits {
		for range 20 {
			f, err := open(path, limit)
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			started := make(chan bool, 4)
			for range 4 {
				wg.Go(func() {
					buf := make([]byte, 1<<14)
					for i := 0; ; i++ {
						_, err := f.ReadAt(buf, int64(i%32)<<14)
						if i == 0 {
							started <- true
						}
						if err != nil {
							if !errors.Is(err, fs.ErrClosed) {
								t.Errorf("%s: %v", name, err)
							}
							return
						}
					}
				})
			}
			<-started
			if err := errors.Join(f.Close(), f.Close()); err != nil {
				t.Error(err)
			}
			wg.Wait()
		}
	}
}

func TestNewBorrows(t *testing.T) {
	leak.Check(t)
	r := strings.NewReader("0123456789")
	f := New(r, 12, "lies")
	if n, err := f.ReadAt(make([]byte, 12), 0); n != 10 || !errors.Is(err, ErrTruncated) {
		t.Errorf("shorter than said: %d, %v", n, err)
	}
	broken := errors.New("broken")
	f = New(readerAt(func([]byte, int64) (int, error) { return 3, broken }), 12, "broken")
	if n, err := f.ReadAt(make([]byte, 12), 0); n != 3 || !errors.Is(err, broken) {
		t.Errorf("error of the reader: %d, %v", n, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

type readerAt func([]byte, int64) (int, error)

func (r readerAt) ReadAt(p []byte, off int64) (int, error) { return r(p, off) }

func BenchmarkReadRows(b *testing.B) {
	path := write(b, pattern(128<<20))
	for _, size := range []int{2 << 10, 64 << 10, 1 << 20} {
		for _, batch := range []int{1, 64} {
			for name, limit := range limits {
				b.Run(fmt.Sprintf("row=%dKiB/rows=%d/by=%s", size>>10, batch, name), func(b *testing.B) {
					f, err := open(path, limit)
					if err != nil {
						b.Fatal(err)
					}
					defer f.Close()
					b.ReportAllocs()
					b.SetBytes(int64(size * batch))
					dst, rows := make([]byte, size*batch), make([]int, batch)
					var by gather.Rows
					for b.Loop() {
						for k := range rows {
							rows[k] = rand.IntN(128 << 20 / size)
						}
						if _, err := f.ReadRows(dst, 0, size, rows, &by); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

func TestReadGrowing(t *testing.T) {
	leak.Check(t)
	data := pattern(5 << 20)
	for _, n := range []int64{0, 1, 1 << 20, 1<<20 + 1, 5 << 20} {
		got, err := ReadGrowing(bytes.NewReader(data), n)
		if err != nil || !bytes.Equal(got, data[:n]) {
			t.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got, err := ReadGrowing(bytes.NewReader(data[:100]), 1<<40); len(got) != 100 || err != io.ErrUnexpectedEOF {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 2<<20 {
		t.Errorf("allocated %d bytes", got)
	}
}

func TestSwap(t *testing.T) {
	leak.Check(t)
	words := []uint64{0x0102030405060708}
	p := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8)
	for size, want := range map[int]uint64{1: 0x0102030405060708, 2: 0x0201040306050807, 4: 0x0403020108070605, 8: 0x0807060504030201} {
		words[0] = 0x0102030405060708
		if Swap(p, size); words[0] != want {
			t.Errorf("size %d: %#x, want %#x", size, words[0], want)
		}
	}
	if BigEndian == (binary.NativeEndian.Uint16([]byte{1, 0}) == 1) {
		t.Error("BigEndian:", BigEndian)
	}
}
