//go:build (linux || darwin) && (amd64 || arm64)

package turbojpeg

// The library's functions, of its second API, which the third one still has (turbojpeg.h of 2.1):
//
//	tjhandle tjInitDecompress(void);
//	int tjDecompressHeader3(tjhandle, const unsigned char *jpeg, unsigned long size,
//		int *width, int *height, int *subsampling, int *colorspace);
//	int tjDecompress2(tjhandle, const unsigned char *jpeg, unsigned long size, unsigned char *dst,
//		int width, int pitch, int height, int pixelFormat, int flags);
//	int tjDestroy(tjhandle);

import (
	"errors"
	"fmt"
	"image"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

const (
	spaceGray = 2 // TJCS_GRAY
	spaceCMYK = 3 // TJCS_CMYK; the next one, TJCS_YCCK, is of four colours too

	pixelGray = 6 // TJPF_GRAY
	pixelRGBA = 7 // TJPF_RGBA

	accurate    = 4096  // TJFLAG_ACCURATEDCT, as Pillow
	stop        = 8192  // TJFLAG_STOPONWARNING
	limitScans  = 32768 // TJFLAG_LIMITSCANS: files of more than 500 scans are left to image/jpeg
	decodeFlags = accurate | stop | limitScans
)

// names are what the library is called.
var names = map[string][]string{
	"linux":  {"libturbojpeg.so.0", "libturbojpeg.so"},
	"darwin": {"libturbojpeg.dylib", "/opt/homebrew/lib/libturbojpeg.dylib", "/usr/local/lib/libturbojpeg.dylib"},
}[runtime.GOOS]

// library is the addresses of the functions.
type library struct{ initDecompress, header, decompress, tjDestroy uintptr }

var (
	librariesMu sync.Mutex
	libraries   = map[string]*library{} // by name; they stay loaded
)

// load returns the library of a name, or of the first of its usual ones that is there.
func load(name string) (*library, error) {
	librariesMu.Lock()
	defer librariesMu.Unlock()
	if lib := libraries[name]; lib != nil {
		return lib, nil
	}
	tried := []string{name}
	if name == "" {
		tried = names
	}
	var errs []error
	for _, n := range tried {
		at, err := purego.Dlopen(n, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		lib, err := bind(at)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n, errors.Join(err, purego.Dlclose(at))))
			continue
		}
		libraries[name] = lib
		return lib, nil
	}
	return nil, errors.Join(errs...)
}

// bind looks the functions up.
func bind(at uintptr) (*library, error) {
	lib := &library{}
	for name, to := range map[string]*uintptr{
		"tjInitDecompress": &lib.initDecompress, "tjDecompressHeader3": &lib.header, "tjDecompress2": &lib.decompress, "tjDestroy": &lib.tjDestroy,
	} {
		address, err := purego.Dlsym(at, name)
		if err != nil {
			return nil, err
		}
		*to = address
	}
	return lib, nil
}

// handle is a decompressor.
type handle struct {
	lib *library
	tj  uintptr
	out [4]int32 // what header returns
	pin runtime.Pinner

	args []uintptr // of a call
}

func (l *library) open() (*handle, error) {
	tj, _, _ := purego.SyscallN(l.initDecompress)
	if tj == 0 {
		return nil, errors.New("turbojpeg: tjInitDecompress failed: out of memory")
	}
	return &handle{lib: l, tj: tj}, nil
}

func (h *handle) destroy() { purego.SyscallN(h.lib.tjDestroy, h.tj) }

// header reads an image's size and whether it is gray. ok is false if it is not one that decode can decode.
func (h *handle) header(data []byte) (size image.Point, gray, ok bool) {
	if len(data) == 0 {
		return size, false, false
	}
	defer h.pin.Unpin()
	failed := h.call(h.lib.header, h.address(data), uintptr(len(data)),
		h.int(0), h.int(1), h.int(2), h.int(3))
	size, space := image.Pt(int(h.out[0]), int(h.out[1])), h.out[3]
	return size, space == spaceGray, !failed && size.X > 0 && size.Y > 0 && space < spaceCMYK
}

// decode writes an image of that size to pixels, and returns whether nothing was wrong with it.
func (h *handle) decode(data, pixels []byte, size image.Point, gray bool) bool {
	defer h.pin.Unpin()
	format, pitch := uintptr(pixelRGBA), 4*size.X
	if gray {
		format, pitch = pixelGray, size.X
	}
	return !h.call(h.lib.decompress, h.address(data), uintptr(len(data)), h.address(pixels),
		uintptr(size.X), uintptr(pitch), uintptr(size.Y), format, decodeFlags)
}

// call calls a function of the library, and returns whether it failed.
func (h *handle) call(fn uintptr, args ...uintptr) (failed bool) {
	h.args = append(append(h.args[:0], h.tj), args...)
	result, _, _ := purego.SyscallN(fn, h.args...)
	return int32(result) != 0
}

// address is where the library finds p, which stays there until Unpin.
func (h *handle) address(p []byte) uintptr {
	h.pin.Pin(unsafe.SliceData(p))
	return uintptr(unsafe.Pointer(unsafe.SliceData(p)))
}

// int is where the library is to put its ith result.
func (h *handle) int(i int) uintptr {
	h.pin.Pin(&h.out[i])
	return uintptr(unsafe.Pointer(&h.out[i]))
}
