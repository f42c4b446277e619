package dataloader

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/leak"
)

// claims is a set that says that it writes whole rows.
type claims struct{ Dataset }

func (claims) Overwrites() bool { return true }

// claimsBatches says so, and has a ReadBatch of its own.
type claimsBatches struct {
	claims
	readBatch func(ctx context.Context, indices []int, rows Rows) error
}

func (c claimsBatches) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	return c.readBatch(ctx, indices, rows)
}

var proofFields = []Field{
	{Name: "image", Dtype: tensor.Uint8, Shape: tensor.Shape{5, 7}},
	{Name: "one-hot", Dtype: tensor.Float32, Shape: tensor.Shape{10}},
	{Name: "weight", Dtype: tensor.Float64},
	{Name: "label", Dtype: tensor.Int64},
	{Name: "wave", Dtype: tensor.Complex128, Shape: tensor.Shape{2}},
}

// A set that says that it writes whole rows and doesn't is an error, the first time it does not, that no policy
// skips.
func TestOverwritesIsProven(t *testing.T) {
	e := newEngine(t)
	fill := func(row Row, but ...string) {
		for f, field := range proofFields {
			if !slices.Contains(but, field.Name) {
				for k := range row.Bytes(f) {
					row.Bytes(f)[k] = byte(k)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		read  func(row Row)
		batch func(row Row) // of ReadBatch; nil: there is none
		want  string        // in the error
	}{
		"all of it":       {read: func(row Row) { fill(row) }},
		"all, in batches": {read: func(row Row) { fill(row) }, batch: func(row Row) { fill(row) }},
		"one hot": {read: func(row Row) {
			fill(row, "one-hot")
			Values[float32](row, 1)[0] = 1
		}, want: `element 1 of field "one-hot"`},
		"no scalar":        {read: func(row Row) { fill(row, "label") }, want: `element 0 of field "label"`},
		"no float64":       {read: func(row Row) { fill(row, "weight") }, want: `element 0 of field "weight"`},
		"half an image":    {read: func(row Row) { fill(row, "image"); clear(row.Bytes(0)[:14]) }, want: `element 14 of field "image"`},
		"half of a wave":   {read: func(row Row) { fill(row, "wave"); Values[complex128](row, 4)[0] = 1i }, want: `element 1 of field "wave"`},
		"not in ReadBatch": {read: func(row Row) { fill(row) }, batch: func(row Row) { fill(row, "label") }, want: `element 0 of field "label"`},
	} {
		for _, policy := range []ErrorPolicy{StopOnError, SkipErrors} {
			set := Dataset(claims{FromFunc(30, proofFields, func(_ context.Context, _ int, row Row) error { c.read(row); return nil })})
			if c.batch != nil {
				set = claimsBatches{set.(claims), func(_ context.Context, indices []int, rows Rows) error {
					for k := range indices {
						c.batch(rows.Row(k))
					}
					return nil
				}}
			}
			l := newLoader(t, set, Config{BatchSize: 2, Workers: 2, OnError: policy, SingleEpoch: true, Pin: e})
			errs, batches := []error(nil), 0
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					errs = append(errs, err)
				} else if batches++; len(b.Skipped) > 0 {
					t.Errorf("%s, %v: skipped: %v", name, policy, b.Skipped)
				}
			}
			if c.want == "" {
				if len(errs) > 0 || batches != 15 || l.proof.of(c.batch != nil) != nil {
					t.Errorf("%s, %v: %d batches, %v", name, policy, batches, errs)
				}
				continue
			}
			if batches != 0 || len(errs) != 15 {
				t.Errorf("%s, %v: %d batches and %d errors: want an error each", name, policy, batches, len(errs))
			}
			var sample *SampleError
			for _, err := range errs {
				if !errors.As(err, &sample) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "Overwrites() is true") {
					t.Errorf("%s, %v: %v, want %q", name, policy, err, c.want)
					break
				}
			}
		}
	}
}

