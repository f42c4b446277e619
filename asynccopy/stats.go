package asynccopy

// This file has the figures that a device keeps.

import "sync/atomic"

// Stats says what a device holds and did.
type Stats struct {
	Memory  Usage // device memory of tensors, in bytes as they were asked for
	Lent    Usage // the same in bytes as sizes are rounded, until it is free: that is what WithDeviceLimit counts
	Cached  int64 // bytes kept for later by this package; what the driver's pool keeps is not known
	Tensors int   // that were neither released nor reclaimed; a tensor and its parts count as one
	Streams int   // open
	Events  int   // on open streams, not seen complete yet

	ToDevice Traffic // copies from the host, counted when they are issued
	ToHost   Traffic // copies to the host
	OnDevice Traffic // copies from tensors, of this device or another; staged through the host, those of which it can't reach

	Reclaimed int64 // tensors that the collector found, for which Release was never called
	Retries   int64 // allocations tried again after pending work was awaited and caches were trimmed
}

// Usage is an amount over time.
type Usage struct {
	Current, Peak int64
	Total         int64 // the sum of all that was ever added
}

// Traffic counts copies in one direction.
type Traffic struct {
	Copies, Bytes int64
	Staged        int64 // copies through page-locked chunks: of memory that is not, or packed with others
}

func (u *Usage) add(n int64) {
	u.Current += n
	u.Peak = max(u.Peak, u.Current)
	if n > 0 {
		u.Total += n
	}
}

// counts are a device's figures.
type counts struct {
	memory             Usage // guarded by Device.mu, as tensors is
	tensors            int
	toDevice, toHost   traffic
	onDevice           traffic
	reclaimed, retries atomic.Int64
}

type traffic struct{ copies, bytes, staged atomic.Int64 }

func (t *traffic) add(bytes int64, staged bool) {
	t.copies.Add(1)
	t.bytes.Add(bytes)
	if staged {
		t.staged.Add(1)
	}
}

func (t *traffic) addMany(copies, staged int, bytes int64) {
	t.copies.Add(int64(copies))
	t.bytes.Add(bytes)
	t.staged.Add(int64(staged))
}

func (t *traffic) read() Traffic {
	return Traffic{Copies: t.copies.Load(), Bytes: t.bytes.Load(), Staged: t.staged.Load()}
}

// Stats returns the figures of d, of a closed device too. It does not ask the driver.
func (d *Device) Stats() Stats {
	if d.missing() {
		return Stats{}
	}
	d.watchAll()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{
		Memory:    d.counts.memory,
		Tensors:   d.counts.tensors,
		ToDevice:  d.counts.toDevice.read(),
		ToHost:    d.counts.toHost.read(),
		OnDevice:  d.counts.onDevice.read(),
		Reclaimed: d.counts.reclaimed.Load(),
		Retries:   d.counts.retries.Load(),
	}
	if d.memory != nil { // it is not there yet if opening failed
		s.Lent, s.Cached = d.memory.usage()
	}
	for stream := range d.streams {
		if stream == d.own {
			continue
		}
		s.Streams++
		for _, e := range stream.unfinished() {
			if done, _ := e.result(); !done {
				s.Events++
			}
		}
	}
	return s
}
