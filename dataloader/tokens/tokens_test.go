package tokens_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/tokens"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
)

// encode writes the numbers as a file of tokens of size bytes.
func encode(size int, numbers ...uint32) []byte {
	var b []byte
	for _, x := range numbers {
		if size == 2 {
			b = binary.LittleEndian.AppendUint16(b, uint16(x))
		} else {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
	}
	return b
}

func upTo(n int) []uint32 {
	s := make([]uint32, n)
	for i := range s {
		s[i] = uint32(i)
	}
	return s
}

func open(t testing.TB, data []byte, cfg tokens.Config) *tokens.Set {
	t.Helper()
	path := filepath.Join(t.TempDir(), "train.bin")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := tokens.Open(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// windows returns the inputs and targets of an epoch as text, in order.
func windows(t testing.TB, s *tokens.Set, cfg dataloader.Config) []string {
	t.Helper()
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	cfg.Pin = e
	l, err := dataloader.New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var all []string
	for batch, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for k := range batch.Len() {
			x, err := batch.Host(tokens.Input).Slice(tensor.S(k))
			if err != nil {
				t.Fatal(err)
			}
			y, err := batch.Host(tokens.Target).Slice(tensor.S(k))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprint(x.Data(), y.Data()))
		}
	}
	return all
}

func TestSequential(t *testing.T) {
	leak.Check(t)
	for _, size := range []int{2, 4} {
		for _, dt := range []tensor.Dtype{{}, tensor.Int64, tensor.Int32} {
			for name, c := range map[string]struct {
				cfg  tokens.Config
				n    int
				want []string
			}{
				"side by side": {tokens.Config{Window: 3}, 8, []string{"[0 1 2] [1 2 3]", "[3 4 5] [4 5 6]"}},
				"just enough":  {tokens.Config{Window: 3}, 7, []string{"[0 1 2] [1 2 3]", "[3 4 5] [4 5 6]"}},
				"one short":    {tokens.Config{Window: 3}, 6, []string{"[0 1 2] [1 2 3]"}},
				"overlapping":  {tokens.Config{Window: 3, Stride: 1}, 6, []string{"[0 1 2] [1 2 3]", "[1 2 3] [2 3 4]", "[2 3 4] [3 4 5]"}},
				"apart":        {tokens.Config{Window: 2, Stride: 4}, 9, []string{"[0 1] [1 2]", "[4 5] [5 6]"}},
				"header":       {tokens.Config{Window: 3, Skip: 4}, 8, []string{"[0 1 2] [1 2 3]", "[3 4 5] [4 5 6]"}},
				"vocabulary":   {tokens.Config{Window: 7, Vocab: 8}, 8, []string{"[0 1 2 3 4 5 6] [1 2 3 4 5 6 7]"}},
			} {
				t.Run(fmt.Sprintf("%s/%d/%v", name, size, dt.Type), func(t *testing.T) {
					c.cfg.TokenBytes, c.cfg.Dtype = size, dt
					data := append(make([]byte, c.cfg.Skip), encode(size, upTo(c.n)...)...)
					s := open(t, data, c.cfg)
					if got := windows(t, s, dataloader.Config{BatchSize: 2}); !slices.Equal(got, c.want) || s.Len() != len(c.want) {
						t.Errorf("got %d: %q, want %q", s.Len(), got, c.want)
					}
					if dt.Type != nil && s.Fields()[tokens.Target].Dtype != dt {
						t.Errorf("fields %v", s.Fields())
					}
					if s.Tokens() != int64(c.n) {
						t.Errorf("Tokens() = %d", s.Tokens())
					}
				})
			}
		}
	}
}

// Random windows follow from seed, epoch and number, and cover all places alike.
func TestRandom(t *testing.T) {
	leak.Check(t)
	const places, samples = 16, 16_000
	s := open(t, encode(2, upTo(places+4)...), tokens.Config{Window: 4, Samples: samples})
	first := windows(t, s, dataloader.Config{BatchSize: 64, Seed: 1, Workers: 1})
	if again := windows(t, s, dataloader.Config{BatchSize: 7, Seed: 1, Workers: 3}); !slices.Equal(first, again) {
		t.Error("other workers and batches, other windows")
	}
	if other := windows(t, s, dataloader.Config{BatchSize: 64, Seed: 2}); slices.Equal(first, other) {
		t.Error("another seed, the same windows")
	}
	seen := make(map[string]int)
	for _, w := range first {
		seen[w]++
	}
	for s := range places {
		w := fmt.Sprint([]int{s, s + 1, s + 2, s + 3}, []int{s + 1, s + 2, s + 3, s + 4})
		if got := seen[w]; math.Abs(float64(got)-samples/places) > 5*math.Sqrt(samples/places) {
			t.Errorf("window %s: %d times, want about %d", w, got, samples/places)
		}
		delete(seen, w)
	}
	if len(seen) > 0 {
		t.Errorf("windows that are none: %v", seen)
	}
}

func TestRefuses(t *testing.T) {
	leak.Check(t)
	eight := encode(2, upTo(8)...)
	for name, c := range map[string]struct {
		data   []byte
		cfg    tokens.Config
		format bool
		want   string
	}{
		"no window":        {eight, tokens.Config{}, false, "Config.Window = 0"},
		"negative samples": {eight, tokens.Config{Window: 2, Samples: -1}, false, "Config.Samples = -1"},
		"negative stride":  {eight, tokens.Config{Window: 2, Stride: -1}, false, "Config.Stride = -1"},
		"stride, samples":  {eight, tokens.Config{Window: 2, Stride: 1, Samples: 1}, false, "Config.Stride = 1: want 0 with Samples"},
		"token size":       {eight, tokens.Config{Window: 2, TokenBytes: 3}, false, "Config.TokenBytes = 3"},
		"negative skip":    {eight, tokens.Config{Window: 2, Skip: -2}, false, "Config.Skip = -2"},
		"negative vocab":   {eight, tokens.Config{Window: 2, Vocab: -2}, false, "Config.Vocab = -2"},
		"float32":          {eight, tokens.Config{Window: 2, Dtype: tensor.Float32}, false, "Config.Dtype = float32"},
		"empty":            {nil, tokens.Config{Window: 2}, true, "x.bin: not a readable file of tokens: 0 tokens, expected at least 3"},
		"half a token":     {eight[:15], tokens.Config{Window: 2}, true, "15 bytes of tokens, expected a multiple of 2"},
		"short":            {eight, tokens.Config{Window: 8}, true, "8 tokens, expected at least 9"},
		"huge window":      {eight, tokens.Config{Window: math.MaxInt}, true, "8 tokens, expected at least"},
		"header too long":  {eight, tokens.Config{Window: 1, Skip: 17}, true, "16 bytes, expected at least the 17"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tokens.New(bytes.NewReader(c.data), int64(len(c.data)), "x.bin", c.cfg)
			if err == nil || errors.Is(err, tokens.ErrFormat) != c.format || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "tokens: ") {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	if _, err := tokens.Open(filepath.Join(t.TempDir(), "none.bin"), tokens.Config{Window: 2}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none.bin") {
		t.Errorf("missing: %v", err)
	}
}

// A token that a model does not have is an error that says where it is, and skipped and counted where the
// loader is told to.
func TestTokensTooLarge(t *testing.T) {
	leak.Check(t)
	numbers := upTo(12)
	numbers[5] = 1 << 31
	for name, c := range map[string]struct {
		cfg  tokens.Config
		want string
	}{
		"vocabulary": {tokens.Config{Window: 1, TokenBytes: 4, Vocab: 50257}, "token 5: not a readable file of tokens: 2147483648, expected less than 50257"},
		"int32":      {tokens.Config{Window: 1, TokenBytes: 4, Dtype: tensor.Int32}, "token 5: not a readable file of tokens: 2147483648, expected less than 2147483648"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := pintensor.NewEngine()
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			s := open(t, encode(4, numbers...), c.cfg)
			l, err := dataloader.New(s, dataloader.Config{BatchSize: 20, Pin: e, OnError: dataloader.SkipErrors})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for batch, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(batch.Indices); got != "[0 1 2 3 6 7 8 9 10]" {
					t.Errorf("samples %s", got)
				}
				for _, s := range batch.Skipped {
					if !errors.Is(s, tokens.ErrFormat) || !strings.Contains(s.Error(), c.want) || !strings.Contains(s.Error(), "train.bin") {
						t.Errorf("skipped: %v", s)
					}
				}
			}
			if got := l.Stats().Skipped; got != 2 {
				t.Errorf("Stats.Skipped = %d", got)
			}
		})
	}
	s := open(t, encode(4, numbers...), tokens.Config{Window: 11, TokenBytes: 4})
	if got := windows(t, s, dataloader.Config{BatchSize: 1})[0]; !strings.Contains(got, " 2147483648 ") {
		t.Errorf("int64: %s", got)
	}
}

func TestTruncatedWhileOpenAndClosed(t *testing.T) {
	leak.Check(t)
	path := filepath.Join(t.TempDir(), "train.bin")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := tokens.Open(path, tokens.Config{Window: 1024})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows, err := dataloader.MakeRows(s.Fields(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<16); err == nil { // else the system keeps files that are open
		if err := s.Read(t.Context(), s.Len()-1, rows.Row(0)); err == nil || !strings.Contains(err.Error(), "train.bin: token 522240: the file was truncated") {
			t.Errorf("window that is gone: %v", err)
		}
		if err := s.Read(t.Context(), 0, rows.Row(0)); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := s.Read(t.Context(), 0, rows.Row(0)); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), "train.bin") {
		t.Errorf("after Close: %v", err)
	}
}

func FuzzNew(f *testing.F) {
	f.Add(encode(2, upTo(9)...), 3, 0, 0, 2, int64(0), 0)
	f.Add(encode(4, upTo(9)...), 2, 1, 0, 4, int64(4), 7)
	f.Add(encode(4, upTo(5)...), 2, 0, 5, 4, int64(0), 0)
	f.Fuzz(func(t *testing.T, data []byte, window, stride, samples, size int, skip int64, vocab int) {
		s, err := tokens.New(bytes.NewReader(data), int64(len(data)), "fuzz", tokens.Config{
			Window: window, Stride: stride, Samples: samples, TokenBytes: size, Skip: skip, Vocab: vocab,
		})
		if err != nil {
			return
		}
		rows, err := dataloader.MakeRows(s.Fields(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{0, s.Len() - 1} {
			err := s.Read(t.Context(), i, rows.Row(0))
			if err != nil && !errors.Is(err, tokens.ErrFormat) {
				t.Fatalf("sample %d: %v", i, err)
			}
			x, y := dataloader.Values[int64](rows.Row(0), tokens.Input), dataloader.Values[int64](rows.Row(0), tokens.Target)
			if err == nil && (!slices.Equal(x[1:], y[:window-1]) || vocab > 0 && (slices.Max(x) >= int64(vocab) || y[window-1] >= int64(vocab))) {
				t.Fatalf("sample %d: %v, %v", i, x, y)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{2, 4} {
		for _, samples := range []int{0, 1 << 20} {
			for _, window := range []int{256, 1024} {
				b.Run(fmt.Sprintf("token=%dB/window=%d/random=%v", size, window, samples > 0), func(b *testing.B) {
					s := open(b, make([]byte, 64<<20), tokens.Config{Window: window, TokenBytes: size, Samples: samples, Vocab: 50257})
					rows, err := dataloader.MakeRows(s.Fields(), 1)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportAllocs()
					b.SetBytes(int64(2 * 8 * window))
					i := 0
					for b.Loop() {
						if err := s.Read(b.Context(), i, rows.Row(0)); err != nil {
							b.Fatal(err)
						}
						i = (i + 7919) % s.Len()
					}
				})
			}
		}
	}
}
