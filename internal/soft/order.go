package soft

// This file has the order in which captured work runs.

import "slices"

// Order returns an order of work in which each piece comes after those that it depends on, all of which have lower
// numbers. pick is asked which of the n pieces that could come next does; they are sorted.
func Order(depends [][]int, pick func(n int) int) []int {
	waits := make([]int, len(depends))
	waiting := make([][]int, len(depends)) // those that wait for each
	var ready, order []int
	for i, on := range depends {
		waits[i] = len(on)
		for _, j := range on {
			waiting[j] = append(waiting[j], i)
		}
		if len(on) == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		k := pick(len(ready))
		i := ready[k]
		ready = slices.Delete(ready, k, k+1)
		order = append(order, i)
		for _, j := range waiting[i] {
			if waits[j]--; waits[j] == 0 {
				at, _ := slices.BinarySearch(ready, j)
				ready = slices.Insert(ready, at, j)
			}
		}
	}
	return order
}
