package dataloader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
)

// texts is a set of samples of the given lengths: tokens 100 * sample + place + 1, pictures of the length's number of
// lines of 1 + sample % 3 dots, and the sample's number. Samples in bad have errors.
func texts(lengths []int, pad *Padding, bad ...int) Dataset {
	fields := []Field{
		{Name: "tokens", Dtype: tensor.Int32, Shape: tensor.Shape{-1}, Pad: pad},
		{Name: "index", Dtype: tensor.Int64},
		{Name: "picture", Dtype: tensor.Int16, Shape: tensor.Shape{-1, 2, -1}, Pad: &Padding{}},
	}
	return FromFunc(len(lengths), fields, func(_ context.Context, i int, row Row) error {
		tokens, err := Ragged[int32](row, 0, lengths[i])
		if err != nil {
			return err
		}
		for k := range tokens {
			tokens[k] += int32(token(i, k))
		}
		Values[int64](row, 1)[0] = int64(i)
		picture, err := Ragged[int16](row, 2, lengths[i], 2, 1+i%3)
		for k := range picture {
			picture[k] += int16(k + 1)
		}
		if slices.Contains(bad, i) {
			return errors.New("bad")
		}
		return err
	})
}

func token(i, k int) int { return 100*i + k + 1 }

// checkTexts returns an error unless the batch is what texts and padding make of its samples.
func checkTexts(b *Batch, lengths []int, multiple, value, rows int) error {
	longest, dots := 1, 1
	for _, i := range b.Indices {
		longest, dots = max(longest, lengths[i]), max(dots, 1+i%3)
	}
	width := (longest + multiple - 1) / multiple * multiple
	tokens, picture := b.Host(0), b.Host(2)
	if !tokens.Shape().Eq(tensor.Shape{rows, width}) || !picture.Shape().Eq(tensor.Shape{rows, longest, 2, dots}) {
		return fmt.Errorf("batch of %v: shapes %v and %v", b.Indices, tokens.Shape(), picture.Shape())
	}
	values, dotted := tokens.Data().([]int32), picture.Data().([]int16)
	for row := range rows {
		i := b.Indices[row%b.Len()]
		for k := range width {
			want := value
			if k < lengths[i] {
				want = token(i, k)
			}
			if have := values[row*width+k]; int(have) != want {
				return fmt.Errorf("sample %d has token %d at %d, want %d", i, have, k, want)
			}
		}
		for y := range longest {
			for side := range 2 {
				for x := range dots {
					want := 0
					if y < lengths[i] && x < 1+i%3 {
						want = (y*2+side)*(1+i%3) + x + 1
					}
					if have := dotted[((row*longest+y)*2+side)*dots+x]; int(have) != want {
						return fmt.Errorf("sample %d has dot %d at %d, %d, %d, want %d", i, have, y, side, x, want)
					}
				}
			}
		}
	}
	return nil
}

func TestRaggedBatchesArePadded(t *testing.T) {
	e := newEngine(t)
	rapid.Check(t, func(r *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 25).Draw(r, "lengths")
		multiple, value := rapid.IntRange(0, 8).Draw(r, "multiple"), rapid.SampledFrom([]int{0, -7}).Draw(r, "value")
		pad := &Padding{Multiple: multiple, Value: int32(value)}
		if value == 0 {
			pad.Value = nil
		}
		bad := rapid.SliceOfN(rapid.IntRange(0, len(lengths)), 0, 3).Draw(r, "bad")
		cfg := Config{
			BatchSize: rapid.IntRange(1, 8).Draw(r, "batch"), Workers: rapid.IntRange(1, 4).Draw(r, "workers"), Shuffle: rapid.Bool().Draw(r, "shuffle"),
			LastBatch: rapid.SampledFrom([]LastBatch{KeepLast, PadLast}).Draw(r, "last"), OnError: SkipErrors, Pin: e,
		}
		l, err := New(texts(lengths, pad, bad...), cfg)
		if err != nil {
			r.Fatal(err)
		}
		seen := 0
		for range 2 {
			for b, err := range l.Batches(context.Background()) {
				if err != nil {
					r.Fatal(err)
				}
				rows := b.Len()
				if cfg.LastBatch == PadLast {
					rows = cfg.BatchSize
				}
				if err := checkTexts(b, lengths, max(multiple, 1), value, rows); err != nil {
					r.Fatal(err)
				}
				seen += b.Len()
			}
		}
		left := len(slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(bad))), func(i int) bool { return i == len(lengths) }))
		if seen != 2*(len(lengths)-left) {
			r.Fatalf("%d samples in two epochs, of %d with %d bad ones", seen, len(lengths), left)
		}
		if err := l.Close(); err != nil {
			r.Fatal(err)
		}
		if s := l.Stats(); s.PinnedBytes != 0 {
			r.Fatalf("after Close: %+v", s)
		}
	})
}

