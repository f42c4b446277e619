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
)

// ErrFormat is in the chain of every error about the contents of a file, as opposed to errors of
// opening and reading it.
var ErrFormat = errors.New("not a valid IDX file")

const (
	unsignedByte = 0x08    // type of the elements
	maxElements  = 1 << 30 // 20 times the images of MNIST: a header that announces more is damaged
	firstChunk   = 1 << 20 // bytes allocated before any element has been seen
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
	dims, n, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	data, err := readElements(r, n)
	if err != nil {
		return nil, err
	}
	// The end must be read: gzip verifies its checksum there.
	switch _, err := io.ReadFull(r, make([]byte, 1)); {
	case err == nil:
		return nil, fmt.Errorf("%w: data after the %d bytes that its header %v announces", ErrFormat, n, dims)
	case err != io.EOF:
		return nil, badGzip(err)
	}
	return &Array{Dims: dims, Data: data}, nil
}

// readHeader returns the dimensions and their product.
func readHeader(r io.Reader) (dims []int, n int, err error) {
	var magic [4]byte
	if err := readFull(r, magic[:], "magic number"); err != nil {
		return nil, 0, err
	}
	if magic[0] != 0 || magic[1] != 0 {
		return nil, 0, fmt.Errorf("%w: magic number %#x, expected it to begin with two zero bytes", ErrFormat, magic)
	}
	if magic[2] != unsignedByte {
		return nil, 0, fmt.Errorf("%w: element type %#02x, expected %#02x (unsigned byte)", ErrFormat, magic[2], unsignedByte)
	}
	if magic[3] == 0 {
		return nil, 0, fmt.Errorf("%w: 0 dimensions, expected at least 1", ErrFormat)
	}
	sizes := make([]byte, 4*int(magic[3]))
	if err := readFull(r, sizes, "dimensions"); err != nil {
		return nil, 0, err
	}
	total := uint64(1)
	for ; len(sizes) > 0; sizes = sizes[4:] {
		size := binary.BigEndian.Uint32(sizes)
		// Neither factor exceeds 32 bits, so the product cannot overflow before it is checked.
		if total *= uint64(size); size > maxElements || total > maxElements {
			return nil, 0, fmt.Errorf("%w: dimensions %v with %d announce more than %d elements", ErrFormat, dims, size, maxElements)
		}
		dims = append(dims, int(size))
	}
	return dims, int(total), nil
}

// readElements reads n bytes. Memory grows with what arrives, so that a damaged header costs nothing.
func readElements(r io.Reader, n int) ([]byte, error) {
	data := make([]byte, min(n, firstChunk))
	for have := 0; ; {
		k, err := io.ReadFull(r, data[have:])
		have += k
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil, fmt.Errorf("%w: truncated: %d bytes of elements, expected %d", ErrFormat, have, n)
		case err != nil:
			return nil, badGzip(err)
		case have == n:
			return data, nil
		}
		grown := make([]byte, min(n, 2*len(data)))
		copy(grown, data)
		data = grown
	}
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
