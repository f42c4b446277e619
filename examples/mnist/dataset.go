// The images as a data set for the loader: how one of them gets into its row of a batch.

package main

import (
	"context"
	"reflect"

	"github.com/pintensor/pin/dataloader"
	"gorgonia.org/tensor"
)

// The fields of a batch.
const (
	fieldImage = iota // pixels, normalised
	fieldLabel        // 1 at the digit, 0 elsewhere
)

// Mean and standard deviation of the pixels of the training images, black being 0 and white 1. They
// are the ones that PyTorch's example uses, so that results compare.
const (
	pixelMean = 0.1307
	pixelStd  = 0.3081
)

type float interface{ float32 | float64 }

// dtypeOf is the tensor.Dtype of T.
func dtypeOf[T float]() tensor.Dtype { return tensor.Dtype{Type: reflect.TypeFor[T]()} }

// dataset implements dataloader.Dataset and dataloader.BatchReader. It keeps the images as the bytes that
// they are, an eighth or a quarter of what they take as T, and converts them on the way into a batch.
type dataset[T float] struct {
	images
	shape      tensor.Shape // of one image
	normalised [256]T       // of each value of a pixel
}

func newDataset[T float](m images, shape tensor.Shape) *dataset[T] {
	d := &dataset[T]{images: m, shape: shape}
	for p := range d.normalised {
		d.normalised[p] = T((float64(p)/255 - pixelMean) / pixelStd)
	}
	return d
}

func (d *dataset[T]) Len() int { return d.count() }

func (d *dataset[T]) Fields() []dataloader.Field {
	return []dataloader.Field{
		fieldImage: {Name: "image", Dtype: dtypeOf[T](), Shape: d.shape},
		fieldLabel: {Name: "label", Dtype: dtypeOf[T](), Shape: tensor.Shape{classes}},
	}
}

// Read writes image i into row, which the loader has zeroed.
func (d *dataset[T]) Read(_ context.Context, i int, row dataloader.Row) error {
	image := dataloader.Values[T](row, fieldImage)
	for k, p := range d.pixels[i*pixels : (i+1)*pixels] {
		image[k] = d.normalised[p]
	}
	dataloader.Values[T](row, fieldLabel)[d.labels[i]] = 1
	return nil
}

// ReadBatch spares the loader a call for each image. Where several images share work, a file or a lock, it
// is where to share it.
func (d *dataset[T]) ReadBatch(ctx context.Context, indices []int, rows dataloader.Rows) error {
	for k, i := range indices {
		if err := d.Read(ctx, i, rows.Row(k)); err != nil {
			return err
		}
	}
	return nil
}
