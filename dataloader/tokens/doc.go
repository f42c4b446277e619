// Package tokens makes data sets for language models of a file of tokens: windows of it as inputs, and the
// same shifted by one as targets.
//
//	set, err := tokens.Open("train.bin", tokens.Config{Window: 1024, Samples: 100_000})
//	...
//	defer set.Close()
//	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 12, Seed: 1})
//
// The file is the numbers of the tokens and nothing else, two or four bytes each, little-endian: what
// nanoGPT's prepare.py writes with np.memmap or tofile. A header in front, as llm.c has, is skipped with
// [Config.Skip]. A sample has two fields of shape (Window):
//
//	"input"     tokens s to s+Window-1
//	"target"    tokens s+1 to s+Window
//
// Where its window starts, s, is one of these:
//
//   - With [Config.Samples], at a random place of the file, as in nanoGPT's get_batch. It is drawn from
//     [dataloader.Row.Rand], and so follows from the Loader's seed, the epoch and the sample's number alone:
//     the same with any number of workers, and after a resume. Windows may overlap or come twice.
//   - Else at the sample's number times [Config.Stride]: windows side by side, each token once an epoch as an
//     input. Shuffle and samplers of the Loader order them. A few tokens at the end that make no
//     whole window are left out.
//
// Nothing is loaded before it is read. Files of up to 512 MiB are mapped into memory, larger ones read with one
// system call a sample, so that resident memory does not grow with the file.
//
// # Ownership
//
// A [Set] holds its file open until [Set.Close]. Close it after the Loader.
//
// # Concurrency
//
// A Set may be read from any number of goroutines. Close waits for reads that are in progress.
//
// # Errors
//
// All errors name the file. One that cannot be what the Config says is an [ErrFormat]: of an odd number of
// bytes, with fewer tokens than a window, or, when it is read, with a token that Config.Vocab or the fields'
// type does not have. A read after Close is an error that is [io/fs.ErrClosed], and one of a file that was
// truncated meanwhile is an error too, not a fault.
//
// # Platforms
//
// All that Go runs on. Files are mapped on Linux, macOS and the BSDs.
package tokens
