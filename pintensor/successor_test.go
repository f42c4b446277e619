package pintensor

import (
	"testing"

	"gorgonia.org/tensor"
)

// queued is work on a queue.
type queued struct {
	*work
	queue, place int
}

func (q queued) Follows(c Completion) bool {
	other, ok := c.(queued)
	return ok && other.queue == q.queue && other.place < q.place
}

// TestSuccessorsTakeThePlaceOfWhatTheyFollow: of each queue only the last is kept, and it is enough.
func TestSuccessorsTakeThePlaceOfWhatTheyFollow(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	b := blocks.holding(d.Raw)
	other := newWork()
	useBy(t, d, other)
	var last [2]queued
	for place := range 50 {
		for queue := range last {
			last[queue] = queued{newWork(), queue, place}
			h, err := Acquire(d)
			if err != nil {
				t.Fatal(err)
			}
			h.Until(last[queue])
		}
	}
	if n := len(b.device.uses); n != 3 {
		t.Errorf("%d uses are kept, want one a queue and the one of none", n)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*work{other, last[0].work, last[1].work} {
		if s := e.Stats(); s.InFlight.Current != minBlock || s.Cached.Current != 0 {
			t.Errorf("under way: %+v", s)
		}
		w.complete()
	}
	if s := e.Stats(); s.InFlight.Current != 0 || s.Cached.Current != minBlock {
		t.Errorf("completed: %+v", s)
	}
}
