package npy_test

// Files that NumPy wrote, and what must come out of them.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/npy"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
)

// all returns each field of all samples, once through Read and once through ReadBatch, which must agree.
func all(t testing.TB, s *npy.Set) []any {
	t.Helper()
	one, err := dataloader.MakeRows(s.Fields(), s.Len())
	if err != nil {
		t.Fatal(err)
	}
	many, _ := dataloader.MakeRows(s.Fields(), s.Len())
	indices := make([]int, s.Len())
	for i := range indices {
		indices[i] = i
		if err := s.Read(t.Context(), i, one.Row(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ReadBatch(t.Context(), indices, many); err != nil {
		t.Fatal(err)
	}
	values := make([]any, len(s.Fields()))
	for f, field := range s.Fields() {
		if !bytes.Equal(one.Bytes(f), many.Bytes(f)) {
			t.Errorf("field %d: Read and ReadBatch differ", f)
		}
		values[f] = typed(field, many, f)
	}
	return values
}

// typed returns the values of a field of rows as a slice of its type.
func typed(field dataloader.Field, rows dataloader.Rows, f int) any {
	switch field.Dtype.Name() {
	case "bool":
		return dataloader.RowsValues[bool](rows, f)
	case "int8":
		return dataloader.RowsValues[int8](rows, f)
	case "int16":
		return dataloader.RowsValues[int16](rows, f)
	case "int32":
		return dataloader.RowsValues[int32](rows, f)
	case "int64":
		return dataloader.RowsValues[int64](rows, f)
	case "uint8":
		return dataloader.RowsValues[uint8](rows, f)
	case "uint16":
		return dataloader.RowsValues[uint16](rows, f)
	case "uint32":
		return dataloader.RowsValues[uint32](rows, f)
	case "uint64":
		return dataloader.RowsValues[uint64](rows, f)
	case "float32":
		return dataloader.RowsValues[float32](rows, f)
	case "float64":
		return dataloader.RowsValues[float64](rows, f)
	case "complex64":
		return dataloader.RowsValues[complex64](rows, f)
	case "complex128":
		return dataloader.RowsValues[complex128](rows, f)
	}
	panic(field.Dtype)
}

func count[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64](n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = T(i)
	}
	return s
}

func TestFilesOfNumPy(t *testing.T) {
	leak.Check(t)
	for name, want := range map[string]any{
		"one_i1": count[int8](6), "little_i2": count[int16](6), "big_i2": count[int16](6),
		"little_i4": count[int32](6), "little_i8": count[int64](6), "big_i8": count[int64](6),
		"one_u1": count[uint8](6), "little_u2": count[uint16](6), "big_u2": count[uint16](6),
		"little_u4": count[uint32](6), "big_u4": count[uint32](6), "little_u8": count[uint64](6), "big_u8": count[uint64](6),
		"little_f4": count[float32](6), "big_f4": count[float32](6), "little_f8": count[float64](6), "big_f8": count[float64](6),
		"bool":       []bool{false, true, false, true, false, true},
		"big_c8":     []complex64{10i, 1 + 10i, 2 + 10i, 3 + 10i, 4 + 10i, 5 + 10i},
		"little_c16": []complex128{10i, 1 + 10i, 2 + 10i, 3 + 10i, 4 + 10i, 5 + 10i},
		"images":     count[uint8](24), "labels": []int64{3, 1, 4, 1}, "fortran_vector": count[int64](3),
		"version1": count[int32](6), "version2": count[int32](6), "version3": count[int32](6),
		"empty": []float32{},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".npy")
			s, err := npy.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := all(t, s)[0]; fmt.Sprint(got) != fmt.Sprint(want) || reflect.TypeOf(got) != reflect.TypeOf(want) {
				t.Errorf("got %T %v, want %T %v", got, got, want, want)
			}
			if got := s.Fields()[0].Name; got != name {
				t.Errorf("field is named %q", got)
			}
		})
	}
}

