//go:build (linux || darwin) && (amd64 || arm64)

package turbojpeg

import (
	"strings"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/pintensor/pin/internal/leak"
)

// A library that has no memory left makes no decompressor: an error, and nothing is counted as made.
func TestNoDecompressor(t *testing.T) {
	leak.Check(t)
	none := purego.NewCallback(func() uintptr { return 0 })
	d := &Decoder{pool: &pool{lib: &library{initDecompress: none}}, maxPixels: maxPixels}
	for range 2 {
		if _, err := d.Decode(read(t, "in_420.jpg"), nil); err == nil || !strings.Contains(err.Error(), "tjInitDecompress failed") {
			t.Errorf("%v", err)
		}
	}
	if d.made != 0 || len(d.idle) != 0 {
		t.Errorf("%d made, %d idle", d.made, len(d.idle))
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// What the library calls damaged, and what it fails to decode, is decoded by image/jpeg; the decompressor is used again.
func TestLibraryFails(t *testing.T) {
	leak.Check(t)
	handles := purego.NewCallback(func() uintptr { return 1 })
	fails := purego.NewCallback(func() uintptr { return ^uintptr(0) })
	works := purego.NewCallback(func() uintptr { return 0 })
	d := &Decoder{pool: &pool{lib: &library{initDecompress: handles, header: fails, decompress: fails, tjDestroy: works}}, maxPixels: maxPixels}
	for range 3 {
		m, err := d.Decode(read(t, "in_420.jpg"), nil)
		if err != nil || m.Bounds().Dx() != 74 {
			t.Errorf("%v, %v", m, err)
		}
	}
	if d.made != 1 || len(d.idle) != 1 {
		t.Errorf("%d made, %d idle, want one that was used three times", d.made, len(d.idle))
	}
	if err := d.Close(); err != nil || d.made != 0 {
		t.Errorf("%v, %d left", err, d.made)
	}
}
