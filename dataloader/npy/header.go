package npy

// The header of an array: magic number, version, and a dictionary in Python's notation.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/datafile"
)

// ErrFormat is in the chain of every error about the contents of a file, as opposed to errors of opening
// and reading it.
var ErrFormat = errors.New("not a readable NumPy file")

const (
	magic     = "\x93NUMPY"
	maxHeader = 64 << 10 // bytes; NumPy itself refuses more than 10,000 by default
	maxDims   = 64       // NumPy's own limit
)

// header is what a file says of its array.
type header struct {
	dtype  tensor.Dtype
	swap   bool // the elements are not in this machine's byte order
	part   int  // bytes of what is swapped: an element, or half of a complex one
	shape  []int
	offset int64 // of the first element in the file
	bytes  int64 // of all elements
}

// readHeader reads the header of the array in the size bytes of f that begin at start, and checks that the
// elements are exactly the rest of them.
func readHeader(f io.ReaderAt, start, size int64) (*header, error) {
	var fixed [12]byte
	n, err := f.ReadAt(fixed[:min(size, int64(len(fixed)))], start)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if n < 10 {
		return nil, badf("truncated: %d bytes of its magic number, version and header size, expected at least 10", n)
	}
	if string(fixed[:6]) != magic {
		return nil, badf("magic number %q, expected %q", fixed[:6], magic)
	}
	var at, length int64
	switch major := fixed[6]; {
	case major == 1:
		at, length = 10, int64(binary.LittleEndian.Uint16(fixed[8:]))
	case (major == 2 || major == 3) && n == 12:
		at, length = 12, int64(binary.LittleEndian.Uint32(fixed[8:]))
	case major == 2 || major == 3:
		return nil, badf("truncated: %d bytes of its magic number, version and header size, expected 12", n)
	default:
		return nil, badf("format version %d.%d, expected 1, 2 or 3", major, fixed[7])
	}
	if length > maxHeader {
		return nil, badf("a header of %d bytes, expected at most %d", length, maxHeader)
	}
	if length > size-at {
		return nil, badf("truncated: %d bytes of its header, expected %d", size-at, length)
	}
	text := make([]byte, length)
	if _, err := f.ReadAt(text, start+at); err != nil {
		return nil, err
	}
	h, err := parse(string(text))
	if err != nil {
		return nil, err
	}
	h.offset = start + at + length
	if have := size - at - length; have < h.bytes {
		return nil, badf("truncated: %d bytes of elements, expected %d for shape %v of %v", have, h.bytes, tuple(h.shape), h.dtype)
	} else if have > h.bytes {
		return nil, badf("%d bytes after the %d bytes of elements that its header announces, for shape %v of %v", have-h.bytes, h.bytes, tuple(h.shape), h.dtype)
	}
	return h, nil
}

// parse makes a header of the dictionary, without its place in the file.
func parse(text string) (*header, error) {
	d, err := parseDict(text)
	if err != nil {
		return nil, badf("header %.200q: %v", text, err)
	}
	h := &header{shape: d.shape}
	if h.dtype, h.swap, h.part, err = elementType(d.descr); err != nil {
		return nil, err
	}
	if len(d.shape) > maxDims {
		return nil, badf("%d dimensions, expected at most %d", len(d.shape), maxDims)
	}
	h.bytes = int64(h.dtype.Size())
	empty := false
	for _, n := range d.shape {
		empty = empty || n == 0
	}
	for _, n := range d.shape {
		if !empty && h.bytes > math.MaxInt/int64(n) {
			return nil, badf("shape %v of %v: more than %d bytes", tuple(d.shape), h.dtype, math.MaxInt)
		}
		h.bytes *= int64(n)
	}
	// The order of the axes makes no difference where at most one is longer than 1.
	long := 0
	for _, n := range d.shape {
		if n > 1 {
			long++
		}
	}
	if d.fortran && long > 1 {
		return nil, badf("shape %v in Fortran's order, in which a sample is scattered over the file: save np.ascontiguousarray(x)", tuple(d.shape))
	}
	return h, nil
}

// elementType returns what descr stands for, such as '<f4'.
func elementType(descr string) (dt tensor.Dtype, swap bool, part int, err error) {
	if len(descr) < 2 || !strings.Contains("<>|=", descr[:1]) {
		return dt, false, 0, badf("element type %.100q, expected one such as '<f4'", descr)
	}
	dt, ok := elementTypes[descr[1:]]
	switch kind := descr[1]; {
	case ok:
	case descr[1:] == "f2":
		return dt, false, 0, badf("element type %q: package tensor has no float16: save x.astype('float32')", descr)
	case kind == 'O':
		return dt, false, 0, badf("element type %q: Python objects, which are pickled: save an array of numbers", descr)
	case kind == 'S' || kind == 'U' || kind == 'a':
		return dt, false, 0, badf("element type %q: strings: save numbers, such as the index of each in a list", descr)
	default:
		return dt, false, 0, badf("element type %.100q, expected bool, or integers, floats or complex numbers of 8 to 128 bits", descr)
	}
	part = int(dt.Size())
	if descr[1] == 'c' {
		part /= 2
	}
	big := descr[0] == '>'
	little := descr[0] == '<'
	if part > 1 && descr[0] == '|' {
		return dt, false, 0, badf("element type %q: no byte order, expected '<' or '>'", descr)
	}
	swap = part > 1 && (big && !datafile.BigEndian || little && datafile.BigEndian)
	return dt, swap, part, nil
}

var elementTypes = map[string]tensor.Dtype{
	"b1": tensor.Bool,
	"i1": tensor.Int8, "i2": tensor.Int16, "i4": tensor.Int32, "i8": tensor.Int64,
	"u1": tensor.Uint8, "u2": tensor.Uint16, "u4": tensor.Uint32, "u8": tensor.Uint64,
	"f4": tensor.Float32, "f8": tensor.Float64,
	"c8": tensor.Complex64, "c16": tensor.Complex128,
}

func badf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

// tuple prints a shape as Python does.
type tuple []int

func (t tuple) String() string {
	text := strings.Join(strings.Fields(fmt.Sprint([]int(t))), ", ")
	if len(t) == 1 {
		text = strings.Replace(text, "]", ",]", 1)
	}
	return "(" + strings.Trim(text, "[]") + ")"
}
