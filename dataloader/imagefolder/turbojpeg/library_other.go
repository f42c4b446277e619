//go:build !(linux || darwin) || !(amd64 || arm64)

package turbojpeg

import (
	"fmt"
	"image"
	"runtime"
)

type library struct{}

func load(string) (*library, error) {
	return nil, fmt.Errorf("it is not looked for on %s/%s", runtime.GOOS, runtime.GOARCH)
}

type handle struct{}

func (*library) open() (*handle, error) { return nil, ErrUnavailable }
func (*handle) destroy()                {}

func (*handle) header([]byte) (size image.Point, gray, ok bool)              { return size, false, false }
func (*handle) decode(data, pixels []byte, size image.Point, gray bool) bool { return false }
