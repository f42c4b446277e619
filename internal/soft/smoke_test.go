package soft

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/internal/leak"
)

func TestSmoke(t *testing.T) {
	for _, late := range []bool{false, true} {
		leak.Check(t)
		d, err := New(Config{Late: late}).Open(0)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := d.NewStream(0)
		s2, _ := d.NewStream(0)
		e, _ := d.NewEvent()
		p, err := d.AllocAsync(1<<20, s)
		if err != nil {
			t.Fatal(err)
		}
		src, dst := bytes.Repeat([]byte{7}, 1<<20), make([]byte, 1<<20)
		if err := d.CopyHtoD(p, unsafe.Pointer(&src[0]), 1<<20, s, e); err != nil {
			t.Fatal(err)
		}
		if err := d.WaitEvent(s2, e); err != nil {
			t.Fatal(err)
		}
		if err := d.CopyDtoH(unsafe.Pointer(&dst[0]), p, 1<<20, s2, e); err != nil {
			t.Fatal(err)
		}
		if late && dst[0] != 0 {
			t.Fatal("early")
		}
		for {
			done, err := d.Query(e)
			if err != nil {
				t.Fatal(err)
			}
			if done {
				break
			}
		}
		if !bytes.Equal(src, dst) {
			t.Fatal("differ")
		}
		if err := d.FreeAsync(p, s); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	h := Host()
	b := make([]byte, 100000)
	if err := h.Register(unsafe.Pointer(&b[5]), 5000); err != nil {
		t.Fatal(err)
	}
	if err := h.Register(unsafe.Pointer(&b[5005]), 5000); err != nil {
		t.Fatal(err)
	}
	if err := h.Unregister(unsafe.Pointer(&b[5])); err != nil {
		t.Fatal(err)
	}
	if err := h.Unregister(unsafe.Pointer(&b[5005])); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 64<<20)
	t.Log(h.Register(unsafe.Pointer(&big[0]), 64<<20))
}
