package main

import (
	"context"
	"slices"
	"testing"

	"github.com/pintensor/pin/dataloader"
	"gorgonia.org/tensor"
)

func TestDataset(t *testing.T) {
	check(t)
	t.Run("float32", testDataset[float32])
	t.Run("float64", testDataset[float64])
}

// testDataset compares shuffled batches, made by several workers, with images converted one by one in the
// plainest way.
func testDataset[T float](t *testing.T) {
	m := bars(23, 3)
	loader, err := dataloader.New(newDataset[T](m, tensor.Shape{1, height, width}), dataloader.Config{
		BatchSize: 5, Shuffle: true, Seed: 9, Workers: 3, LastBatch: dataloader.PadLast,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer loader.Close()
	for range 2 { // the second epoch is in recycled memory
		seen := make([]bool, m.count())
		for b, err := range loader.Batches(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			x, y := b.Host(fieldImage), b.Host(fieldLabel)
			if !x.Shape().Eq(tensor.Shape{5, 1, height, width}) || !y.Shape().Eq(tensor.Shape{5, classes}) {
				t.Fatalf("shapes %v and %v", x.Shape(), y.Shape())
			}
			for row := range 5 {
				i := b.Indices[row%b.Len()] // PadLast repeats a batch from its start
				if row < b.Len() {
					if seen[i] {
						t.Errorf("image %d twice in an epoch", i)
					}
					seen[i] = true
				}
				wantX, wantY := naive[T](m, i)
				if got := x.Data().([]T)[row*pixels : (row+1)*pixels]; !slices.Equal(got, wantX) {
					t.Errorf("batch %d row %d: pixels are not those of image %d", b.Index, row, i)
				}
				if got := y.Data().([]T)[row*classes : (row+1)*classes]; !slices.Equal(got, wantY) {
					t.Errorf("batch %d row %d: label %v, want %v", b.Index, row, got, wantY)
				}
			}
		}
		if slices.Contains(seen, false) {
			t.Errorf("images missing in an epoch: %v", seen)
		}
	}
}

func naive[T float](m images, i int) (image, label []T) {
	for k := range pixels {
		image = append(image, T((float64(m.pixels[i*pixels+k])/255-0.1307)/0.3081))
	}
	label = make([]T, 10)
	label[m.labels[i]] = 1
	return image, label
}

// BenchmarkReadBatch is what a worker does for a batch of 64; bytes are those written.
func BenchmarkReadBatch(b *testing.B) {
	b.Run("dtype=float32", benchmarkReadBatch[float32])
	b.Run("dtype=float64", benchmarkReadBatch[float64])
}

func benchmarkReadBatch[T float](b *testing.B) {
	const batch = 64
	d := newDataset[T](bars(batch, 3), tensor.Shape{pixels})
	rows, err := dataloader.MakeRows(d.Fields(), batch)
	if err != nil {
		b.Fatal(err)
	}
	indices := make([]int, batch)
	for i := range indices {
		indices[i] = i
	}
	b.SetBytes(int64(len(rows.Bytes(fieldImage)) + len(rows.Bytes(fieldLabel))))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.ReadBatch(b.Context(), indices, rows); err != nil {
			b.Fatal(err)
		}
	}
}
