package dataloader

// Which sets are given zeroed rows.

import (
	"context"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
	"github.com/pintensor/pin/pintensor/pintest"
)

// dirt is a set that notes what it finds in its rows.
type dirt struct {
	overwrites bool
	found      int64 // the largest; one worker
}

func (d *dirt) Len() int         { return 64 }
func (d *dirt) Fields() []Field  { return []Field{{Dtype: tensor.Int64}} }
func (d *dirt) Overwrites() bool { return d.overwrites }

func (d *dirt) Read(_ context.Context, i int, row Row) error {
	if string(row.Bytes(0)) != string(pattern[:8]) { // of the first calls
		d.found = max(d.found, Values[int64](row, 0)[0])
	}
	Values[int64](row, 0)[0] = int64(i) + 1
	return nil
}

// dirtBatches is one with ReadBatch.
type dirtBatches struct{ dirt }

func (d *dirtBatches) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	for k, i := range indices {
		if err := d.Read(ctx, i, rows.Row(k)); err != nil {
			return err
		}
	}
	return nil
}

func TestOverwriter(t *testing.T) {
	leak.Check(t)
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	pintest.Check(t, e)
	for _, overwrites := range []bool{false, true} {
		each, batches := &dirt{overwrites: overwrites}, &dirtBatches{dirt{overwrites: overwrites}}
		for _, c := range []struct {
			set   Dataset
			found *int64
		}{{each, &each.found}, {batches, &batches.found}} {
			for _, inside := range []bool{false, true} {
				set := c.set
				if inside {
					if set, err = Subset(set, []int{5, 6, 7, 8, 9, 10, 11}); err != nil {
						t.Fatal(err)
					}
				}
				*c.found = 0
				l, err := New(set, Config{BatchSize: 1, Workers: 1, Prefetch: 1, Pin: e})
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					for _, err := range l.Batches(t.Context()) {
						if err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				if dirty := *c.found != 0; dirty != overwrites {
					t.Errorf("%T that overwrites: %v, inside another: %v: found %d in its rows", c.set, overwrites, inside, *c.found)
				}
			}
		}
	}
}
