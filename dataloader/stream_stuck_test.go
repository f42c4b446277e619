package dataloader

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A stream that has nothing more, and does not end: the loop says so after the timeout, and Close names it.
func TestStreamGetsStuck(t *testing.T) {
	e := newEngine(t)
	for _, heeds := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			src := streamOf(1, 1)
			src.Interleave = 2
			src.Open = func(ctx context.Context, _, shard int) iter.Seq2[int, error] {
				return func(yield func(int, error) bool) {
					for k := range 5 {
						if !yield(1000*shard+k, nil) {
							return
						}
					}
					if shard == 0 {
						return
					}
					if heeds {
						<-ctx.Done()
						return
					}
					time.Sleep(time.Hour)
				}
			}
			l, err := New(must[Dataset](t)(FromStream(src)), Config{BatchSize: 4, Workers: 3, Timeout: time.Second, Pin: e})
			if err != nil {
				t.Fatal(err)
			}
			began, turns := time.Now(), 0
			for b, err := range l.Batches(t.Context()) {
				if turns++; turns <= 2 {
					if err != nil || b.Len() != 4 {
						t.Errorf("turn %d: %v", turns, err)
					}
					continue
				}
				var at *SampleError
				if !errors.Is(err, ErrTimeout) || !errors.As(err, &at) || at.Batch != 2 {
					t.Errorf("turn %d: %v", turns, err)
				}
			}
			if turns != 3 || time.Since(began) > 4*time.Second {
				t.Errorf("%d turns in %v", turns, time.Since(began))
			}
			stuck := l.Stats().Stuck
			err = l.Close()
			if heeds && (err != nil || stuck != 0) {
				t.Errorf("%d stuck, Close: %v", stuck, err)
			}
			if !heeds && (!errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "shard 1 of the stream is still being read") || stuck != 1) {
				t.Errorf("%d stuck, Close: %v", stuck, err)
			}
			time.Sleep(2 * time.Hour)
		})
	}
}

// BenchmarkStream is what an item of a stream costs beside reading it: its samples are of one byte, 64 a batch.
func BenchmarkStream(b *testing.B) {
	fields := []Field{{Name: "byte", Dtype: countFields[1].Dtype}}
	for _, shuffle := range []bool{false, true} {
		b.Run(map[bool]string{false: "shuffle=no", true: "shuffle=1024"}[shuffle], func(b *testing.B) {
			set, err := FromStream(Source[int]{
				Fields: fields,
				Open: func(context.Context, int, int) iter.Seq2[int, error] {
					return func(yield func(int, error) bool) {
						for k := 0; k < 1<<16 && yield(k, nil); k++ {
						}
					}
				},
				Read: func(_ context.Context, k int, row Row) error { Values[int64](row, 0)[0] = int64(k); return nil },
			})
			if err != nil {
				b.Fatal(err)
			}
			benchLoader(b, set, Config{BatchSize: 64, Workers: 2, Shuffle: shuffle}, 64*8)
		})
	}
}