// Bools are true or false in any case.
func TestPlantedBools(t *testing.T) {
	leak.Check(t)
	rows, err := MakeRows([]Field{{Dtype: tensor.Bool, Shape: tensor.Shape{40}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows.b.plant(0, false)
	was := slices.Clone(rows.Bytes(0))
	rows.b.plant(0, true)
	for i, x := range rows.Bytes(0) {
		if x > 1 || was[i] > 1 || x == was[i] {
			t.Errorf("bool %d is %d, and %d inverted", i, was[i], x)
		}
	}
}

// partly is a set with one field, of which it writes the elements that parts says, with what depends on the sample.
func partly(dtype tensor.Dtype, n int, writes func(i, k int) bool) Dataset {
	return FromFunc(40, []Field{{Name: "x", Dtype: dtype, Shape: tensor.Shape{n}}}, func(_ context.Context, i int, row Row) error {
		size := int(dtype.Size())
		for k := range n {
			for j := range size {
				if writes(i, k) {
					row.Bytes(0)[k*size+j] = byte(i+k+j) & 1
				}
			}
		}
		return nil
	})
}

type rgb struct{ R, G, B uint16 }

// holed has a byte that no assignment need write.
type holed struct {
	A uint8
	B uint16
}

// Whatever elements are left unwritten, however few and small: it is noticed, in sets within others too, also where those
// change what is in the rows.
func TestAnyUnwrittenElementIsNoticed(t *testing.T) {
	e := newEngine(t)
	whole := func(i, k int) bool { return true }
	dtypes := []tensor.Dtype{tensor.Bool, tensor.Uint8, tensor.Int16, tensor.Float32, tensor.Int64, tensor.Complex128,
		{Type: reflect.TypeFor[rgb]()}, {Type: reflect.TypeFor[[3]float32]()}, {Type: reflect.TypeFor[[5]uint8]()}, {Type: reflect.TypeFor[[7]uint32]()}}
	over := func(ds Dataset) Dataset { return must[Dataset](t)(Overwriting(ds)) }
	flip := func(_ context.Context, _ int, row Row) error { slices.Reverse(row.Bytes(0)); return nil }
	insides := map[string]func(ds Dataset) Dataset{
		"":           over,
		"batches":    func(ds Dataset) Dataset { return over(batchHalves{ds}) },
		"MapInPlace": func(ds Dataset) Dataset { return must[Dataset](t)(MapInPlace(over(ds), flip)) },
		"Map": func(ds Dataset) Dataset {
			return must[Dataset](t)(Map(over(ds), ds.Fields(), func(_ context.Context, _ int, in, out Row) error { copy(out.Bytes(0), in.Bytes(0)); return nil }))
		},
		"Cache": func(ds Dataset) Dataset { return must[*Cached](t)(Cache(over(ds), 1<<20)) },
		"second of two": func(ds Dataset) Dataset {
			return must[Dataset](t)(Concat(over(partly(ds.Fields()[0].Dtype, 8, whole)), over(ds)))
		},
		"Interleave": func(ds Dataset) Dataset {
			return must[Dataset](t)(Interleave(AllExhausted, nil, over(partly(ds.Fields()[0].Dtype, 8, whole)), over(ds)))
		},
		"Zip": func(ds Dataset) Dataset {
			return must[Dataset](t)(Zip(must[Dataset](t)(Rename(over(partly(tensor.Float32, 3, whole)), "y")), over(batchHalves{ds})))
		},
	}
	for inside, make := range insides {
		for _, dtype := range dtypes {
			for missing, writes := range map[string]func(i, k int) bool{
				"nothing":       whole,
				"the last":      func(i, k int) bool { return k < 7 },
				"every fourth":  func(i, k int) bool { return k%4 != 3 },
				"all but one":   func(i, k int) bool { return k == i%8 },
				"all":           func(i, k int) bool { return false },
				"the first two": func(i, k int) bool { return k > 1 },
			} {
				set := make(partly(dtype, 8, writes))
				l := newLoader(t, set, Config{BatchSize: 4, Workers: 1, OnError: SkipErrors, Pin: e})
				for range 2 { // what was refused must not come from a cache later
					good, bad, last := 0, 0, error(nil)
					for _, err := range l.Batches(t.Context()) {
						if err == nil {
							good++
							continue
						}
						if bad++; !errors.Is(err, errUnwritten) {
							t.Fatalf("%s, %v, %s: %v", inside, dtype, missing, err)
						}
						last = err
					}
					if missing == "nothing" && bad > 0 || missing != "nothing" && bad == 0 || missing != "nothing" && inside == "" && good > 0 {
						t.Errorf("%s, %v, not written: %s: %d good batches and %d errors: %v", inside, dtype, missing, good, bad, last)
					}
				}
			}
		}
	}
}

// What a field is not written of must not be what its elements don't consist of, and what is there by chance is no matter.
func TestWhatIsWrittenIsNotRefused(t *testing.T) {
	likePattern := make([]uint32, 40)
	for i := range likePattern {
		likePattern[i] = binary.NativeEndian.Uint32(pattern[i%4*4:])
	}
	r := rand.New(rand.NewPCG(1, 2))
	for name, set := range map[string]Dataset{
		"the pattern": batchHalves{claims{FromFunc(40, []Field{{Dtype: tensor.Uint32, Shape: tensor.Shape{4}}}, func(_ context.Context, i int, row Row) error {
			copy(Values[uint32](row, 0), likePattern)
			return nil
		})}},
		"padding": claims{FromFunc(40, []Field{{Dtype: tensor.Dtype{Type: reflect.TypeFor[holed]()}, Shape: tensor.Shape{4}}}, func(_ context.Context, i int, row Row) error {
			for k := range 4 {
				Values[holed](row, 0)[k].A, Values[holed](row, 0)[k].B = uint8(i), uint16(k)
			}
			return nil
		})},
		"noise": claims{FromFunc(400, []Field{{Dtype: tensor.Uint8, Shape: tensor.Shape{100_000}}, {Dtype: tensor.Bool, Shape: tensor.Shape{100}}}, func(_ context.Context, i int, row Row) error {
			for k := range row.Bytes(0) {
				row.Bytes(0)[k] = byte(r.Uint32()) // another time, other noise
			}
			for k := range row.Bytes(1) {
				row.Bytes(1)[k] = byte(r.Uint32() & 1)
			}
			return nil
		})},
		"tensors": must[Dataset](t)(FromTensors(tensor.New(tensor.WithShape(10, 4), tensor.WithBacking(likePattern)))),
	} {
		l := newLoader(t, set, Config{BatchSize: 2, Workers: 1})
		for _, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
	}
}

// That a sample is read twice makes no difference to its chance, nor to that of what it is made into.
func TestProofKeepsChance(t *testing.T) {
	draws := func(wrap func(Dataset) Dataset) (all []uint8) {
		one := func(name string) Dataset {
			return FromFunc(12, []Field{{Name: name, Dtype: tensor.Uint8, Shape: tensor.Shape{3}}}, func(_ context.Context, i int, row Row) error {
				for k := range row.Bytes(0) {
					row.Bytes(0)[k] = byte(row.Rand().Uint32())
				}
				return nil
			})
		}
		set := must[Dataset](t)(Zip(wrap(one("a")), wrap(one("b"))))
		set = must[Dataset](t)(MapInPlace(set, func(_ context.Context, _ int, row Row) error {
			row.Bytes(0)[0] = byte(row.Rand().Uint32())
			return nil
		}))
		l := newLoader(t, set, Config{BatchSize: 3, Workers: 1, Shuffle: true})
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(append(all, b.Host(0).Uint8s()...), b.Host(1).Uint8s()...)
		}
		return all
	}
	want := draws(func(ds Dataset) Dataset { return ds })
	for _, wrap := range []func(Dataset) Dataset{
		func(ds Dataset) Dataset { return must[Dataset](t)(Overwriting(ds)) },
		func(ds Dataset) Dataset { return must[Dataset](t)(Overwriting(batchHalves{ds})) },
	} {
		if got := draws(wrap); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// A set whose samples differ in shape finds its rows zeroed, whatever it says: a row that it does not give a shape has none.
func TestRaggedRowsAreZeroed(t *testing.T) {
	fields := []Field{{Name: "v", Dtype: tensor.Float64, Shape: tensor.Shape{5}}, {Name: "text", Dtype: tensor.Int64, Shape: tensor.Shape{-1}, Pad: &Padding{}}}
	texts := FromFunc(200, fields, func(_ context.Context, i int, row Row) error {
		if slices.Max(Values[float64](row, 0)) != 0 || slices.Min(Values[float64](row, 0)) != 0 {
			return fmt.Errorf("sample %d found %v in its row", i, Values[float64](row, 0))
		}
		for k := range 5 {
			Values[float64](row, 0)[k] = -3.5 - float64(i)
		}
		if i%5 == 4 {
			return nil
		}
		words, err := Ragged[int64](row, 1, 3)
		for k := range words {
			words[k] = int64(i)
		}
		return err
	})
	for _, set := range []Dataset{must[Dataset](t)(Overwriting(texts)), claims{texts}} {
		lengths := must[Dataset](t)(Map(set, []Field{{Name: "n", Dtype: tensor.Int64, Shape: tensor.Shape{2}}}, func(_ context.Context, i int, in, out Row) error {
			Values[int64](out, 0)[0], Values[int64](out, 0)[1] = int64(in.Shape(1)[0]), int64(len(Values[int64](in, 1)))
			return nil
		}))
		for _, read := range []Dataset{set, must[Dataset](t)(Subset(set, numbers(200))), lengths} {
			l := newLoader(t, read, Config{BatchSize: 7, Workers: 2, Shuffle: true})
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatalf("%v: %v", read, err)
				}
				for k, i := range b.Indices {
					n := 3
					if i%5 == 4 {
						n = 0
					}
					if read == lengths {
						if got := b.Host(0).Int64s()[2*k : 2*k+2]; got[0] != int64(n) || got[1] != int64(n) {
							t.Errorf("sample %d: shape and values of length %v, want %d", i, got, n)
						}
						continue
					}
					width := b.Host(1).Shape()[1]
					for j, got := range b.Host(1).Int64s()[k*width : (k+1)*width] {
						if want := map[bool]int64{true: int64(i), false: 0}[j < n]; got != want {
							t.Errorf("sample %d has %d at %d, want %d", i, got, j, want)
						}
					}
				}
			}
		}
	}
}

// Once it is proven rows are what they are from before.
func TestOverwritesIsProvenOnce(t *testing.T) {
	planted := 0
	set := claims{FromFunc(100, []Field{{Dtype: tensor.Float32}}, func(_ context.Context, i int, row Row) error {
		if string(row.Bytes(0)) == string(pattern[:4]) {
			planted++
		}
		Values[float32](row, 0)[0] = float32(i)
		return nil
	})}
	l := newLoader(t, set, Config{BatchSize: 3, Workers: 1, SingleEpoch: true})
	for _, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if planted != proofs {
		t.Errorf("%d rows had the canary, want %d", planted, proofs)
	}
}

// Memory of a set that is read in place of zeroed memory has no canary in a batch, also where a sample was skipped.
func TestNoCanaryInABatch(t *testing.T) {
	set := claims{FromFunc(8, proofFields, func(_ context.Context, i int, row Row) error {
		if i%2 == 0 {
			return errBad
		}
		for f := range proofFields {
			clear(row.Bytes(f))
		}
		return nil
	})}
	l := newLoader(t, set, Config{BatchSize: 4, Workers: 1, OnError: SkipErrors, LastBatch: PadLast, SingleEpoch: true})
	batches := 0
	defer func() {
		if batches != 2 {
			t.Errorf("%d batches, want 2", batches)
		}
	}()
	for b, err := range l.Batches(t.Context()) {
		if batches++; err != nil {
			t.Fatal(err)
		}
		if len(b.Skipped) != 2 {
			t.Errorf("%d skipped", len(b.Skipped))
		}
		for f := range proofFields {
			for _, x := range b.Host(f).Raw {
				if x != 0 {
					t.Fatalf("field %d: %v", f, b.Host(f).Raw)
				}
			}
		}
	}
}

// Sets that do write whole rows are never refused, whatever their fields are and whatever they are made into, and
// batches have what they wrote.
func TestWholeRowsAreNeverRefused(t *testing.T) {
	e := newEngine(t)
	dtypes := []tensor.Dtype{tensor.Bool, tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int32, tensor.Float32, tensor.Int64, tensor.Float64, tensor.Complex64, tensor.Complex128}
	rapid.Check(t, func(rt *rapid.T) {
		var fields []Field
		for range rapid.IntRange(1, 3).Draw(rt, "fields") {
			shape := tensor.Shape(rapid.SliceOfN(rapid.IntRange(1, 5), 0, 3).Draw(rt, "shape"))
			fields = append(fields, Field{Dtype: rapid.SampledFrom(dtypes).Draw(rt, "dtype"), Shape: shape})
		}
		const n = 23
		contents := func(i, f int, row []byte) {
			r := rand.New(rand.NewPCG(uint64(i), uint64(f)))
			for k := range row {
				row[k] = byte(r.Uint32() & 1) // bools too
			}
		}
		read := func(_ context.Context, i int, row Row) error {
			for f := range fields {
				contents(i, f, row.Bytes(f))
			}
			return nil
		}
		var set Dataset = claims{FromFunc(n, fields, read)}
		if rapid.Bool().Draw(rt, "ReadBatch") {
			set = claimsBatches{set.(claims), func(ctx context.Context, indices []int, rows Rows) error {
				for k, i := range indices {
					if err := read(ctx, i, rows.Row(k)); err != nil {
						return err
					}
				}
				return nil
			}}
		}
		var err error
		switch rapid.SampledFrom([]string{"", "Subset", "MapInPlace", "Map", "Cache", "Concat"}).Draw(rt, "in") {
		case "Subset":
			set, err = Subset(set, numbers(n))
		case "MapInPlace":
			set, err = MapInPlace(set, func(context.Context, int, Row) error { return nil })
		case "Map":
			set, err = Map(set, fields, func(_ context.Context, _ int, in, out Row) error {
				for f := range fields {
					copy(out.Bytes(f), in.Bytes(f))
				}
				return nil
			})
		case "Cache":
			set, err = Cache(set, 1<<20)
		case "Concat":
			set, err = Concat(set)
		}
		if err != nil {
			rt.Fatal(err)
		}
		l, err := New(set, Config{BatchSize: rapid.IntRange(1, 9).Draw(rt, "batch"), Workers: rapid.IntRange(1, 3).Draw(rt, "workers"), Shuffle: true, SingleEpoch: true, Pin: e})
		if err != nil {
			rt.Fatal(err)
		}
		defer l.Close()
		for range 2 {
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					rt.Fatal(err)
				}
				for f := range fields {
					raw := b.Host(f).Raw
					size := len(raw) / b.Len()
					for k, i := range b.Indices {
						want := make([]byte, size)
						contents(i, f, want)
						if string(raw[k*size:(k+1)*size]) != string(want) {
							rt.Fatalf("sample %d, field %d: %v, want %v", i, f, raw[k*size:(k+1)*size], want)
						}
					}
				}
			}
		}
	})
}
