package pintensor

import (
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/leak"
)

func TestRegistryAgreesWithAList(t *testing.T) {
	leak.Check(t)
	rapid.Check(t, func(t *rapid.T) {
		r := registry{most: rapid.IntRange(1, 5).Draw(t, "a run's most")}
		var model []extent
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				lo := uintptr(rapid.IntRange(0, 100).Draw(t, "lo"))
				x := extent{lo, lo + uintptr(rapid.IntRange(1, 10).Draw(t, "n")), &segment{}}
				var overlaps bool
				for _, m := range model {
					overlaps = overlaps || x.lo < m.hi && m.lo < x.hi
				}
				other := r.add(x.lo, x.hi, x.s)
				if (other != nil) != overlaps {
					t.Fatalf("add(%d, %d) met %v, overlap is %v", x.lo, x.hi, other, overlaps)
				}
				if !overlaps {
					model = append(model, x)
				}
			},
			"remove": func(t *rapid.T) {
				if len(model) == 0 {
					r.remove(7)
					return
				}
				i := rapid.IntRange(0, len(model)-1).Draw(t, "i")
				r.remove(model[i].lo)
				model = append(model[:i:i], model[i+1:]...)
			},
			"": func(t *rapid.T) {
				for _, in := range r.runs() {
					if n := len(in.extents); n == 0 || n > r.most || in.hi != in.extents[n-1].hi {
						t.Fatalf("a run of %d extents, want 1 to %d; it ends at %d: %v", n, r.most, in.hi, in.extents)
					}
				}
				for p := range uintptr(115) {
					var want *segment
					for _, m := range model {
						if m.lo <= p && p < m.hi {
							want = m.s
						}
					}
					if got := r.segment(p); got != want {
						t.Fatalf("segment(%d) is %p, want %p", p, got, want)
					}
				}
			},
		})
	})
}

func TestRegistryIsReadWhileItChanges(t *testing.T) {
	leak.Check(t)
	r := registry{most: 8}
	fixed := &segment{}
	r.add(1000, 1010, fixed)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if r.segment(1005) != fixed {
						t.Error("an entry that nobody touched was not found")
						return
					}
				}
			}
		})
	}
	for i := range 2000 {
		lo := uintptr(i * 20)
		if lo != 1000 {
			r.add(lo, lo+10, &segment{})
		}
		if i%3 == 0 && lo != 1000 {
			r.remove(lo)
		}
	}
	close(stop)
	wg.Wait()
}

// Extents that go leave no run behind for each few of them.
func TestRegistryJoinsRuns(t *testing.T) {
	leak.Check(t)
	r := registry{most: 16}
	for i := range uintptr(1600) {
		r.add(i, i+1, &segment{})
	}
	for i := range uintptr(1600) {
		if i%50 != 0 {
			r.remove(i)
		}
	}
	if n := len(r.runs()); n > 12 {
		t.Errorf("32 extents in %d runs of up to 16, want few", n)
	}
}

// BenchmarkRegistry enters one more extent, finds it, and takes it out.
func BenchmarkRegistry(b *testing.B) {
	for _, n := range []uintptr{10, 1000, 100_000} {
		b.Run(fmt.Sprintf("extents=%d", n), func(b *testing.B) {
			var r registry
			for i := range n {
				r.add(2*i, 2*i+1, &segment{})
			}
			s := new(segment)
			b.ReportAllocs()
			for b.Loop() {
				r.add(n|1, n|1+1, s)
				if r.segment(n|1) != s {
					b.Fatal("not found")
				}
				r.remove(n | 1)
			}
		})
	}
}
