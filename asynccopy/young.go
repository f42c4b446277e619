package asynccopy

// This file has which tensors the collector watches.
//
// To set a finalizer and to take it away costs 0.4 µs, a tenth of what a small tensor does, and most small tensors are
// released soon. So the last small ones that were made have none yet: the device keeps them reachable until others take
// their places, or somebody asks what there is.

import "runtime"

const (
	mostYoung    = 64
	largestYoung = 64 << 10 // bytes: so what is kept though it was dropped is no more than 4 MiB
)

// young are the last small tensors that were made, the oldest at next. Device.mu guards them.
type young struct {
	tensors [mostYoung]*Tensor
	next    int
}

// watch has the collector find x when it is dropped, at once or in a while.
func (d *Device) watch(x *Tensor) {
	grown := x
	if x.size <= largestYoung {
		d.mu.Lock()
		place := &d.young.tensors[d.young.next]
		d.young.next = (d.young.next + 1) % mostYoung
		grown, *place = *place, x
		d.mu.Unlock()
	}
	if grown != nil {
		grown.watch()
	}
}

// watchAll is watch for all that are young.
func (d *Device) watchAll() {
	d.mu.Lock()
	all := d.young.tensors
	d.young = young{}
	d.mu.Unlock()
	for _, x := range all {
		if x != nil {
			x.watch()
		}
	}
}

// watch sets the finalizer of a Tensor that has none. It is a finalizer because a cleanup would take two more
// allocations, and what a Tensor refers to doesn't refer to it.
func (x *Tensor) watch() {
	b := x.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.released {
		x.watched = true
		runtime.SetFinalizer(x, (*Tensor).dropped)
	}
}
