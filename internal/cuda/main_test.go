package cuda

import (
	"testing"
	"time"
)

// TestMain starts a timer: with its first one the runtime opens two files, which leak.Check would take for leaks.
func TestMain(m *testing.M) {
	time.Sleep(time.Nanosecond)
	m.Run()
}
