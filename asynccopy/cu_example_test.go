//go:build cuda

package asynccopy_test

import (
	"fmt"
	"log"
	"unsafe"

	"github.com/pintensor/pin/asynccopy"
	"gorgonia.org/cu"
	"gorgonia.org/tensor"
)

// double is a kernel: x[i] = 2*x[i] for i < n.
const double = `
.version 7.0
.target sm_70
.address_size 64
.visible .entry double(.param .u64 x, .param .u32 n)
{
	.reg .pred %p1;
	.reg .f32  %f<2>;
	.reg .b32  %r<6>;
	.reg .b64  %rd<5>;
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.u32 %r5, %r2, %r3, %r4;
	setp.ge.u32 %p1, %r5, %r1;
	@%p1 bra done;
	ld.param.u64 %rd1, [x];
	cvta.to.global.u64 %rd2, %rd1;
	mul.wide.u32 %rd3, %r5, 4;
	add.u64 %rd4, %rd2, %rd3;
	ld.global.f32 %f1, [%rd4];
	add.f32 %f1, %f1, %f1;
	st.global.f32 [%rd4], %f1;
done:
	ret;
}
`

// A program that uses gorgonia.org/cu copies its tensors on its own stream, and launches its kernels on them as
// before.
func ExampleFromCU() {
	dev, err := cu.GetDevice(0)
	if err != nil {
		log.Fatal(err)
	}
	ctx := cu.NewContext(dev, cu.SchedAuto)
	defer ctx.Close()
	stream, err := ctx.MakeStream(cu.NonBlocking)
	if err != nil {
		log.Fatal(err)
	}
	defer ctx.DestroyStream(&stream)
	var module cu.Module
	if err := ctx.Do(func() (err error) { module, err = cu.LoadData(double); return err }); err != nil {
		log.Fatal(err)
	}
	defer ctx.Unload(module)
	kernel, err := ctx.ModuleFunction(module, "double")
	if err != nil {
		log.Fatal(err)
	}

	s, err := asynccopy.FromCU(ctx, stream)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Device().Close() // before the stream and the context
	host := tensor.New(tensor.WithBacking([]float32{1, 2, 3, 4}))
	x, err := s.ToDevice(host, true)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	p, n := x.CU(), uint32(x.Size())
	ctx.LaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, s.CU(), []unsafe.Pointer{unsafe.Pointer(&p), unsafe.Pointer(&n)})
	if _, err := s.ToHostInto(host, x, false); err != nil {
		log.Fatal(err)
	}
	fmt.Println(host.Data(), ctx.Error())
	// Output: [2 4 6 8] <nil>
}
