package pintensor

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/leak"
)

func TestSizeClassesWasteAtMostAnEighth(t *testing.T) {
	leak.Check(t)
	check := func(fail func(string, ...any), n int64) {
		class, size := classOf(n)
		switch {
		case size < n:
			fail("a block of %d bytes for %d", size, n)
		case size%blockUnit != 0 || size < minBlock:
			fail("%d bytes: block of %d is no multiple of %d of at least %d", n, size, blockUnit, minBlock)
		case class < 0 || class >= numClasses:
			fail("%d bytes: class %d, want 0 to %d", n, class, numClasses-1)
		case n >= 64<<10 && float64(size) > 1.125*float64(n):
			fail("%d bytes: block of %d wastes %.2f %%", n, size, 100*float64(size-n)/float64(n))
		}
		if c, s := classOf(size); c != class || s != size {
			fail("%d bytes: class %d of %d, but a block of that size is class %d of %d", n, class, size, c, s)
		}
		if n > 0 {
			if c, s := classOf(n - 1); c > class || s > size || c == class && s != size {
				fail("%d bytes have class %d of %d, one byte less %d of %d", n, class, size, c, s)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t.Fatalf, rapid.Int64Range(0, maxBlock).Draw(t, "n")>>rapid.IntRange(0, 46).Draw(t, "shift"))
	})
	for shift := 10; shift <= 46; shift++ {
		for _, d := range []int64{-1, 0, 1} {
			check(t.Fatalf, min(1<<shift+d, maxBlock))
		}
	}
}

func TestEveryClassHasOneSize(t *testing.T) {
	leak.Check(t)
	last, lastSize := -1, int64(0)
	for n := int64(0); n <= maxBlock; n = lastSize + 1 {
		class, size := classOf(n)
		if class != last+1 || size <= lastSize {
			t.Fatalf("class %d of %d bytes follows class %d of %d", class, size, last, lastSize)
		}
		last, lastSize = class, size
	}
	if last != numClasses-1 {
		t.Fatalf("the last class is %d, want %d", last, numClasses-1)
	}
}
