package gather

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

var names = [ways]string{"plain", "begin", "whole"}

// Whatever the way, what is copied is the rows.
func TestCopy(t *testing.T) {
	for _, size := range []int{0, 1, 2, 4, 8, 255, 256, 300, 784, 1024, 3136, 4096, 5000, 40000} {
		for _, n := range []int{0, 1, minRows - 1, minRows, 17, 100} {
			r := rand.New(rand.NewPCG(uint64(size), uint64(n)))
			const rows = 37
			src := make([]byte, rows*size)
			for i := range src {
				src[i] = byte(r.Uint32())
			}
			indices, want := make([]int, n), []byte{}
			for k := range indices {
				indices[k] = r.IntN(rows)
				want = append(want, src[indices[k]*size:][:size]...)
			}
			before := slices.Clone(indices)
			check := func(way string, got []byte) {
				t.Helper()
				if !bytes.Equal(got[:n*size], want) || !bytes.Equal(got[n*size:], []byte("beyond")) || !slices.Equal(indices, before) {
					t.Errorf("%d rows of %d bytes, %s: not the rows that were asked for", n, size, way)
				}
			}
			for way, name := range names {
				if n == 0 || size == 0 {
					continue // Copy takes the plain way
				}
				got := append(make([]byte, n*size), "beyond"...)
				run(way, got, src, indices, size, false)
				check(name, got)
			}
			var a, b Rows
			for range ways*trials + 2 {
				got := append(make([]byte, n*size), "beyond"...)
				a.Copy(got, src, indices, size)
				check("Copy", got)
				got = append(make([]byte, n*size), "beyond"...)
				b.CopyNonTemporal(got, src, indices, size)
				check("CopyPast", got)
			}
		}
	}
}

// A row that isn't there panics, whatever the way.
func TestCopyOutside(t *testing.T) {
	for way, name := range names {
		for _, i := range []int{-1, 4, 1 << 40, -1 << 40} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: row %d of 4: no panic", name, i)
					}
				}()
				indices := slices.Repeat([]int{3}, minRows)
				indices[minRows-1] = i
				run(way, make([]byte, minRows*300), make([]byte, 4*300), indices, 300, false)
			}()
		}
	}
}

// The cheapest way is taken, whatever single calls cost, and another one when that has become the cheapest.
func TestChoice(t *testing.T) {
	var c choice
	for round, costs := range [][ways]int64{{30, 20, 10}, {10, 20, 30}, {20, 10, 30}, {0, 0, 0}, {960, 1000, 950}} {
		cheapest := slices.Index(costs[:], slices.Min(costs[:]))
		if costs[plain]-costs[cheapest] < costs[plain]/chance {
			cheapest = plain
		}
		counts, measurements := [ways]int{}, 0
		for n := range period {
			way, measured := c.next()
			if !measured {
				counts[way]++
				continue
			}
			measurements++
			cost := costs[way]
			if n%4 > 0 { // a call that was held up
				cost *= 1000
			}
			c.note(way, cost)
		}
		if measurements != ways*trials || counts[cheapest] != period-ways*trials {
			t.Errorf("round %d, costs %v: %d calls measured, then the ways were taken %v times", round, costs, measurements, counts)
		}
	}
}

// A round in which no call has ended yet decides nothing wrong.
func TestChoiceWithoutCosts(t *testing.T) {
	var c choice
	for range ways*trials + 1 {
		c.next()
	}
	if way, measured := c.next(); way != plain || measured {
		t.Errorf("way %d, measured %v: want the plain one", way, measured)
	}
}

func TestConcurrentCopies(t *testing.T) {
	src := make([]byte, 100*300)
	for i := range src {
		src[i] = byte(i / 300)
	}
	var (
		r  Rows
		wg sync.WaitGroup
	)
	for g := range 8 {
		wg.Go(func() {
			indices, dst := make([]int, minRows), make([]byte, minRows*300)
			for n := range 2 * period / 8 {
				for k := range indices {
					indices[k] = (g + n*k) % 100
				}
				r.Copy(dst, src, indices, 300)
				for k, i := range indices {
					if dst[k*300] != byte(i) || dst[k*300+299] != byte(i) {
						t.Error("not the rows that were asked for")
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestCopyAllocatesNothing(t *testing.T) {
	var r Rows
	src, dst, indices := make([]byte, 100*300), make([]byte, 100*300), make([]int, 100)
	if n := testing.AllocsPerRun(100, func() { r.Copy(dst, src, indices, 300); r.CopyNonTemporal(dst, src, indices[:10], 1024) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkCopy copies batches of 256 rows in each way, and as Copy chooses, in turn with plain copies: x-plain is the time
// of a way over theirs. "array" is what the rows lie in.
func BenchmarkCopy(b *testing.B) {
	const batch = 256
	for _, c := range []struct{ size, rows int }{{4, 60000}, {8, 60000}, {8, 4 << 20}, {64, 2 << 20}, {784, 60000}, {3136, 500}, {3136, 60000}, {12288, 10000}, {150528, 1000}} {
		src := make([]byte, c.size*c.rows)
		for i := range src {
			src[i] = byte(i)
		}
		order := rand.New(rand.NewPCG(1, 2)).Perm(c.rows)
		order = order[:min(len(order), 1<<16)/batch*batch]
		dst := make([]byte, batch*c.size)
		for way := range ways + 1 {
			name := "chosen"
			if way < ways {
				name = names[way]
			}
			b.Run(fmt.Sprintf("size=%d/array=%dKiB/way=%s", c.size, len(src)>>10, name), func(b *testing.B) {
				var r Rows
				epoch := func(copy func(dst, src []byte, indices []int, size int)) time.Duration {
					began := time.Now()
					for at := 0; at < len(order); at += batch {
						copy(dst, src, order[at:at+batch], c.size)
					}
					return time.Since(began)
				}
				var byPlain, byWay time.Duration
				for b.Loop() {
					byPlain += epoch(func(dst, src []byte, indices []int, size int) { copyRows(dst, src, indices, size, false) })
					if way == ways {
						byWay += epoch(r.Copy)
					} else {
						byWay += epoch(func(dst, src []byte, indices []int, size int) { run(way, dst, src, indices, size, false) })
					}
				}
				b.ReportMetric(byWay.Seconds()/byPlain.Seconds(), "x-plain")
				b.ReportMetric(float64(byWay.Nanoseconds())/float64(b.N)/float64(len(order)), "ns/row")
			})
		}
	}
}
