package imagefolder_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"testing/fstest"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/imagefolder"
)

// pets is a file system with two classes. A folder on a disk goes to imagefolder.Open.
func pets() fstest.MapFS {
	jpg, _ := testdata.ReadFile("testdata/in_420.jpg")
	png, _ := testdata.ReadFile("testdata/in_rgb.png")
	return fstest.MapFS{"cat/1.jpg": {Data: jpg}, "cat/2.png": {Data: png}, "dog/1.jpg": {Data: jpg[:200]}}
}

func ExampleNew() {
	set, err := imagefolder.New(pets(), "pets", imagefolder.Config{
		Height: 32, Width: 32, Crop: imagefolder.RandomResizedCrop, Flip: 0.5,
		Mean: []float32{0.485, 0.456, 0.406}, Std: []float32{0.229, 0.224, 0.225},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Len(), "images of", set.Classes())
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 4, OnError: dataloader.SkipErrors})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Host(imagefolder.Image).Shape(), batch.Host(imagefolder.Label).Data())
		for _, s := range batch.Skipped {
			fmt.Println(s.Err)
		}
	}
	// Output:
	// 3 images of [cat dog]
	// (2, 3, 32, 32) [0 0]
	// imagefolder: pets/dog/1.jpg: not a readable image: truncated: it ends after 200 bytes, before the image does: unexpected EOF
}

// What torchvision calls Grayscale, Resize((8, 8)).
func ExampleOpen() {
	_, err := imagefolder.Open("testdata/none", imagefolder.Config{Height: 8, Width: 8, Gray: true, Crop: imagefolder.Squash})
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output: true
}

// Images that come from elsewhere: here from memory, elsewhere from tar files or a data base.
func ExampleDecoder() {
	decoder, err := imagefolder.NewDecoder(imagefolder.Config{Height: 16, Width: 16, Gray: true})
	if err != nil {
		log.Fatal(err)
	}
	files := []string{"testdata/in_420.jpg", "testdata/in_rgb.png", "testdata/none.jpg"}
	set := dataloader.FromFunc(len(files), []dataloader.Field{decoder.Field("image")}, func(_ context.Context, i int, row dataloader.Row) error {
		data, err := testdata.ReadFile(files[i])
		if err != nil {
			return err
		}
		return decoder.Decode(data, row, 0)
	})
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(batch.Host(0).Shape())
	}
	// Output:
	// (2, 1, 16, 16)
	// dataloader: epoch 0, batch 1, sample 2: open testdata/none.jpg: file does not exist
}
