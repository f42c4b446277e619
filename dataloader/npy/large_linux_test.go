package npy_test

// Arrays larger than memory.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/npy"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
)

const (
	largeSamples = 320_000
	largeSample  = 1 << 16 // bytes
)

// large returns a file of 20 GB of which hardly any is on the disk: zeros, but for the first byte of
// every 1000th sample.
func large(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "large.npy")
	head := shaped("|u1", fmt.Sprintf("(%d, %d)", largeSamples, largeSample))
	if err := os.WriteFile(path, head, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(head))+largeSamples*largeSample); err != nil {
		t.Skip("no sparse files here:", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := 0; i < largeSamples; i += 1000 {
		if _, err := f.WriteAt([]byte{byte(i / 1000)}, int64(len(head))+int64(i)*largeSample); err != nil {
			t.Skip("no sparse files here:", err)
		}
	}
	return path
}

// resident returns the most memory that was ever resident in the process, in kB.
func resident(t testing.TB) (kB int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc:", err)
	}
	_, line, _ := bytes.Cut(status, []byte("VmHWM:"))
	if _, err := fmt.Sscan(string(line), &kB); err != nil {
		t.Fatal(err)
	}
	return kB
}

// read loads batches in random order and checks them.
func read(t testing.TB, path string, batches int) {
	s, err := npy.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	loader, err := dataloader.New(s, dataloader.Config{BatchSize: 64, Shuffle: true, Pin: e})
	if err != nil {
		t.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		data := batch.Host(0).Data().([]byte)
		for k, i := range batch.Indices {
			want := byte(0)
			if i%1000 == 0 {
				want = byte(i / 1000)
			}
			if got := data[k*largeSample]; got != want {
				t.Fatalf("sample %d: %d, want %d", i, got, want)
			}
		}
		if batch.Index == batches-1 {
			break
		}
	}
}

func TestLargerThanMemory(t *testing.T) {
	leak.Check(t)
	read(t, large(t), 100)
	if kB := resident(t); kB > 1e6 {
		t.Errorf("%d kB were resident", kB)
	}
}

// BenchmarkLargerThanMemory reads 0.8 GB of a file of 20 GB, in random order.
func BenchmarkLargerThanMemory(b *testing.B) {
	path := large(b)
	for b.Loop() {
		read(b, path, 200)
	}
	b.SetBytes(200 * 64 * largeSample)
	b.ReportMetric(float64(resident(b))/1e3, "MB-resident")
}
