package asynccopy_test

// This file measures two devices: copies between them, and feeding both.

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"gorgonia.org/tensor"
)

// BenchmarkPeer copies between two devices: CUDA's, if there are two, or software devices, through the host.
func BenchmarkPeer(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(size(n), func(b *testing.B) {
			_, from := benchDevice(b)
			other, to := secondDevice(b)
			x, err := from.Empty(tensor.Uint8, n)
			if err != nil {
				b.Fatal(err)
			}
			y, err := to.Empty(tensor.Uint8, n)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				if err := to.CopyInto(y, x, false); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(other.Stats().OnDevice.Staged)/float64(other.Stats().OnDevice.Copies), "staged/copy")
		})
	}
}

// BenchmarkDevices feeds one device, or two at once: CUDA's, if there are two, or a software device beside. The bytes
// are those of all.
func BenchmarkDevices(b *testing.B) {
	const n = 64 << 20
	for _, mem := range []string{"pinned", "pageable"} {
		for _, devices := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/mem=%s/devices=%d", size(n), mem, devices), func(b *testing.B) {
				_, s := benchDevice(b)
				streams := []*asynccopy.Stream{s}
				if devices == 2 {
					_, s := secondDevice(b)
					streams = append(streams, s)
				}
				var hosts []*tensor.Dense
				var xs []*asynccopy.Tensor
				for _, s := range streams {
					hosts = append(hosts, hostMemory(b, mem, n))
					x, err := s.Empty(tensor.Uint8, n)
					if err != nil {
						b.Fatal(err)
					}
					xs = append(xs, x)
				}
				b.SetBytes(int64(devices) * n)
				for b.Loop() {
					for i, s := range streams {
						if err := s.ToDeviceInto(xs[i], hosts[i], true); err != nil {
							b.Fatal(err)
						}
					}
					for _, x := range xs {
						if err := x.Wait(context.Background()); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// secondDevice returns the second CUDA device, or a software device if there is none.
func secondDevice(b *testing.B) (*asynccopy.Device, *asynccopy.Stream) {
	d, err := asynccopy.Open(1)
	if errors.Is(err, asynccopy.ErrUnavailable) {
		d, err = asynccopy.OpenSoft()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	s, err := d.NewStream()
	if err != nil {
		b.Fatal(err)
	}
	return d, s
}
