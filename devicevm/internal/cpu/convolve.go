package cpu

// This file lays patches of images out as rows, and adds rows up to images.

import (
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
)

// patches walks the rows of one image's patches.
type patches struct {
	graph.Window
	c, h, w, outH, outW int
}

func (p *patches) rowLength() int { return p.c * p.KernelH * p.KernelW }

func im2col[T float](r *Runner, s *plan.Step, w graph.Window) func() {
	shape, out := s.In[0].Shape, s.Out.Shape
	p := patches{w, shape[1], shape[2], shape[3], out[1], out[2]}
	image, rows := shape[1]*shape[2]*shape[3], p.outH*p.outW*p.rowLength()
	return func() {
		im, col := values[T](r.mem, s.In[0]), values[T](r.mem, s.Out)
		parallel(shape[0], max(grain/max(rows, 1), 1), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				layOut(&p, im[i*image:(i+1)*image], col[i*rows:(i+1)*rows])
			}
		})
	}
}

func layOut[T float](p *patches, im, col []T) {
	for oh := range p.outH {
		for ow := range p.outW {
			left := ow*p.StrideW - p.PadW
			inside := p.DilationW == 1 && left >= 0 && left+p.KernelW <= p.w
			for c := range p.c {
				plane := im[c*p.h*p.w : (c+1)*p.h*p.w]
				for kh := range p.KernelH {
					row := col[:p.KernelW]
					col = col[p.KernelW:]
					y := oh*p.StrideH - p.PadH + kh*p.DilationH
					switch {
					case y < 0 || y >= p.h:
						clear(row)
					case inside:
						from := plane[y*p.w+left:][:len(row)]
						for i := range row {
							row[i] = from[i]
						}
					default:
						for kw := range row {
							x := left + kw*p.DilationW
							if x < 0 || x >= p.w {
								row[kw] = 0
							} else {
								row[kw] = plane[y*p.w+x]
							}
						}
					}
				}
			}
		}
	}
}

func col2im[T float](r *Runner, s *plan.Step, op graph.Col2Im) func() {
	in := s.In[0].Shape
	p := patches{op.Window, op.C, op.H, op.W, in[1], in[2]}
	image, rows := op.C*op.H*op.W, p.outH*p.outW*p.rowLength()
	return func() {
		col, im := values[T](r.mem, s.In[0]), values[T](r.mem, s.Out)
		parallel(op.N, max(grain/max(rows, 1), 1), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				addUp(&p, col[i*rows:(i+1)*rows], im[i*image:(i+1)*image])
			}
		})
	}
}

func addUp[T float](p *patches, col, im []T) {
	clear(im)
	for oh := range p.outH {
		for ow := range p.outW {
			left := ow*p.StrideW - p.PadW
			inside := p.DilationW == 1 && left >= 0 && left+p.KernelW <= p.w
			for c := range p.c {
				plane := im[c*p.h*p.w : (c+1)*p.h*p.w]
				for kh := range p.KernelH {
					row := col[:p.KernelW]
					col = col[p.KernelW:]
					y := oh*p.StrideH - p.PadH + kh*p.DilationH
					switch {
					case y < 0 || y >= p.h:
					case inside:
						to := plane[y*p.w+left:][:len(row)]
						for i := range row {
							to[i] += row[i]
						}
					default:
						for kw, v := range row {
							if x := left + kw*p.DilationW; x >= 0 && x < p.w {
								plane[y*p.w+x] += v
							}
						}
					}
				}
			}
		}
	}
}
