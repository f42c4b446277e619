package tokens

// The data set.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/internal/datafile"
)

// The fields of a sample, both of shape (Window).
const (
	Input  = iota // the tokens of the window
	Target        // those that follow each of them
)

// Set is a [dataloader.Dataset] of windows of a file.
type Set struct {
	cfg     Config
	file    *datafile.File
	total   int64     // tokens in the file
	samples int       // windows of an epoch
	scratch sync.Pool // of *[]byte, a window and the token after it, as they are in the file
}

var (
	_ dataloader.Dataset    = (*Set)(nil)
	_ dataloader.Overwriter = (*Set)(nil)
)

// Open returns the data set of windows of the file at path.
func Open(path string, cfg Config) (*Set, error) {
	f, err := datafile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err) // it names the file
	}
	s, err := newSet(f, cfg)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// New is [Open] for a file that r has the size bytes of: an [fs.File] that is an io.ReaderAt, or memory. It
// is called name in errors. r stays the caller's, and must allow ReadAt from several goroutines at once.
func New(r io.ReaderAt, size int64, name string, cfg Config) (*Set, error) {
	return newSet(datafile.New(r, size, name), cfg)
}

func newSet(f *datafile.File, cfg Config) (*Set, error) {
	s := &Set{cfg: cfg, file: f}
	if err := s.cfg.check(); err != nil {
		return nil, err
	}
	if err := s.count(); err != nil {
		return nil, fmt.Errorf("tokens: %s: %w", f.Name(), err)
	}
	s.scratch.New = func() any {
		b := make([]byte, (s.cfg.Window+1)*s.cfg.TokenBytes)
		return &b
	}
	return s, nil
}

// count finds how many tokens and windows there are.
func (s *Set) count() error {
	c := &s.cfg
	bytes := s.file.Size() - c.Skip
	switch {
	case bytes < 0:
		return badf("%d bytes, expected at least the %d of Config.Skip", s.file.Size(), c.Skip)
	case bytes%int64(c.TokenBytes) != 0:
		return badf("%d bytes of tokens, expected a multiple of %d", bytes, c.TokenBytes)
	}
	s.total = bytes / int64(c.TokenBytes)
	if s.total <= int64(c.Window) {
		return badf("%d tokens, expected at least %d, for Config.Window and the one after it", s.total, int64(c.Window)+1)
	}
	if s.samples = c.Samples; s.samples > 0 {
		return nil
	}
	n := (s.total-int64(c.Window)-1)/int64(c.Stride) + 1
	if n > math.MaxInt {
		return badf("%d windows, more than an int counts", n)
	}
	s.samples = int(n)
	return nil
}

// Tokens is the number of tokens in the file.
func (s *Set) Tokens() int64 { return s.total }

// String says what the set is of.
func (s *Set) String() string {
	return fmt.Sprintf("tokens.Set(%d windows of %d of the %d tokens of %s)", s.samples, s.cfg.Window, s.total, s.file.Name())
}

// Len is the number of windows of an epoch.
func (s *Set) Len() int { return s.samples }

// Overwrites is true: see [dataloader.Overwriter].
func (s *Set) Overwrites() bool { return true }

// Fields are "input" and "target".
func (s *Set) Fields() []dataloader.Field {
	shape := tensor.Shape{s.cfg.Window}
	return []dataloader.Field{
		Input:  {Name: "input", Dtype: s.cfg.Dtype, Shape: shape},
		Target: {Name: "target", Dtype: s.cfg.Dtype, Shape: shape},
	}
}

// Read writes window i. See [dataloader.Dataset].
func (s *Set) Read(_ context.Context, i int, row dataloader.Row) error {
	c := &s.cfg
	start := int64(i) * int64(c.Stride)
	if c.Samples > 0 {
		start = row.Rand().Int64N(s.total - int64(c.Window))
	}
	scratch := s.scratch.Get().(*[]byte)
	defer s.scratch.Put(scratch)
	raw := *scratch
	n, err := s.file.ReadAt(raw, c.Skip+start*int64(c.TokenBytes))
	if err != nil && n < len(raw) {
		return fmt.Errorf("tokens: %s: token %d: %w", s.file.Name(), start+int64(n/c.TokenBytes), err)
	}
	bad := 0
	if c.Dtype == tensor.Int64 {
		bad = split(dataloader.Values[int64](row, Input), dataloader.Values[int64](row, Target), raw, c.TokenBytes, c.limit())
	} else {
		bad = split(dataloader.Values[int32](row, Input), dataloader.Values[int32](row, Target), raw, c.TokenBytes, c.limit())
	}
	if bad >= 0 {
		return fmt.Errorf("tokens: %s: token %d: %w", s.file.Name(), start+int64(bad), badf("%d, expected less than %d", token(raw, bad, c.TokenBytes), c.limit()))
	}
	return nil
}

// split writes all tokens of raw but the last to input and all but the first to target. It returns the first
// one that is not below limit, or -1.
func split[T int32 | int64](input, target []T, raw []byte, size int, limit uint32) int {
	var highest uint32
	if size == 2 {
		for k := range target {
			x := uint32(binary.LittleEndian.Uint16(raw[2*k+2:]))
			highest = max(highest, x)
			target[k] = T(x)
		}
	} else {
		for k := range target {
			x := binary.LittleEndian.Uint32(raw[4*k+4:])
			highest = max(highest, x)
			target[k] = T(x)
		}
	}
	first := token(raw, 0, size)
	input[0] = T(first)
	copy(input[1:], target)
	if max(highest, first) < limit {
		return -1
	}
	k := 0
	for token(raw, k, size) < limit {
		k++
	}
	return k
}

// token returns token k of raw.
func token(raw []byte, k, size int) uint32 {
	if size == 2 {
		return uint32(binary.LittleEndian.Uint16(raw[2*k:]))
	}
	return binary.LittleEndian.Uint32(raw[4*k:])
}

// Close closes the file. Reads after it are errors. Further calls return nil.
func (s *Set) Close() error {
	if err := s.file.Close(); err != nil {
		return fmt.Errorf("tokens: %s: %w", s.file.Name(), err)
	}
	return nil
}
