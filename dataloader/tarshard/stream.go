package tarshard

// Samples in the order in which they lie in the shards.

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/pintensor/pin/internal/datafile"
)

// Stream returns a loop over the samples of the shards at paths, one shard after the other. A turn has a sample
// or an error, never both. The error of a sample that is too large stands in its place; one of a shard that is
// damaged in the place of the rest of that shard. A loop that goes on gets what comes after. No paths are an error.
func Stream(paths ...string) iter.Seq2[*Sample, error] {
	return stream(func(path string) (io.ReadCloser, error) { return os.Open(path) }, paths)
}

// StreamFS is [Stream] for shards of a file system.
func StreamFS(fsys fs.FS, names ...string) iter.Seq2[*Sample, error] {
	return stream(func(name string) (io.ReadCloser, error) { return fsys.Open(name) }, names)
}

// errNoShards is what comes of a pattern that nothing matched: without it a loop would have no turns, and say nothing.
var errNoShards = errors.New("tarshard: no shards: want at least one")

func stream(open func(string) (io.ReadCloser, error), shards []string) iter.Seq2[*Sample, error] {
	return func(yield func(*Sample, error) bool) {
		if len(shards) == 0 {
			yield(nil, errNoShards)
			return
		}
		for _, shard := range shards {
			if !streamOne(open, shard, yield) {
				return
			}
		}
	}
}

// streamOne yields the samples of one shard, and returns whether the loop goes on.
func streamOne(open func(string) (io.ReadCloser, error), shard string, yield func(*Sample, error) bool) (more bool) {
	f, err := open(shard)
	if err != nil {
		return yield(nil, fmt.Errorf("tarshard: %w", err)) // it names the shard
	}
	defer f.Close() // opened for reading: nothing that Close could lose
	return read(f, shard, yield)
}

// read yields the samples of a shard.
func read(r io.Reader, shard string, yield func(*Sample, error) bool) (more bool) {
	a, err := newArchive(r)
	if err != nil {
		return yield(nil, fmt.Errorf("tarshard: %s: %w", shard, err))
	}
	defer a.close()
	g := grouper{shard: shard}
	for {
		h, err := a.next()
		if err == io.EOF { // and no other error of its kind
			return g.finish(yield)
		}
		if err != nil {
			return yield(nil, fmt.Errorf("tarshard: %s: %s%w", shard, after(g.last), err))
		}
		more, err := g.add(h, a, yield)
		if err != nil {
			return yield(nil, fmt.Errorf("tarshard: %s: %s: %w", shard, h.Name, err))
		}
		if !more {
			return false
		}
	}
}

// grouper makes samples of the files of an archive.
type grouper struct {
	shard string
	begun *Sample // more of its files may come
	bad   bool    // something is wrong with it, which was reported
	size  int64   // of its files
	last  string  // file
}

// add takes the next file, and yields the sample before it, if it belongs to another. After an error nothing of
// the archive can be read any more.
func (g *grouper) add(h *tar.Header, a *archive, yield func(*Sample, error) bool) (more bool, err error) {
	g.last = h.Name
	key, part, ok := split(h.Name)
	if !ok || !regular(h) {
		return true, nil
	}
	if g.begun == nil || g.begun.Key != key {
		if !g.finish(yield) {
			return false, nil
		}
		*g = grouper{shard: g.shard, last: h.Name, begun: &Sample{Shard: g.shard, Key: key, Files: make(map[string][]byte, 2)}}
	}
	if g.bad {
		return true, nil
	}
	if _, twice := g.begun.Files[part]; twice {
		return g.refuse(badf("its sample %q has a %q already", key, part), yield), nil
	}
	if isSparse(h) {
		return g.refuse(errSparse, yield), nil
	}
	if err := room(len(g.begun.Files), g.size, h.Size); err != nil {
		return g.refuse(err, yield), nil
	}
	data, err := datafile.ReadGrowing(a.tar, h.Size)
	if err != nil {
		return false, a.wrong(err)
	}
	g.size += h.Size
	g.begun.Files[part] = data
	return true, nil
}

// refuse reports what is wrong with the sample of the file g.last.
func (g *grouper) refuse(err error, yield func(*Sample, error) bool) (more bool) {
	g.bad = true
	return yield(nil, fmt.Errorf("tarshard: %s: %s: %w", g.shard, g.last, err))
}

// finish yields the sample that was begun.
func (g *grouper) finish(yield func(*Sample, error) bool) (more bool) {
	done := g.begun
	g.begun = nil
	return done == nil || g.bad || yield(done, nil)
}

// after says where in a shard an error was met.
func after(file string) string {
	if file == "" {
		return ""
	}
	return "after " + file + ": "
}
