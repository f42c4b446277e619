package csvfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/csvfile"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
)

func open(t testing.TB, text string, cfg csvfile.Config) (*csvfile.Set, error) {
	t.Helper()
	return csvfile.New(strings.NewReader(text), int64(len(text)), "x.csv", cfg)
}

// values returns the fields of sample i as text.
func values(t testing.TB, s *csvfile.Set, i int) (string, error) {
	t.Helper()
	rows, err := dataloader.MakeRows(s.Fields(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Read(t.Context(), i, rows.Row(0)); err != nil {
		return "", err
	}
	var b strings.Builder
	for f, field := range s.Fields() {
		switch field.Dtype {
		case tensor.Float32:
			fmt.Fprint(&b, dataloader.RowsValues[float32](rows, f))
		case tensor.Float64:
			fmt.Fprint(&b, dataloader.RowsValues[float64](rows, f))
		case tensor.Int64:
			fmt.Fprint(&b, dataloader.RowsValues[int64](rows, f))
		case tensor.Int32:
			fmt.Fprint(&b, dataloader.RowsValues[int32](rows, f))
		case tensor.Uint8:
			fmt.Fprint(&b, dataloader.RowsValues[uint8](rows, f))
		}
	}
	return b.String(), nil
}

// describe writes fields as the tests want them.
func describe(fields []dataloader.Field) string {
	var all []string
	for _, f := range fields {
		all = append(all, fmt.Sprintf("{%s %v %v}", f.Name, f.Dtype, f.Shape))
	}
	return "[" + strings.Join(all, " ") + "]"
}

func TestValues(t *testing.T) {
	leak.Check(t)
	all := []csvfile.Field{{Name: "x"}}
	for name, c := range map[string]struct {
		text   string
		cfg    csvfile.Config
		fields string
		want   []string
	}{
		"all columns":   {"a,b\n1,2.5\n-3,4e1\n", csvfile.Config{Fields: all}, "[{x float32 (2)}]", []string{"[1 2.5]", "[-3 40]"}},
		"picked":        {"a,b,c\n1,2,3\n", csvfile.Config{Fields: []csvfile.Field{{Columns: []string{"c"}}, {Name: "y", Columns: []string{"b", "a"}}}}, "[{c float32 ()} {y float32 (2)}]", []string{"[3][2 1]"}},
		"the rest":      {"a,b,c\n1,2,3\n", csvfile.Config{Fields: []csvfile.Field{{Columns: []string{"b"}}, {Name: "x"}}}, "[{b float32 ()} {x float32 (2)}]", []string{"[2][1 3]"}},
		"one remains":   {"a,b\n1,2\n", csvfile.Config{Fields: []csvfile.Field{{Columns: []string{"b"}}, {Name: "x"}}}, "[{b float32 ()} {x float32 (1)}]", []string{"[2][1]"}},
		"types":         {"a,b,c,d,e\n1,2,3,4,5\n-1.5,1e-300,-9223372036854775808,-2147483648,255\n", csvfile.Config{Fields: []csvfile.Field{{Columns: []string{"a"}}, {Columns: []string{"b"}, Dtype: tensor.Float64}, {Columns: []string{"c"}, Dtype: tensor.Int64}, {Columns: []string{"d"}, Dtype: tensor.Int32}, {Columns: []string{"e"}, Dtype: tensor.Uint8}}}, "[{a float32 ()} {b float64 ()} {c int64 ()} {d int32 ()} {e uint8 ()}]", []string{"[1][2][3][4][5]", "[-1.5][1e-300][-9223372036854775808][-2147483648][255]"}},
		"no header":     {"1,2\n3,4\n", csvfile.Config{NoHeader: true, Fields: []csvfile.Field{{Columns: []string{"1"}}}}, "[{1 float32 ()}]", []string{"[2]", "[4]"}},
		"quotes":        {"\"a \"\"x\"\"\",\"b,c\"\n\"1\",\"2\"\n", csvfile.Config{Fields: []csvfile.Field{{Columns: []string{`a "x"`}}, {Columns: []string{"b,c"}}}}, `[{a "x" float32 ()} {b,c float32 ()}]`, []string{"[1][2]"}},
		"windows, mark": {"\xef\xbb\xbfa;b\r\n1; 2 \r\n\r\n3;4", csvfile.Config{Comma: ';', Fields: []csvfile.Field{{Columns: []string{"a"}}, {Columns: []string{"b"}}}}, "[{a float32 ()} {b float32 ()}]", []string{"[1][2]", "[3][4]"}},
		"comments":      {"# made by hand\na\n1\n# more\n2\n# end\n\n", csvfile.Config{Comment: '#', Fields: all}, "[{x float32 (1)}]", []string{"[1]", "[2]"}},
		"categories":    {"pet,size\ncat,S\ndog,L\ncat,M\n", csvfile.Config{Fields: []csvfile.Field{{Columns: []string{"pet"}, Category: true}, {Columns: []string{"size"}, Category: true, Categories: []string{"S", "M", "L"}, Dtype: tensor.Int32}}}, "[{pet int64 ()} {size int32 ()}]", []string{"[0][0]", "[1][2]", "[0][1]"}},
		"empty is NaN":  {"a,b\n,1\n2, \n", csvfile.Config{EmptyIsNaN: true, Fields: all}, "[{x float32 (2)}]", []string{"[NaN 1]", "[2 NaN]"}},
		"no records":    {"a,b\n", csvfile.Config{Fields: all}, "[{x float32 (2)}]", nil},
		"several lines": {"t,a\n\"x\ny\",1\nz,2\n", csvfile.Config{Fields: []csvfile.Field{{Columns: []string{"t"}, Category: true}, {Columns: []string{"a"}}}}, "[{t int64 ()} {a float32 ()}]", []string{"[0][1]", "[1][2]"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open(t, c.text, c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if s.Len() != len(c.want) {
				t.Fatalf("%d records, want %d", s.Len(), len(c.want))
			}
			if got := describe(s.Fields()); got != c.fields {
				t.Errorf("fields %s, want %s", got, c.fields)
			}
			for _, turn := range []string{"first", "again"} { // in both directions: what an earlier record left must not show
				for k := range c.want {
					i := k
					if turn == "again" {
						i = len(c.want) - 1 - k
					}
					if got, err := values(t, s, i); got != c.want[i] || err != nil {
						t.Errorf("%s, record %d: %s, %v, want %s", turn, i, got, err, c.want[i])
					}
				}
			}
		})
	}
}

func TestCategories(t *testing.T) {
	leak.Check(t)
	cfg := csvfile.Config{Fields: []csvfile.Field{{Columns: []string{"pet"}, Category: true}, {Columns: []string{"n"}}}}
	train, err := open(t, "pet,n\ndog,1\ncat,2\neel,3\n", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if train.Categories(-1) != nil || train.Categories(2) != nil {
		t.Error("categories of fields that there are not")
	}
	if got := fmt.Sprint(train.Categories(0), train.Categories(1), train.Header()); got != "[cat dog eel] [] [pet n]" {
		t.Error(got)
	}
	if cfg.Fields[0].Categories != nil {
		t.Error("the caller's Config was changed")
	}
	cfg.Fields[0].Categories = train.Categories(0)
	test, err := open(t, "n,pet\n1,eel\n2,ant\n", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := values(t, test, 0); got != "[2][1]" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	_, err = values(t, test, 1)
	if want := `csvfile: x.csv: line 3: not a readable CSV file: column "pet": "ant" is none of the 3 categories, which are ["cat" "dog" "eel"]`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestRefuses(t *testing.T) {
	leak.Check(t)
	x := []csvfile.Field{{Name: "x"}}
	a := csvfile.Field{Columns: []string{"a"}}
	for name, c := range map[string]struct {
		text   string
		cfg    csvfile.Config
		format bool
		want   string
	}{
		"no fields":        {"a\n1\n", csvfile.Config{}, false, "Config.Fields is empty"},
		"two rests":        {"a\n1\n", csvfile.Config{Fields: []csvfile.Field{{}, {}}}, false, "Config.Fields[1].Columns is nil, as is that of field 0"},
		"no columns":       {"a\n1\n", csvfile.Config{Fields: []csvfile.Field{{Columns: []string{}}}}, false, "Config.Fields[0].Columns is empty"},
		"type":             {"a\n1\n", csvfile.Config{Fields: []csvfile.Field{{Dtype: tensor.Bool}}}, false, "Config.Fields[0].Dtype = bool"},
		"category float":   {"a\n1\n", csvfile.Config{Fields: []csvfile.Field{{Category: true, Dtype: tensor.Float32}}}, false, "Config.Fields[0].Dtype = float32"},
		"categories":       {"a\n1\n", csvfile.Config{Fields: []csvfile.Field{{Categories: []string{"x"}}}}, false, "want nil without Category"},
		"categories twice": {"a\n1\n", csvfile.Config{Fields: []csvfile.Field{{Category: true, Categories: []string{"x", "x"}}}}, false, `has "x" twice`},
		"comma":            {"a\n1\n", csvfile.Config{Fields: x, Comma: '"'}, false, `Config.Comma = '"'`},
		"comment":          {"a\n1\n", csvfile.Config{Fields: x, Comment: ','}, false, "Config.Comment = ','"},
		"empty":            {"", csvfile.Config{Fields: x}, true, "x.csv: not a readable CSV file: empty"},
		"blank":            {"\n\n\n", csvfile.Config{Fields: x}, true, "x.csv: not a readable CSV file: empty"},
		"missing column":   {"b,c\n1,2\n", csvfile.Config{Fields: []csvfile.Field{a}}, true, `x.csv: not a readable CSV file: no column "a", there are ["b" "c"]`},
		"column twice":     {"a,a\n1,2\n", csvfile.Config{Fields: []csvfile.Field{a}}, true, `several columns are named "a"`},
		"nothing remains":  {"a\n1\n", csvfile.Config{Fields: []csvfile.Field{a, {Name: "x"}}}, true, "no columns remain for Config.Fields[1]"},
		"header":           {"a\"b,c\n1,2\n", csvfile.Config{Fields: x}, true, "x.csv: not a readable CSV file: header: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, c.text, c.cfg)
			if err == nil || errors.Is(err, csvfile.ErrFormat) != c.format || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "csvfile: ") {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	if _, err := csvfile.Open(filepath.Join(t.TempDir(), "none.csv"), csvfile.Config{Fields: x}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none.csv") {
		t.Errorf("missing: %v", err)
	}
}

// Bad records are skipped and counted where the loader is told to, and say on which line they are.
func TestBadRecords(t *testing.T) {
	leak.Check(t)
	text := "a,kind,b\n" +
		"1,x,1\n" + // line 2
		"2,x\n" +
		"3,x,1,1\n" +
		"four,x,1\n" +
		"\n" +
		"5,\"y\nz\",1\n" + // lines 7 and 8
		"6,x,\n" +
		"7,x,300\n" +
		"8,q\"x,1\n" +
		"9,\"a\nb\"c,1\n" + // lines 12 and 13
		"10,x,1\n" +
		"11,\"never ends\n1\n1\n"
	want := map[int]string{
		1:  "line 3: not a readable CSV file: 2 columns, expected 3",
		2:  "line 4: not a readable CSV file: 4 columns, expected 3",
		3:  `line 5: not a readable CSV file: column "a": "four" is no float32`,
		5:  `line 9: not a readable CSV file: column "b": "" is no uint8`,
		6:  `line 10: not a readable CSV file: column "b": "300" is out of the range of uint8`,
		7:  `line 11: not a readable CSV file: at byte 4 of line 11: bare " in non-quoted-field`,
		8:  `line 12: not a readable CSV file: at byte 2 of line 13: extraneous or missing " in quoted-field`,
		10: `line 15: not a readable CSV file: at byte 3 of line 17: extraneous or missing " in quoted-field`,
	}
	path := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := csvfile.Open(path, csvfile.Config{Fields: []csvfile.Field{
		{Columns: []string{"a"}}, {Columns: []string{"kind"}, Category: true}, {Columns: []string{"b"}, Dtype: tensor.Uint8},
	}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, workers := range []int{1, 3} {
		l, err := dataloader.New(s, dataloader.Config{BatchSize: 20, Workers: workers, Pin: e, OnError: dataloader.SkipErrors})
		if err != nil {
			t.Fatal(err)
		}
		for batch, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(batch.Indices, batch.Host(0).Data(), batch.Host(1).Data()); got != "[0 4 9] [1 5 10] [0 1 0]" {
				t.Error(got)
			}
			for _, skipped := range batch.Skipped {
				if w := want[skipped.Index]; w == "" || skipped.Err.Error() != "csvfile: "+path+": "+w || !errors.Is(skipped, csvfile.ErrFormat) {
					t.Errorf("record %d: %v, want %s", skipped.Index, skipped.Err, w)
				}
			}
		}
		if got := l.Stats().Skipped; got != int64(len(want)) {
			t.Errorf("Stats.Skipped = %d, want %d", got, len(want))
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := values(t, s, 0); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), path+": line 2: ") {
		t.Errorf("after Close: %v", err)
	}
}

// A quote without its end makes one record of the rest of a file, which must not be read into memory.
func TestHugeRecord(t *testing.T) {
	leak.Check(t)
	text := append([]byte("a\n1\n\""), bytes.Repeat([]byte("1\n"), 9<<20)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := csvfile.New(bytes.NewReader(text), int64(len(text)), "x.csv", csvfile.Config{Fields: []csvfile.Field{{Name: "x"}}})
	runtime.ReadMemStats(&after)
	if want := "csvfile: x.csv: not a readable CSV file: the record after byte 4 has more than 16777216 bytes"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if got := after.HeapSys - before.HeapSys; got > 200<<20 {
		t.Errorf("the heap grew by %d bytes", got)
	}
}

func TestPassesErrorsOn(t *testing.T) {
	leak.Check(t)
	broken := errors.New("disk on fire")
	_, err := csvfile.New(failing{broken}, 100, "x.csv", csvfile.Config{Fields: []csvfile.Field{{Name: "x"}}})
	if !errors.Is(err, broken) || errors.Is(err, csvfile.ErrFormat) {
		t.Errorf("%v, want %v alone", err, broken)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func FuzzNew(f *testing.F) {
	f.Add("a,b\n1,x\n\"2\",\"y\nz\"\n", ",", false)
	f.Add("\xef\xbb\xbf1;2\r\n\r\n3;4\"", ";", true)
	f.Add("a\n\"\"\"", ",", false)
	f.Fuzz(func(t *testing.T, text, comma string, noHeader bool) {
		cfg := csvfile.Config{NoHeader: noHeader, Fields: []csvfile.Field{{Name: "x", Category: true}}}
		for _, r := range comma {
			cfg.Comma = r
			break
		}
		s, err := open(t, text, cfg)
		if err != nil {
			return
		}
		words := s.Categories(0)
		for i := range s.Len() {
			rows, err := dataloader.MakeRows(s.Fields(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Read(t.Context(), i, rows.Row(0)); err != nil {
				if !errors.Is(err, csvfile.ErrFormat) {
					t.Errorf("record %d: %v", i, err)
				}
				continue
			}
			for _, k := range dataloader.RowsValues[int64](rows, 0) {
				// A field stands there as it is, or, between quotes, with each of its own doubled.
				file := strings.ReplaceAll(text, "\r\n", "\n")
				if !strings.Contains(file, words[k]) && !strings.Contains(file, strings.ReplaceAll(words[k], `"`, `""`)) && !strings.ContainsRune(text, utf8Error) {
					t.Errorf("record %d: category %q is not in the file", i, words[k])
				}
			}
		}
	})
}

const utf8Error = '\ufffd'

func BenchmarkRead(b *testing.B) {
	for _, columns := range []int{8, 784} {
		b.Run(fmt.Sprintf("columns=%d", columns), func(b *testing.B) {
			line := strings.TrimSuffix(strings.Repeat("0.12345,", columns), ",") + "\n"
			path := filepath.Join(b.TempDir(), "x.csv")
			if err := os.WriteFile(path, []byte(strings.Repeat(line, 1000)), 0o600); err != nil {
				b.Fatal(err)
			}
			s, err := csvfile.Open(path, csvfile.Config{NoHeader: true, Fields: []csvfile.Field{{Name: "x"}}})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			rows, err := dataloader.MakeRows(s.Fields(), 1)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			i := 0
			for b.Loop() {
				if err := s.Read(b.Context(), i, rows.Row(0)); err != nil {
					b.Fatal(err)
				}
				i = (i + 617) % s.Len()
			}
		})
	}
}
