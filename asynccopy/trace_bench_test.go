package asynccopy_test

// This file measures what tracing costs.

import (
	"context"
	"io"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"gorgonia.org/tensor"
)

// BenchmarkTrace issues copies of 4 KiB, traced and not.
func BenchmarkTrace(b *testing.B) {
	for _, traced := range []bool{false, true} {
		name := "call=ToDeviceInto/size=4KiB/trace=off"
		var opts []asynccopy.Option
		if traced {
			name = "call=ToDeviceInto/size=4KiB/trace=on"
			opts = append(opts, asynccopy.WithTrace(asynccopy.NewTrace(io.Discard)))
		}
		b.Run(name, func(b *testing.B) {
			d, err := asynccopy.OpenDefault(opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			s, err := d.NewStream()
			if err != nil {
				b.Fatal(err)
			}
			x, err := s.Empty(tensor.Uint8, 4096)
			if err != nil {
				b.Fatal(err)
			}
			t := hostMemory(b, "pinned", 4096)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := s.ToDeviceInto(x, t, true); err != nil {
					b.Fatal(err)
				}
				if i++; i%256 == 0 {
					s.Synchronize(context.Background())
				}
			}
		})
	}
}