func TestRefusesFilesOfNumPy(t *testing.T) {
	leak.Check(t)
	for name, want := range map[string]string{
		"little_f2": "no float16",
		"nothing":   "shape (3, 0): samples without elements",
		"scalar":    "shape (): a single number",
		"fortran":   "save np.ascontiguousarray",
		"objects":   "Python objects",
		"strings":   "strings",
		"bytes":     "strings",
		"records":   "records of several fields",
		"dates":     `element type "<M8[D]"`,
	} {
		path := filepath.Join("testdata", name+".npy")
		if _, err := npy.Open(path); !errors.Is(err, npy.ErrFormat) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want ErrFormat with %q and the path", name, err, want)
		}
	}
}

func TestArchivesOfNumPy(t *testing.T) {
	leak.Check(t)
	for _, name := range []string{"stored", "deflated"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".npz")
			for _, pick := range [][]string{nil, {"labels"}, {"labels.npy", "images"}} {
				s, err := npy.OpenNPZ(path, pick...)
				if err != nil {
					t.Fatal(err)
				}
				got := fmt.Sprint(all(t, s))
				images, labels := fmt.Sprint(count[uint8](24)), "[3 1 4 1]"
				want := map[int]string{0: "[" + images + " " + labels + "]", 1: "[" + labels + "]", 2: "[" + labels + " " + images + "]"}[len(pick)]
				if got != want {
					t.Errorf("%v: got %s, want %s", pick, got, want)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			_, err := npy.OpenNPZ(path, "nothing")
			if want := `no entry "nothing", there are ["images" "labels"]`; !errors.Is(err, npy.ErrFormat) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

func TestSeveralFiles(t *testing.T) {
	leak.Check(t)
	s, err := npy.Open("testdata/images.npy", "testdata/labels.npy")
	if err != nil {
		t.Fatal(err)
	}
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	loader, err := dataloader.New(s, dataloader.Config{BatchSize: 3, Pin: e})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for batch, err := range loader.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&text, batch.Host(0).Shape(), batch.Host(0).Data(), batch.Host(1).Data())
	}
	if err := errors.Join(loader.Close(), s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	want := "(3, 2, 3) [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17] [3 1 4]\n(1, 2, 3) [18 19 20 21 22 23] [1]\n"
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", &text, want)
	}

	if _, err := npy.Open("testdata/images.npy", "testdata/little_i4.npy"); !errors.Is(err, npy.ErrFormat) || !strings.Contains(err.Error(), "3 samples (shape (3, 2)), expected 4 as in testdata/images.npy") {
		t.Errorf("lengths differ: %v", err)
	}
	if _, err := npy.Open("testdata/images.npy", "testdata/none.npy"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("second missing: %v", err)
	}
	if _, err := npy.Open(); err == nil {
		t.Error("no paths: no error")
	}
	other := filepath.Join(t.TempDir(), "images.npy")
	data, _ := os.ReadFile("testdata/images.npy")
	if err := os.WriteFile(other, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = npy.Open("testdata/images.npy", other); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.Fields(); got[0].Name != "images" || got[1].Name != other {
		t.Errorf("names of files of one name: %q, %q", got[0].Name, got[1].Name)
	}
}

// Reads of all kinds while another goroutine closes: values or an error, never a fault.
func TestCloseWhileRead(t *testing.T) {
	leak.Check(t)
	s, err := npy.Open("testdata/big_f4.npy")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := dataloader.MakeRows(s.Fields(), 2)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	started := make(chan bool, 2)
	for k := range 2 {
		wg.Go(func() {
			for i := 0; ; i++ {
				err := s.Read(context.Background(), 2, rows.Row(k))
				if i == 0 {
					started <- true
				}
				if err != nil {
					if !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), "big_f4.npy: sample 2") {
						t.Error(err)
					}
					return
				}
				if got := dataloader.Values[float32](rows.Row(k), 0); got[0] != 4 || got[1] != 5 {
					t.Errorf("read %v", got)
				}
			}
		})
	}
	<-started
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
