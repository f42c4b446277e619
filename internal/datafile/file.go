package datafile

// The file: opening it, reading it, and its end.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"

	"github.com/pintensor/pin/internal/gather"
)

// MapLimit is the size in bytes of the largest file that is mapped.
const MapLimit = 512 << 20

// ErrTruncated says that a file has become shorter since it was opened.
var ErrTruncated = errors.New("the file was truncated since it was opened")

// ErrOffset says that a read was to begin outside of the file.
var ErrOffset = errors.New("offset outside of the file")

// File is an open data file.
type File struct {
	name string
	size int64
	at   io.ReaderAt
	own  io.Closer // nil: the reader is the caller's

	mu     sync.RWMutex // held for reading while the mapping is read
	mem    []byte       // the mapping; nil without one
	closed bool
}

// Open opens the regular file at path. Its error names the path.
func Open(path string) (*File, error) { return open(path, MapLimit) }

func open(path string, mapLimit int64) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("is %v, want a regular file", info.Mode().Type())}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	file := &File{name: path, size: info.Size(), at: f, own: f}
	if file.size > 0 && file.size <= mapLimit {
		file.mem, _ = mapFile(f, int(file.size)) // a file system that can't map can still be read
	}
	return file, nil
}

// New returns a File of the size bytes that r has, called name in errors.
func New(r io.ReaderAt, size int64, name string) *File {
	return &File{name: name, size: size, at: r}
}

// OpenFS opens the file called name of fsys, whose files must be io.ReaderAts. Its error names the file.
func OpenFS(fsys fs.FS, name string) (*File, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	at, ok := f.(io.ReaderAt)
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("is %v, want a regular file", info.Mode().Type())}
	case !ok:
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%T cannot be read at any place, as an io.ReaderAt can", f)}
	default:
		return &File{name: name, size: info.Size(), at: at, own: f}, nil
	}
	return nil, errors.Join(err, f.Close())
}

// Name is the path that was opened, or the name given to New.
func (f *File) Name() string { return f.name }

// Size is the length in bytes when the file was opened.
func (f *File) Size() int64 { return f.size }

// ReadAt fills p with the bytes from off on, as [io.ReaderAt] says.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > f.size {
		return 0, fmt.Errorf("%w: %d, want 0 to %d", ErrOffset, off, f.size)
	}
	if left := f.size - off; int64(len(p)) > left {
		n, err := f.ReadRows(p[:left], off, int(left), first, nil)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return f.ReadRows(p, off, len(p), first, nil)
}

var first = []int{0} // the row that ReadAt reads

// ReadRows fills dst with rows of size bytes, one after another: those numbered rows, where row 0 begins at
// off and the others follow without gaps. It returns how many bytes it read, fewer only with an error:
// [ErrTruncated] if the file is shorter than when it was opened, [fs.ErrClosed] if it is closed. by knows how such rows
// are best copied out of the mapping; it may be nil. dst has room for all, and the caller has checked that the file had such rows
// when it was opened: ReadRows panics where it had not.
func (f *File) ReadRows(dst []byte, off int64, size int, rows []int, by *gather.Rows) (int, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return 0, fs.ErrClosed
	}
	if f.mem != nil {
		if by != nil && f.guard(func() { by.Copy(dst, f.mem[off:], rows, size) }) == nil {
			return len(rows) * size, nil
		}
		return f.copyRows(dst, off, size, rows)
	}
	done := 0
	for _, i := range rows {
		n, err := f.at.ReadAt(dst[done:done+size], off+int64(i)*int64(size))
		done += n
		if n == size {
			continue // a reader may say EOF together with the last bytes
		}
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrTruncated
		}
		return done, err
	}
	return done, nil
}

// copyRows copies rows out of the mapping one by one, so that it is known which can't be.
func (f *File) copyRows(dst []byte, off int64, size int, rows []int) (done int, err error) {
	err = f.guard(func() {
		for _, i := range rows {
			from := off + int64(i)*int64(size)
			done += copy(dst[done:done+size], f.mem[from:from+int64(size)])
		}
	})
	return done, err
}

// guard calls read, which reads the mapping. Pages behind the end of a file that was truncated fault (SIGBUS), and so do
// those that a disk fails to read: that must not end the program.
func (f *File) guard(read func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if _, fault := p.(interface{ Addr() uintptr }); fault {
			err = f.fault()
		} else if p != nil {
			panic(p)
		}
	}()
	read()
	return nil
}

// fault says why a read of the mapping faulted.
func (f *File) fault() error {
	if file, ok := f.at.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Size() >= f.size {
			return errors.New("reading its mapping faulted: the disk failed, or the file was short for a moment")
		}
	}
	return ErrTruncated
}

// Close ends reading, after the reads that are in progress. Further calls return nil.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	var errs []error
	if f.mem != nil {
		errs = append(errs, unmap(f.mem))
		f.mem = nil
	}
	if f.own != nil {
		errs = append(errs, f.own.Close())
	}
	return errors.Join(errs...)
}