// Through sets of sets, and whole batches a call.
func TestRaggedSetsOfSets(t *testing.T) {
	e := newEngine(t)
	lengths := []int{3, 0, 7, 2, 9, 1, 4, 4, 12, 5}
	base := texts(lengths, &Padding{Multiple: 4})
	batched := batchedFunc{base, func(ctx context.Context, indices []int, rows Rows) error {
		for k, i := range indices {
			if err := base.Read(ctx, i, rows.Row(k)); err != nil {
				return err
			}
		}
		return nil
	}}
	for _, own := range []Dataset{base, batched} {
		copied := must[Dataset](t)(Map(own, own.Fields(), func(_ context.Context, i int, in, out Row) error {
			copy(out.Bytes(1), in.Bytes(1))
			a, err := Ragged[int32](out, 0, in.Shape(0)...)
			copy(a, Values[int32](in, 0))
			b, err2 := Ragged[int16](out, 2, in.Shape(2)...)
			copy(b, Values[int16](in, 2))
			return errors.Join(err, err2)
		}))
		beside := must[Dataset](t)(Rename(own, "a", "b", "c"))
		annotated := must[Dataset](t)(WithMask(must[Dataset](t)(WithLengths(must[Dataset](t)(WithLengths(own, "tokens")), "picture")), "tokens", tensor.Float32))
		for j, set := range []Dataset{
			must[Dataset](t)(Subset(own, numbers(10))), must[Dataset](t)(Concat(own)), copied, annotated,
			must[Dataset](t)(Zip(own, beside)), must[Dataset](t)(MapInPlace(own, func(context.Context, int, Row) error { return nil })),
		} {
			l := newLoader(t, set, Config{BatchSize: 4, Shuffle: true, Seed: uint64(j), Workers: 2, Pin: e}) // seeds differ: memory used before must not be right
			for b, err := range l.Batches(t.Context()) {
				if err == nil {
					err = checkTexts(b, lengths, 4, 0, b.Len())
				}
				if err != nil {
					t.Fatalf("%v: %v", set, err)
				}
				if set != annotated {
					continue
				}
				width := b.Host(0).Shape()[1]
				if !b.Host(5).Shape().Eq(b.Host(0).Shape()) {
					t.Fatalf("mask %v of %v", b.Host(5).Shape(), b.Host(0).Shape())
				}
				for row, i := range b.Indices {
					for k := range width {
						want := float32(0)
						if k < lengths[i] {
							want = 1
						}
						if have := b.Host(5).Data().([]float32)[row*width+k]; have != want {
							t.Errorf("mask of sample %d has %v at %d", i, have, k)
						}
					}
					if have := b.Host(3).Data().([]int64)[row]; have != int64(lengths[i]) {
						t.Errorf("length of sample %d: %d", i, have)
					}
					if have, want := b.Host(4).Data().([]int64)[3*row:3*row+3], []int64{int64(lengths[i]), 2, int64(1 + i%3)}; !slices.Equal(have, want) {
						t.Errorf("shape of sample %d: %v, want %v", i, have, want)
					}
				}
			}
		}
	}
}

// A sample for which Ragged is not called has no elements, whatever was in its row before.
func TestRaggedNotCalled(t *testing.T) {
	e := newEngine(t)
	fields := []Field{{Name: "tokens", Dtype: tensor.Int32, Shape: tensor.Shape{-1}, Pad: &Padding{}}}
	set := FromFunc(40, fields, func(_ context.Context, i int, row Row) error {
		if have := Values[int32](row, 0); len(have) != 0 || row.Shape(0)[0] != 0 {
			return fmt.Errorf("the row of sample %d has %v, shape %v", i, have, row.Shape(0))
		}
		if i%3 == 0 {
			return nil
		}
		own, err := Ragged[int32](row, 0, i)
		own[0] = int32(i)
		return err
	})
	mapped := must[Dataset](t)(Map(set, fields, func(_ context.Context, i int, in, out Row) error {
		own, err := Ragged[int32](out, 0, in.Shape(0)...)
		copy(own, Values[int32](in, 0))
		return err
	}))
	for _, ds := range []Dataset{set, mapped} {
		l := newLoader(t, ds, Config{BatchSize: 1, Workers: 1, Prefetch: 1, Pin: e})
		for range 2 {
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				i, want := b.Indices[0], int32(0)
				if i%3 != 0 {
					want = int32(i)
				}
				if values := b.Host(0).Data().([]int32); len(values) != max(int(want), 1) || values[0] != want {
					t.Errorf("sample %d is %v", i, values)
				}
			}
		}
	}
}

