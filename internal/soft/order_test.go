package soft

// This file tests orders of captured work.

import (
	"slices"
	"testing"

	"github.com/pintensor/pin/internal/leak"
	"pgregory.net/rapid"
)

func TestOrder(t *testing.T) {
	leak.Check(t)
	depends := [][]int{nil, {0}, {0}, {1, 2}, nil}
	for _, c := range []struct {
		pick func(n int) int
		want []int
	}{
		{func(int) int { return 0 }, []int{0, 1, 2, 3, 4}},
		{func(n int) int { return n - 1 }, []int{4, 0, 2, 1, 3}},
	} {
		if got := Order(depends, c.pick); !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var depends [][]int
		for i := range rapid.IntRange(0, 20).Draw(t, "n") {
			var on []int
			for j := range i {
				if rapid.Bool().Draw(t, "depends") {
					on = append(on, j)
				}
			}
			depends = append(depends, on)
		}
		order := Order(depends, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") })
		if len(order) != len(depends) {
			t.Fatalf("%d pieces, want %d", len(order), len(depends))
		}
		for at, i := range order {
			for _, j := range depends[i] {
				if k := slices.Index(order, j); k < 0 || k > at {
					t.Fatalf("%v: %d comes before %d", order, i, j)
				}
			}
		}
	})
}
