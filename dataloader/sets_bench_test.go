package dataloader

import (
	"context"
	"testing"
)

// BenchmarkSets is what sets of sets cost beside the set itself, a batch of 64 shuffled samples of MNIST's shape
// an operation.
func BenchmarkSets(b *testing.B) {
	images, labels := mnist()
	base, err := FromTensors(images, labels)
	if err != nil {
		b.Fatal(err)
	}
	n := base.Len()
	labelSet := must[Dataset](b)(FromTensors(labels))
	halves := must[[]Dataset](b)(RandomSplit(base, 1, n/2, n-n/2))
	cache := must[*Cached](b)(Cache(base, 1<<30))
	for _, bench := range []struct {
		name string
		set  Dataset
	}{
		{"set=none", base}, {"set=Subset", must[Dataset](b)(Subset(base, numbers(n)))}, {"set=RandomSplit", halves[0]},
		{"set=Concat", must[Dataset](b)(Concat(halves...))}, {"set=Cache", cache},
		{"set=Interleave", must[Dataset](b)(Interleave(AllExhausted, nil, halves...))},
		{"set=Zip", must[Dataset](b)(Zip(base, must[Dataset](b)(Rename(labelSet, "other"))))},
		{"set=MapInPlace", must[Dataset](b)(MapInPlace(base, func(context.Context, int, Row) error { return nil }))},
		{"set=Map", must[Dataset](b)(Map(base, base.Fields(), func(_ context.Context, _ int, in, out Row) error {
			copy(out.Bytes(0), in.Bytes(0))
			copy(out.Bytes(1), in.Bytes(1))
			return nil
		}))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			rows, err := MakeRows(bench.set.Fields(), 64)
			if err != nil {
				b.Fatal(err)
			}
			reader, order, indices := batchReaderOf(bench.set), shuffled{newPermutation(bench.set.Len(), 1)}, make([]int, 64)
			if bench.set == Dataset(cache) { // what is in it
				for i := range n {
					if err := cache.Read(b.Context(), i, rows.Row(0)); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportAllocs()
			b.SetBytes(64 * (784*4 + 8))
			at := 0
			for b.Loop() {
				order.indices(0, at, 1, indices)
				if err := reader.ReadBatch(b.Context(), indices, rows); err != nil {
					b.Fatal(err)
				}
				if at += 64; at+64 > order.Len() {
					at = 0
				}
			}
			perSample(b, 64)
		})
	}
}
