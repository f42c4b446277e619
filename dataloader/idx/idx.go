// The reader: header, elements, and nothing after them.

package idx

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pintensor/pin/internal/datafile"
)

// ErrFormat is in the chain of every error about the contents of a file, as opposed to errors of
// opening and reading it.
var ErrFormat = errors.New("not a valid IDX file")

const (
	unsignedByte = 0x08    // type of the elements
	maxElements  = 1 << 30 // 20 times the images of MNIST: a header that announces more is damaged
)

// Array is the contents of an IDX file.
type Array struct {
	Dims []int  // sizes of the dimensions, outermost first
	Data []byte // the elements, the last dimension varying fastest; their number is the product of Dims
}

// ReadFile reads the file at path, compressed with gzip or not.
func ReadFile(path string) (*Array, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("idx: %w", err) // os names the file
	}
	defer f.Close() // opened for reading: nothing that Close could lose
	a, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("idx: %s: %w", path, err)
	}
	return a, nil
}

// Read reads one array, compressed with gzip or not, and checks that r ends where the array does.
func Read(r io.Reader) (*Array, error) {
	in := bufio.NewReader(r)
	// Two zero bytes begin every IDX file, so the magic number of gzip cannot be meant otherwise.
	if magic, _ := in.Peek(2); string(magic) != "\x1f\x8b" {
		return read(in)
	}
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return nil, badGzip(err)
	}
	return read(unzipped)
}

// read reads one array from r, which is not compressed any more.
func read(r io.Reader) (*Array, error) {
	h, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	if h.code != unsignedByte {
		return nil, fmt.Errorf("%w: element type %#02x, expected %#02x (unsigned byte)", ErrFormat, h.code, unsignedByte)
	}
	data, err := readElements(r, h)
	if err != nil {
		return nil, err
	}
	return &Array{Dims: h.dims, Data: data}, nil
}

// header is what a file says of its array.
type header struct {
	code byte // of the element type
	size int  // of an element in bytes
	dims []int
	n    int64 // bytes of all elements
	len  int64 // of the header
}

// readHeader reads the header of an array of at most maxElements elements.
func readHeader(r io.Reader) (*header, error) {
	var magic [4]byte
	if err := readFull(r, magic[:], "magic number"); err != nil {
		return nil, err
	}
	if magic[0] != 0 || magic[1] != 0 {
		return nil, fmt.Errorf("%w: magic number %#x, expected it to begin with two zero bytes", ErrFormat, magic)
	}
	h := &header{code: magic[2], size: int(elementTypes[magic[2]].Size()), len: 4 + 4*int64(magic[3])}
	if h.size == 0 {
		return nil, fmt.Errorf("%w: element type %#02x, expected 0x08, 0x09 or 0x0b to 0x0e", ErrFormat, h.code)
	}
	if magic[3] == 0 {
		return nil, fmt.Errorf("%w: 0 dimensions, expected at least 1", ErrFormat)
	}
	sizes := make([]byte, 4*int(magic[3]))
	if err := readFull(r, sizes, "dimensions"); err != nil {
		return nil, err
	}
	total := uint64(1)
	for ; len(sizes) > 0; sizes = sizes[4:] {
		size := binary.BigEndian.Uint32(sizes)
		// Neither factor exceeds 32 bits, so the product cannot overflow before it is checked.
		if total *= uint64(size); size > maxElements || total > maxElements {
			return nil, fmt.Errorf("%w: dimensions %v with %d announce more than %d elements", ErrFormat, h.dims, size, maxElements)
		}
		h.dims = append(h.dims, int(size))
	}
	h.n = int64(total) * int64(h.size)
	return h, nil
}

// readElements reads the elements that h announces, and checks that r ends after them. Memory grows with what
// arrives, so that a damaged header costs nothing.
func readElements(r io.Reader, h *header) ([]byte, error) {
	data, err := datafile.ReadGrowing(r, h.n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: truncated: %d bytes of elements, expected %d", ErrFormat, len(data), h.n)
	}
	if err != nil {
		return nil, badGzip(err)
	}
	// The end must be read: gzip verifies its checksum there.
	switch _, err := io.ReadFull(r, make([]byte, 1)); {
	case err == nil:
		return nil, fmt.Errorf("%w: data after the %d bytes that its header %v announces", ErrFormat, h.n, h.dims)
	case err != io.EOF:
		return nil, badGzip(err)
	}
	return data, nil
}

// readFull fills p with the part of the header called what.
func readFull(r io.Reader, p []byte, what string) error {
	switch k, err := io.ReadFull(r, p); {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return fmt.Errorf("%w: truncated: %d bytes of its %s, expected %d", ErrFormat, k, what, len(p))
	case err != nil:
		return badGzip(err)
	}
	return nil
}

// badGzip makes an error of the decompressor an ErrFormat, and leaves errors of reading as they are.
func badGzip(err error) error {
	var corrupt flate.CorruptInputError
	if errors.As(err, &corrupt) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: damaged gzip: %w", ErrFormat, err)
	}
	return err
}
