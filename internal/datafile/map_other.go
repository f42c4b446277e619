//go:build !unix || aix || solaris

package datafile

// This file is for systems on which files are read by calls.

import (
	"errors"
	"os"
)

func mapFile(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return nil }
