package npy

// Opening .npz archives: zip files of .npy entries.

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/pintensor/pin/internal/datafile"
)

// MaxUnpacked is how many bytes the compressed entries of one archive may take unpacked: 4 GiB. A zip file can
// announce a thousand times its own size. Larger arrays can be saved with np.savez, which does not compress.
const MaxUnpacked = min(4<<30, math.MaxInt)

// OpenNPZ returns the data set of arrays in the .npz archive at path, a field each: those named, in that
// order, or all of them, in the archive's. ".npy" may be left off their names, and is in the fields'.
func OpenNPZ(path string, arrays ...string) (*Set, error) {
	f, err := datafile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("npy: %w", err)
	}
	s := &Set{files: []*datafile.File{f}}
	if err := s.addArchive(f, arrays); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// NewNPZ is [OpenNPZ] for an archive that r has the size bytes of, called name in errors. r stays the
// caller's, and must allow ReadAt from several goroutines at once.
func NewNPZ(r io.ReaderAt, size int64, name string, arrays ...string) (*Set, error) {
	s := &Set{}
	if err := s.addArchive(s.wrap(r, size, name), arrays); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Set) addArchive(f *datafile.File, arrays []string) error {
	archive, err := zip.NewReader(f, f.Size())
	if err != nil {
		return fmt.Errorf("npy: %s: %w", f.Name(), badZip(err))
	}
	entries, err := pick(archive.File, arrays)
	if err != nil {
		return fmt.Errorf("npy: %s: %w", f.Name(), err)
	}
	room := int64(MaxUnpacked)
	for _, e := range entries {
		if err := s.addEntry(f, e, &room); err != nil {
			return err
		}
	}
	return nil
}

// pick returns the entries called arrays.
func pick(entries []*zip.File, arrays []string) ([]*zip.File, error) {
	named, names := make(map[string]*zip.File), []string{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name, ".npy")
		if named[name] != nil {
			return nil, badf("two entries are called %q", e.Name)
		}
		named[name] = e
		names = append(names, name)
	}
	if len(arrays) == 0 {
		if len(entries) == 0 {
			return nil, badf("an archive without entries")
		}
		return entries, nil
	}
	var picked []*zip.File
	for _, a := range arrays {
		e := named[strings.TrimSuffix(a, ".npy")]
		if e == nil {
			return nil, badf("no entry %q, there are %.500q", a, names)
		}
		picked = append(picked, e)
	}
	return picked, nil
}

// addEntry makes a field of entry e of the archive f. room is how many bytes may still be unpacked.
func (s *Set) addEntry(f *datafile.File, e *zip.File, room *int64) error {
	name, field := f.Name()+": "+e.Name, strings.TrimSuffix(e.Name, ".npy")
	switch e.Method {
	case zip.Store:
		start, err := e.DataOffset()
		if err != nil {
			return fmt.Errorf("npy: %s: %w", name, badZip(err))
		}
		if left := f.Size() - start; left < 0 || e.UncompressedSize64 > uint64(left) || e.UncompressedSize64 != e.CompressedSize64 {
			return fmt.Errorf("npy: %s: %w", name, badf("stored, with %d of %d bytes, %d before the end of the archive", e.CompressedSize64, e.UncompressedSize64, left))
		}
		return s.add(f, start, int64(e.UncompressedSize64), name, field)
	case zip.Deflate:
		data, err := unpack(e, room)
		if err != nil {
			return fmt.Errorf("npy: %s: %w", name, err)
		}
		return s.add(s.wrap(bytes.NewReader(data), int64(len(data)), name), 0, int64(len(data)), name, field)
	}
	return fmt.Errorf("npy: %s: %w", name, badf("compression method %d, expected stored or deflated", e.Method))
}

// unpack returns the contents of a compressed entry. The zip reader checks them against their checksum.
func unpack(e *zip.File, room *int64) ([]byte, error) {
	if e.UncompressedSize64 > uint64(*room) {
		return nil, badf("%d bytes unpacked, of which %d are allowed: save it with np.savez", e.UncompressedSize64, *room)
	}
	*room -= int64(e.UncompressedSize64)
	r, err := e.Open()
	if err != nil {
		return nil, badZip(err)
	}
	defer r.Close() // it was opened for reading: nothing that Close could lose
	data, err := datafile.ReadGrowing(r, int64(e.UncompressedSize64))
	if err == nil {
		// The checksum comes with the end.
		var more int
		if more, err = io.ReadFull(r, make([]byte, 1)); more == 0 && errors.Is(err, io.EOF) {
			return data, nil
		}
		if err == nil {
			return nil, badf("more than the %d bytes that the archive announces", e.UncompressedSize64)
		}
	}
	return nil, badZip(err)
}

// badZip makes an error about the archive's contents an ErrFormat, and leaves errors of reading as they are.
func badZip(err error) error {
	var corrupt flate.CorruptInputError
	if errors.As(err, &corrupt) || errors.Is(err, zip.ErrFormat) || errors.Is(err, zip.ErrAlgorithm) || errors.Is(err, zip.ErrChecksum) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, datafile.ErrOffset) {
		return badf("damaged zip: %w", err)
	}
	return err
}
