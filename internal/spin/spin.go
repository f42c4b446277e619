// Package spin waits without sleeping, for what will be there in a moment.
//
// To wake a thread that sleeps costs whoever does it several microseconds, in a virtual machine ten and more, and its work
// as long again to begin. A goroutine that asks again and again costs the others nothing but a core.
package spin

import "runtime"

// Until asks until it is told true, for so many rounds of some 300 to 900 ns, and reports whether it was. It lets other
// goroutines run after every yield-th round, and before the first such one after rounds 1, 2, 4 and so on: whoever is waited for
// may have been put into this thread's queue. Where there is an idle thread to take over that costs as much as several
// rounds, so it is to be done now and then only, unless others need the core. yield is 1 at least.
//
// It is bounded by rounds, not by time, of which none passes for a goroutine that spins in a testing/synctest bubble.
func Until(rounds, yield int, done func() bool) bool {
	for round := 1; round <= rounds; round++ {
		for range 8 {
			for range 16 {
				if done() {
					return true
				}
			}
			pause() // leaves what there is to compute with to the core's other thread
		}
		if round%yield == 0 || round < yield && round&(round-1) == 0 {
			runtime.Gosched()
		}
	}
	return false
}
