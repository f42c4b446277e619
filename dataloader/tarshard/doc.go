// Package tarshard reads data sets that are kept in tar files, as WebDataset does:
//
//	train-0000.tar:  n01440764/18.jpg  n01440764/18.cls  n01440764/19.jpg  n01440764/19.cls ...
//
// Files that follow one another and have the same name up to the first dot of their base name, their key, are a
// sample. What comes after that dot, in lower case, says which part of it each is: "jpg", "cls", "seg.png".
// Files without a dot or with nothing before it, and those that WebDataset calls meta (__name__), belong to none.
//
// [Stream] reads shards from start to end, compressed with gzip or zstd or not, and needs no index: for shards
// that are large, compressed, or not on a disk. [Open] makes a [dataloader.Dataset] of uncompressed shards, whose
// samples can be read in any order, by reading the headers of all their files once.
//
//	shards, err := tarshard.Expand("train-{0000..0146}.tar")
//	...
//	for sample, err := range tarshard.Stream(shards...) {
//		if err != nil {
//			return err
//		}
//		image, label := sample.Files["jpg"], sample.Files["cls"]
//		...
//	}
//
// What compresses a shard is told by its contents, not its name.
//
// # Ownership
//
// A [Sample] of Stream is the caller's. One that a [Set] passes to its decode function is lent until that
// returns. A Set holds its shards open, one descriptor each, until [Set.Close]; a Stream holds the one that it
// reads open, and closes it when the loop ends.
//
// # Concurrency
//
// A Set may be read from any number of goroutines. The function that Stream returns may be used by
// several at once too; each loop reads the shards for itself.
//
// # Errors
//
// All errors name the shard, and the file in it. A shard that is damaged, or ends before its end-of-archive
// mark, as one whose download was cut off does, is an [ErrFormat]: in a Stream in the place of its rest, after
// which a loop that goes on gets the next shard, and from Open for a Set. No shard makes a function panic, or take more
// memory than twice what a sample has, of which [MaxSample] is allowed, and for zstd a window of [MaxWindow].
//
// # Platforms
//
// All that Go runs on. Shards of up to 512 MiB of a Set are mapped into memory on Linux, macOS and the BSDs.
package tarshard