// A kept batch is not the Loader's, nor is its memory of ragged fields.
func TestRaggedKept(t *testing.T) {
	l := newLoader(t, texts([]int{3, 5}, &Padding{}), Config{BatchSize: 2, SingleEpoch: true})
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		before := l.Stats().PinnedBytes
		b.Keep()
		if after := l.Stats().PinnedBytes; before < 2*5*4+2*5*2*2*2 || after != 0 {
			t.Errorf("%d bytes pinned before Keep, %d after", before, after)
		}
		if err := b.Release(); err != nil {
			t.Error(err)
		}
		if again := l.Stats().PinnedBytes; again != before {
			t.Errorf("%d bytes pinned before Keep, %d after Release", before, again)
		}
	}
}

// Without padding samples of a batch must agree, and who does not is named.
func TestRaggedWithoutPadding(t *testing.T) {
	e := newEngine(t)
	l := newLoader(t, texts([]int{3, 3, 4, 4, 4, 5, 0, 0}, nil), Config{BatchSize: 2, Pin: e})
	var got []string
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, fmt.Sprint(b.Host(0).Shape()))
	}
	want := []string{
		"(2, 3)", "(2, 4)",
		`dataloader: epoch 0, batch 2, sample 5: field 0, "tokens" int32 (-1): shape (5): want (4), which sample 4 of the batch has: samples of different shapes need Field.Pad`,
		`dataloader: epoch 0, batch 3, sample 6: field 0, "tokens" int32 (-1): shape (0): want every dimension > 0 without Field.Pad`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestRaggedToDevice(t *testing.T) {
	e := newEngine(t)
	dev, err := asynccopy.OpenSoft()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	stream := must[*asynccopy.Stream](t)(dev.NewStream())
	lengths := []int{3, 0, 70, 2, 900, 1, 4, 4, 12, 5, 3}
	l := newLoader(t, texts(lengths, &Padding{Value: int32(9)}), Config{BatchSize: 2, Stream: stream, Workers: 2, Pin: e})
	for range 3 {
		var kept []*Batch
		for b, err := range l.Batches(t.Context()) {
			if err == nil {
				err = checkTexts(b, lengths, 1, 9, b.Len())
			}
			if err != nil {
				t.Fatal(err)
			}
			if b.Index%2 == 0 {
				b.Keep()
				kept = append(kept, b)
			}
			for field := range 3 {
				download := must[*asynccopy.Download](t)(stream.ToHost(b.Device(field), true))
				host, err := download.Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !host.Shape().Eq(b.Host(field).Shape()) || fmt.Sprint(host.Data()) != fmt.Sprint(b.Host(field).Data()) {
					t.Errorf("field %d on the device: %v, want %v", field, host, b.Host(field))
				}
				pintensor.Release(host)
			}
		}
		for _, b := range kept {
			if err := errors.Join(checkTexts(b, lengths, 1, 9, b.Len()), b.Release()); err != nil {
				t.Error(err)
			}
		}
	}
}

// Memory is not filled with another batch while its copy waits: here copies are made only when somebody needs them.
func TestRaggedMemoryWaitsForItsCopy(t *testing.T) {
	e := newEngine(t)
	stream := must[*asynccopy.Stream](t)(openDriver(t, soft.New(soft.Config{Late: true})).NewStream())
	lengths := slices.Repeat([]int{4}, 30)
	l := newLoader(t, texts(lengths, &Padding{}), Config{BatchSize: 2, Stream: stream, Workers: 1, Prefetch: 1, Pin: e})
	var downloads []*asynccopy.Download
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		downloads = append(downloads, must[*asynccopy.Download](t)(stream.ToHost(b.Device(0), true)))
	}
	for b, download := range downloads {
		host, err := download.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for k, have := range host.Data().([]int32) {
			if want := token(2*b+k/4, k%4); int(have) != want {
				t.Errorf("batch %d has token %d at %d, want %d", b, have, k, want)
			}
		}
		pintensor.Release(host)
	}
}

