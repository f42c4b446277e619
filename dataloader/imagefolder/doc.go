// Package imagefolder makes data sets of folders of images, one folder a class, as torchvision's ImageFolder:
//
//	train/cat/001.jpg
//	train/cat/indoors/017.png
//	train/dog/a.jpeg
//
//	set, err := imagefolder.Open("train", imagefolder.Config{
//		Height: 224, Width: 224,
//		Crop: imagefolder.RandomResizedCrop, Flip: 0.5,
//		Mean: []float32{0.485, 0.456, 0.406}, Std: []float32{0.229, 0.224, 0.225},
//	})
//
// A sample has the fields "image", of shape (3, Height, Width) or as [Config] says, and "label", an int64: the
// number of the class in [Set.Classes], which are the names of the folders in order. Folders in folders
// belong to the class, links are followed, and files whose names don't end in .jpg, .jpeg or .png are
// left out. The order of the samples is torchvision's too.
//
// Images are decoded, resized, cropped and normalised when they are read, straight into the batch. Chance, for crops
// and flips, comes from [dataloader.Row.Rand], and so follows from the Loader's seed, the epoch and the
// sample's number alone: the same with any number of workers, and after a resume.
//
// # Pixels
//
// Resizing is bilinear and smooths where it makes smaller (antialias), with the arithmetic of Pillow's
// Image.resize(size, Image.BILINEAR): the results are equal to its, bit for bit, and so to torchvision's Resize,
// CenterCrop, and resized_crop of a Pillow image. Only the pixels of the crop are computed. JPEG decoders differ
// by a little in how they interpolate colours, so those of Pillow give values that differ by a few of 255 there, but with
// package turbojpeg, which has Pillow's and is several times as fast as Go's.
// Transparency is dropped, 16 bits a colour become 8, and CMYK becomes RGB. As in torchvision, an orientation
// that a camera noted (EXIF) is not applied.
//
// A [Decoder] does the same with images that come from elsewhere, such as tar files.
//
// # Ownership
//
// A [Set] holds no file open: one is opened for each Read, and closed in it. There is nothing to close.
//
// # Concurrency
//
// A Set may be read from any number of goroutines.
//
// # Errors
//
// All errors name the file or folder. An image that can't be decoded, that is truncated, or larger than
// [Config.MaxPixels] or [MaxFile] is an error when it is read, that is [ErrFormat]. A class without images is
// one when the folder is opened. No file makes a function panic, unless it makes a [Config.DecodeJPEG] panic. While it is decoded an image takes up
// to 15 bytes a pixel, a progressive JPEG's, and its file's size.
//
// # Platforms
//
// All that Go runs on.
package imagefolder
