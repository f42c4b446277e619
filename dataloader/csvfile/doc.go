// Package csvfile makes data sets of CSV files: columns of numbers, and of words that stand for classes.
//
//	set, err := csvfile.Open("iris.csv", csvfile.Config{Fields: []csvfile.Field{
//		{Name: "x", Columns: []string{"sepal_length", "sepal_width", "petal_length", "petal_width"}},
//		{Name: "species", Columns: []string{"species"}, Category: true},
//	}})
//
// A sample is a record. A field of one column is a scalar, one of several has the shape (columns); see [Field].
// The format is that of encoding/csv, RFC 4180 with quotes where needed; records may be of several lines, and
// the file may begin with a byte order mark.
//
// [Open] reads the file once, to note where its records begin. They are parsed when they are read: a file may be
// larger than memory, of which the index takes 8 bytes a record.
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
// All errors name the file, and those about a record the line on which it begins, and the column. A record
// that can't be parsed, that has too few or too many columns, or a cell that is no number or category, is an error
// when it is read, that is [ErrFormat]. A column that isn't there, or is there twice, is one from Open. So is a
// record of more than [MaxRecord] bytes, which a quote without its end makes of a large file. A read after Close
// is an error that is [io/fs.ErrClosed].
//
// # Platforms
//
// All that Go runs on. Files of up to 512 MiB are mapped into memory on Linux, macOS and the BSDs.
package csvfile
