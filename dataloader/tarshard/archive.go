package tarshard

// Reading tar files, compressed or not, and telling those that were cut off.

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// MaxWindow is how many bytes of memory a shard compressed with zstd may ask for. zstd -19 asks for 8 MiB, and
// --ultra -22 for 128.
const MaxWindow = 128 << 20

const (
	block      = 512     // of a tar file
	readBuffer = 1 << 18 // bytes that are read from a shard at once
	maxTail    = 1 << 20 // bytes read after the mark of an archive's end; tar writes at most 10 KiB
)

// archive is a tar file that is read from start to end.
type archive struct {
	tar   *tar.Reader
	file  *source     // the file
	bytes *source     // of the archive, unpacked
	close func()      // of the decompressor
	at    *tar.Header // the file in it that is read
	end   int64       // of that file's part of the archive; -1: not known
}

// newArchive begins to read a shard.
func newArchive(r io.Reader) (*archive, error) {
	a := &archive{file: &source{r: r}, close: func() {}}
	in := bufio.NewReaderSize(a.file, readBuffer)
	var plain io.Reader = in
	switch head, _ := in.Peek(4); { // its error comes again
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, a.wrong(err)
		}
		plain = unzipped
	case isZstd(head):
		unzipped, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(MaxWindow))
		if err != nil {
			return nil, a.wrong(err)
		}
		plain, a.close = unzipped, unzipped.Close
	}
	a.bytes = &source{r: plain}
	a.tar = tar.NewReader(a.bytes)
	return a, nil
}

// isZstd reports whether a file that begins with head is a frame of zstd, or one to be skipped.
func isZstd(head []byte) bool {
	return string(head) == "\x28\xb5\x2f\xfd" || len(head) == 4 && head[0]>>4 == 5 && string(head[1:]) == "\x2a\x4d\x18"
}

// next goes to the next file of the archive. It returns io.EOF after a proper end.
func (a *archive) next() (*tar.Header, error) {
	h, err := a.tar.Next()
	if err == nil {
		a.at, a.end = h, dataEnd(h, a.bytes.n)
		return h, nil
	}
	a.at = nil
	if !errors.Is(err, io.EOF) {
		return nil, a.wrong(err)
	}
	if a.file.err != nil {
		return nil, a.file.err
	}
	if err := ended(a.bytes.n, a.end); err != nil {
		return nil, err
	}
	// A compressor's checksum comes at the very end.
	if _, err := io.CopyN(io.Discard, a.bytes, maxTail); err != nil && !errors.Is(err, io.EOF) {
		return nil, a.wrong(err)
	}
	return nil, io.EOF
}

// dataEnd returns where the part of the archive ends that the file with header h takes, whose data begin at
// start, or -1 for a sparse file, whose size on the tape its header does not tell.
func dataEnd(h *tar.Header, start int64) int64 {
	if isSparse(h) {
		return -1
	}
	return start + (h.Size+block-1)/block*block
}

// errSparse refuses files with holes: a few bytes of them announce terabytes of zeros.
var errSparse = badf("a sparse file: pack it without --sparse")

func isSparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if len(key) > 10 && key[:10] == "GNU.sparse" {
			return true
		}
	}
	return false
}

// ended checks, when package tar says that an archive is at its end after n bytes, that a block of zeros
// marks it, after the last file's end. tar takes an archive that was cut off between two files for whole.
func ended(n, end int64) error {
	switch {
	case n == 0:
		return badf("empty, expected a tar file")
	case end >= 0 && n < end+block:
		return badf("truncated: it ends after %d bytes, without the mark of an archive's end", n)
	}
	return nil
}

// wrong makes an error of package tar or of a decompressor an ErrFormat, unless reading the file failed.
func (a *archive) wrong(err error) error {
	if a.file.err != nil {
		return a.file.err
	}
	return malformed(err)
}

func malformed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return badf("truncated: %w", err)
	}
	return badf("damaged: %w", err)
}

// source is a reader that counts, and notes how it failed.
type source struct {
	r   io.Reader
	n   int64
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