// One huge sample does not hold memory for ever: neither the pinned batch nor the rows that samples are read into.
func TestRaggedMemoryShrinks(t *testing.T) {
	e := newEngine(t)
	const huge, small = 1 << 20, 10
	lengths := slices.Repeat([]int{small}, 1000)
	lengths[3] = huge
	fields := []Field{{Name: "tokens", Dtype: tensor.Int32, Shape: tensor.Shape{-1}, Pad: &Padding{}}}
	ds := FromFunc(len(lengths), fields, func(_ context.Context, i int, row Row) error {
		_, err := Ragged[int32](row, 0, lengths[i])
		return err
	})
	l := newLoader(t, ds, Config{BatchSize: 2, Workers: 1, Prefetch: 1, SingleEpoch: true, Pin: e})
	most, last := int64(0), int64(0)
	for _, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		last = l.Stats().PinnedBytes
		most = max(most, last)
	}
	if most < 2*4*huge || last > 1<<19 {
		t.Errorf("%d bytes pinned at most, %d in the end", most, last)
	}
	held := 0
	for _, s := range l.pool {
		for _, row := range s.ragged[0] {
			held += cap(row)
		}
	}
	if len(l.pool) == 0 || held > 10*4*small*4 {
		t.Errorf("%d slots hold rows of %d bytes", len(l.pool), held)
	}
}

func TestRaggedRefuses(t *testing.T) {
	leak.Check(t)
	field := func(f Field) error { _, err := MakeRows([]Field{f}, 1); return err }
	set := texts([]int{1}, &Padding{})
	row := must[Rows](t)(MakeRows(set.Fields(), 1)).Row(0)
	ragged := func(field int, shape ...int) error { _, err := Ragged[int32](row, field, shape...); return err }
	picture := func(shape ...int) error { _, err := Ragged[int16](row, 2, shape...); return err }
	_, number := Ragged[int64](row, 1, 1)
	one := func(_ any, err error) error { return err }
	for want, err := range map[string]error{
		"its Pad is set: want nil, as its Shape (3) has no":                  field(Field{Dtype: tensor.Int32, Shape: tensor.Shape{3}, Pad: &Padding{}}),
		"its Pad.Multiple = -1: want 0 to":                                   field(Field{Dtype: tensor.Int32, Shape: tensor.Shape{-1}, Pad: &Padding{Multiple: -1}}),
		fmt.Sprintf("its Pad.Multiple = %d: want 0 to", maxInt):              field(Field{Dtype: tensor.Int32, Shape: tensor.Shape{-1}, Pad: &Padding{Multiple: maxInt}}),
		"its Pad.Value is a int: want the field's type, int32":               field(Field{Dtype: tensor.Int32, Shape: tensor.Shape{-1}, Pad: &Padding{Value: 3}}),
		`field 0, "tokens" int32 (-1): shape (2, 3): want 1 dimensions`:      ragged(0, 2, 3),
		`field 0, "tokens" int32 (-1): shape (-1): want the field's, and`:    ragged(0, -1),
		`shape (1099511627776): want at most 1099511627776 bytes`:            ragged(0, 1<<40),
		`field 2, "picture" int16 (-1, 2, -1): shape (1, 3, 1): want the fi`: picture(1, 3, 1),
		`field 1, "index" int64 (): shape (1): want no call of Ragged`:       number,
		`WithLengths: field = "index", "index" int64 (): want one with`:      one(WithLengths(set, "index")),
		`WithLengths: field = "nothing": want one of [`:                      one(WithLengths(set, "nothing")),
		`WithMask: dt = string: want Bool or a number type`:                  one(WithMask(set, "tokens", tensor.String)),
		`WithMask: set is nil`:                                               one(WithMask(nil, "tokens", tensor.Bool)),
		`both named "tokens.mask"`:                                           one(WithMask(must[Dataset](t)(WithMask(set, "tokens", tensor.Bool)), "tokens", tensor.Bool)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for want, call := range map[string]func(){
		"Ragged[int16]: field 0 is":       func() { Ragged[int16](row, 0, 1) },
		"Ragged(3): want a field from 0":  func() { Ragged[int16](row, 3, 1) },
		"Rows.Bytes(0): the shape of fie": func() { Rows{row.b, 0, 1}.Bytes(0) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("panic %v, want %q", got, want)
				}
			}()
			call()
		}()
	}
}

// BenchmarkRagged pads 64 texts of 50 to 150 tokens to the longest; an operation is a batch.
func BenchmarkRagged(b *testing.B) {
	fields := []Field{{Name: "tokens", Dtype: tensor.Int32, Shape: tensor.Shape{-1}, Pad: &Padding{}}}
	tokens := make([]int32, 150)
	set := FromFunc(64*100, fields, func(_ context.Context, i int, row Row) error {
		own, err := Ragged[int32](row, 0, 50+i*7%101)
		copy(own, tokens)
		return err
	})
	benchLoader(b, set, Config{BatchSize: 64, Workers: 2}, 64*100*4)
}
