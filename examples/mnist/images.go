// The MNIST files in memory, checked.

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pintensor/pin/dataloader/idx"
)

const (
	height, width = 28, 28
	pixels        = height * width
	classes       = 10
)

// images is one half of MNIST: digits and what they are.
type images struct {
	pixels []byte // pixels of them each, 0 is background
	labels []byte // below classes
}

func (m images) count() int { return len(m.labels) }

// load reads the training and the test images from the folder dir.
func load(dir string) (train, test images, err error) {
	if train, err = loadHalf(dir, "train"); err != nil {
		return images{}, images{}, err
	}
	if test, err = loadHalf(dir, "t10k"); err != nil {
		return images{}, images{}, err
	}
	return train, test, nil
}

// loadHalf reads the images and labels whose files begin with name.
func loadHalf(dir, name string) (images, error) {
	path, digits, err := readArray(dir, name+"-images-idx3-ubyte")
	if err != nil {
		return images{}, err
	}
	if d := digits.Dims; len(d) != 3 || d[0] == 0 || d[1] != height || d[2] != width {
		return images{}, fmt.Errorf("%s: dimensions %v, expected some images of [%d %d]", path, d, height, width)
	}
	path, labels, err := readArray(dir, name+"-labels-idx1-ubyte")
	if err != nil {
		return images{}, err
	}
	if d := labels.Dims; len(d) != 1 || d[0] != digits.Dims[0] {
		return images{}, fmt.Errorf("%s: dimensions %v, expected [%d], a label for each image", path, d, digits.Dims[0])
	}
	for i, label := range labels.Data {
		if label >= classes {
			return images{}, fmt.Errorf("%s: label %d of image %d, expected 0 to %d", path, label, i, classes-1)
		}
	}
	return images{pixels: digits.Data, labels: labels.Data}, nil
}

// readArray reads the file called name in dir, or the one called name.gz. It returns which one it was.
func readArray(dir, name string) (string, *idx.Array, error) {
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		zipped := path + ".gz"
		if _, err := os.Stat(zipped); err != nil {
			return "", nil, fmt.Errorf("%w (nor without .gz)", err)
		}
		path = zipped
	}
	a, err := idx.ReadFile(path)
	return path, a, err
}
