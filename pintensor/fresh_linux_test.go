package pintensor

import (
	"bytes"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
)

func TestNewMemoryIsToldFromUsed(t *testing.T) {
	leak.Check(t)
	const size = 8 << 20
	s, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(s)
	addr := uintptr(unsafe.Pointer(&s[0]))
	if !isNew(addr, size) {
		t.Skip("the system does not tell, so all large memory is cleared") // the tests below hold all the same
	}
	for _, at := range []int{0, size / 2, size - 1} {
		s[at] = 1
		if isNew(addr, size) {
			t.Errorf("memory with something in byte %d counts as new", at)
		}
		if err := unix.Madvise(s, unix.MADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
		if !isNew(addr, size) {
			t.Errorf("memory that the system took back does not count as new; it was byte %d", at)
		}
	}
}

// What was in memory that the heap uses again must not be in a new tensor.
func TestLargeMemoryThatWasUsedIsCleared(t *testing.T) {
	e := newRig(t)
	for i := range 8 {
		func() { // leaves the heap memory that is full of ones
			used := make([]byte, 24<<20)
			fillWith(used, 1)
			runtime.KeepAlive(used)
		}()
		runtime.GC()
		n := (4 + i) << 20
		if i%2 == 0 {
			if err := e.Reserve(bg, int64(n), 1); err != nil {
				t.Fatal(err)
			}
		}
		d := must[*tensor.Dense](t)(e.New(tensor.Uint8, n))
		if ones := bytes.Count(d.Raw, []byte{1}); ones > 0 {
			t.Fatalf("%d bytes of %d are not zero", ones, n)
		}
		fillWith(d.Raw, 1)
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Trim(0); err != nil {
			t.Fatal(err)
		}
	}
}
