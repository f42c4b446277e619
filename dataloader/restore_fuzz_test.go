package dataloader

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/pintensor/pin/pintensor"
)

// FuzzRestore restores whatever JSON says. A State that is accepted must be a place to continue from: the rest of
// its epoch comes, each batch once, and the next epoch is whole.
func FuzzRestore(f *testing.F) {
	engine, err := pintensor.NewEngine()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { engine.Close() })
	const batches = 9
	cfg := Config{BatchSize: 2, Workers: 2, Prefetch: 2, Unordered: true, Pin: engine}
	loader := func(t testing.TB) *Loader {
		l, err := New(counting(2*batches-1), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	good, err := json.Marshal(loader(f).State())
	if err != nil {
		f.Fatal(err)
	}
	for _, change := range []string{`{}`, `{"epoch":3,"batch":8}`, `{"batch":2,"ahead":[4,5,8]}`, `{"ahead":[8,1]}`, `{"batch":9}`, `{"epoch":-1}`, `{"epoch":9223372036854775807}`, `null`} {
		f.Add([]byte(change))
	}
	f.Fuzz(func(t *testing.T, change []byte) {
		var s State
		if err := json.Unmarshal(good, &s); err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal(change, &s) != nil {
			return
		}
		l := loader(t)
		defer l.Close()
		if l.Restore(s) != nil {
			return
		}
		left := []int{}
		for b := s.Batch; b < batches; b++ {
			if !slices.Contains(s.Ahead, b) {
				left = append(left, b)
			}
		}
		for epoch, want := range [][]int{left, {0, 1, 2, 3, 4, 5, 6, 7, 8}} {
			var got []int
			for b, err := range l.Batches(t.Context()) {
				if err != nil || b.Epoch != s.Epoch+epoch {
					t.Fatalf("batch %+v, error %v in epoch %d after %s", b, err, s.Epoch+epoch, change)
				}
				got = append(got, b.Index)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Fatalf("batches %v, want %v in epoch %d after %s", got, want, s.Epoch+epoch, change)
			}
		}
	})
}
