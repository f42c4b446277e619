package datafile

// Reading what a header announces, which may be a lie.

import (
	"errors"
	"io"
)

// firstChunk is how many bytes ReadGrowing allocates before any has been seen.
const firstChunk = 1 << 20

// ReadGrowing reads n bytes. Memory grows with what arrives, to twice of it at most, so that a damaged n, 0 or
// more, costs nothing. If r ends before, it returns what there was, and [io.ErrUnexpectedEOF].
func ReadGrowing(r io.Reader, n int64) ([]byte, error) {
	data := make([]byte, min(n, firstChunk))
	for have := 0; ; {
		k, err := io.ReadFull(r, data[have:])
		have += k
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil || int64(have) == n {
			return data[:have], err
		}
		grown := make([]byte, min(n, 2*int64(len(data))))
		copy(grown, data)
		data = grown
	}
}
