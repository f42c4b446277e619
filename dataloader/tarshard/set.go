package tarshard

// Samples in any order, by an index of uncompressed shards.

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/internal/datafile"
)

// Decode writes a sample into its row of a batch. The sample is lent until it returns. Like [dataloader.Dataset]'s
// Read it is called from several goroutines at once.
type Decode func(ctx context.Context, s *Sample, row dataloader.Row) error

// Set is a [dataloader.Dataset] of the samples in uncompressed shards.
type Set struct {
	fields  []dataloader.Field
	decode  Decode
	shards  []*datafile.File
	samples []place
	parts   []part
	names   []string // of parts
	scratch sync.Pool
}

// place is where a sample is.
type place struct {
	key   string
	shard int
	first int // of its parts; the next sample's first is their end
}

// part is one file of a sample.
type part struct {
	offset int64
	size   int64
	name   int // in names
}

// scratch is the memory of one Read, to be used again.
type scratch struct {
	data   []byte
	sample Sample
}

var _ dataloader.Dataset = (*Set)(nil)

// Open returns the data set of the samples in the uncompressed shards at paths, in their order: decode makes
// fields of each. It reads the headers of all files in them.
func Open(paths []string, fields []dataloader.Field, decode Decode) (*Set, error) {
	return newSet(datafile.Open, paths, fields, decode)
}

// New is [Open] for shards of a file system, whose files must be io.ReaderAts, as those of embed.FS and of
// os.DirFS are.
func New(fsys fs.FS, names []string, fields []dataloader.Field, decode Decode) (*Set, error) {
	return newSet(func(name string) (*datafile.File, error) { return datafile.OpenFS(fsys, name) }, names, fields, decode)
}

func newSet(open func(string) (*datafile.File, error), shards []string, fields []dataloader.Field, decode Decode) (*Set, error) {
	if decode == nil {
		return nil, errors.New("tarshard: decode is nil: want a function")
	}
	if len(shards) == 0 {
		return nil, errNoShards
	}
	s := &Set{fields: fields, decode: decode}
	s.scratch.New = func() any { return &scratch{sample: Sample{Files: make(map[string][]byte)}} }
	names := make(map[string]int)
	for _, shard := range shards {
		f, err := open(shard)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("tarshard: %w", err), s.Close())
		}
		s.shards = append(s.shards, f)
		if err := s.index(f, names); err != nil {
			return nil, errors.Join(fmt.Errorf("tarshard: %s: %w", shard, err), s.Close())
		}
	}
	s.samples = slices.Clip(append(s.samples, place{first: len(s.parts)})) // which ends the last one's parts
	s.parts = slices.Clip(s.parts)
	return s, nil
}

// index notes where the samples of the last shard are. names are the numbers of names of parts.
func (s *Set) index(f *datafile.File, names map[string]int) error {
	r := io.NewSectionReader(f, 0, f.Size())
	var head [4]byte
	if n, _ := f.ReadAt(head[:], 0); bytes.HasPrefix(head[:n], []byte("\x1f\x8b")) || isZstd(head[:n]) {
		return badf("compressed, expected a tar file that is not: use Stream, or unpack it")
	}
	t := tar.NewReader(r)
	var end, size int64
	last := ""
	for {
		h, err := t.Next()
		at, _ := r.Seek(0, io.SeekCurrent) // which cannot fail
		if err == io.EOF {
			if err := ended(at, end); err != nil {
				return fmt.Errorf("%s%w", after(last), err)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s%w", after(last), malformed(err))
		}
		last, end = h.Name, dataEnd(h, at)
		key, name, ok := split(h.Name)
		if !ok || !regular(h) {
			continue
		}
		switch {
		case end < 0:
			return fmt.Errorf("%s: %w", h.Name, errSparse)
		case at+h.Size > f.Size():
			return fmt.Errorf("%s: %w", h.Name, badf("truncated: %d bytes, expected %d", f.Size()-at, h.Size))
		}
		if n := len(s.samples); n == 0 || s.samples[n-1].key != key || s.samples[n-1].shard != len(s.shards)-1 {
			s.samples = append(s.samples, place{key, len(s.shards) - 1, len(s.parts)})
			size = 0
		}
		id, known := names[name]
		if !known {
			id = len(s.names)
			names[name], s.names = id, append(s.names, name)
		}
		parts := s.parts[s.samples[len(s.samples)-1].first:]
		if slices.ContainsFunc(parts, func(p part) bool { return p.name == id }) {
			return fmt.Errorf("%s: %w", h.Name, badf("its sample %q has a %q already", key, name))
		}
		if err := room(len(parts), size, h.Size); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		size += h.Size
		s.parts = append(s.parts, part{at, h.Size, id})
	}
}

// String says what the set is of.
func (s *Set) String() string {
	return fmt.Sprintf("tarshard.Set(%d samples in %d shards from %s on)", s.Len(), len(s.shards), s.shards[0].Name())
}

// Len is the number of samples.
func (s *Set) Len() int { return len(s.samples) - 1 }

// Fields are those given to Open.
func (s *Set) Fields() []dataloader.Field { return s.fields }

// Key returns the key of sample i, 0 <= i < Len(), and its shard.
func (s *Set) Key(i int) (shard, key string) {
	p := s.samples[i]
	return s.shards[p.shard].Name(), p.key
}

// Read reads sample i and has it decoded into row. See [dataloader.Dataset].
func (s *Set) Read(ctx context.Context, i int, row dataloader.Row) error {
	z := s.scratch.Get().(*scratch)
	defer s.scratch.Put(z)
	p := s.samples[i]
	f := s.shards[p.shard]
	parts := s.parts[p.first:s.samples[i+1].first]
	total := 0
	for _, part := range parts {
		total += int(part.size) // at most MaxSample
	}
	z.data = slices.Grow(z.data[:0], total)[:total]
	z.sample.Shard, z.sample.Key = f.Name(), p.key
	clear(z.sample.Files)
	free := z.data
	for _, part := range parts {
		data := free[:part.size:part.size]
		free = free[part.size:]
		if n, err := f.ReadAt(data, part.offset); n < len(data) {
			return fmt.Errorf("tarshard: %s: %s.%s: %w", f.Name(), p.key, s.names[part.name], err)
		}
		z.sample.Files[s.names[part.name]] = data
	}
	if err := s.decode(ctx, &z.sample, row); err != nil {
		return fmt.Errorf("tarshard: %s: %s: %w", f.Name(), p.key, err)
	}
	return nil
}

// Close closes the shards. Reads after it are errors. Further calls return nil.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.shards {
		if err := f.Close(); err != nil {
			errs = append(errs, fmt.Errorf("tarshard: %s: %w", f.Name(), err))
		}
	}
	return errors.Join(errs...)
}
