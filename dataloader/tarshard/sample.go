package tarshard

// How files become samples.

import (
	"archive/tar"
	"errors"
	"fmt"
	"path"
	"strings"
)

// ErrFormat is in the chain of every error about the contents of a shard, as opposed to errors of opening
// and reading it.
var ErrFormat = errors.New("not a readable shard")

const (
	// MaxSample is how many bytes the files of a sample may have together.
	MaxSample = 512 << 20

	maxParts = 1024 // files of a sample
)

// Sample is files that belong together.
type Sample struct {
	Shard string            // the tar file
	Key   string            // what the names of the files begin with, folders included
	Files map[string][]byte // what the files have in them, by the rest of their names in lower case: "jpg", "seg.png"
}

// split returns the key of a file, and which part of the sample it is; ok says whether it belongs to one.
func split(name string) (key, part string, ok bool) {
	dir, base := path.Split(name)
	stem, part, found := strings.Cut(base, ".")
	if !found || stem == "" {
		return "", "", false
	}
	for element := range strings.SplitSeq(name, "/") {
		if len(element) >= 4 && strings.HasPrefix(element, "__") && strings.HasSuffix(element, "__") {
			return "", "", false
		}
	}
	return dir + stem, strings.ToLower(part), true
}

// room checks that a sample may have one more file, of size bytes.
func room(parts int, have, size int64) error {
	if parts >= maxParts {
		return badf("a sample of more than %d files", maxParts)
	}
	if size > MaxSample-have {
		return badf("%d bytes, with which its sample has more than %d", size, MaxSample)
	}
	return nil
}

// regular reports whether an entry is a file of a sample, and not a folder, a link or a device.
func regular(h *tar.Header) bool {
	return h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse || h.Typeflag == tar.TypeCont
}

func badf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}
