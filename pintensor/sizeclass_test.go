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
		case size%blockAlign != 0 || size < blockAlign:
			fail("%d bytes: block of %d is no multiple of %d", n, size, blockAlign)
		case size >= 64<<10 && size%heapPage != 0:
			fail("%d bytes: block of %d is no multiple of the heap's page", n, size)
		case class < 0 || class >= numClasses:
			fail("%d bytes: class %d, want 0 to %d", n, class, numClasses-1)
		case class < carvedClasses != (size < minBlock):
			fail("%d bytes: class %d of %d, want those below %d to be of blocks smaller than %d", n, class, size, carvedClasses, minBlock)
		case class < shelfClasses != (size <= 256<<10):
			fail("%d bytes: class %d of %d, want those up to 256 KiB to be cached by core", n, class, size)
		case n >= 2<<10 && float64(size) > 1.125*float64(n):
			fail("%d bytes: block of %d wastes %.2f %%", n, size, 100*float64(size-n)/float64(n))
		case n < 2<<10 && size-max(n, 1) >= blockAlign:
			fail("%d bytes: block of %d wastes %d", n, size, size-n)
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
