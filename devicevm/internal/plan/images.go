package plan

// This file has the products of convolutions leave images as they are.
//
// Gorgonia computes a convolution as a product of matrices whose rows are the places of all images, in the order
// (batch, height, width), and whose columns are channels; images are (batch, channels, height, width). So each product is
// followed by a transposition, and its gradients' preceded by one. As products of each image's own matrices, whose
// rows are channels, they need none, and what follows element by element can be part of them.

import (
	"slices"

	"github.com/pintensor/pin/devicevm/internal/graph"
)

// ImageMatMul is a product of matrices for each image of a batch. An operand is the images' matrices, one after the other,
// or one matrix for all, by its number in One; -1 for none. With Sum the products are added up, else they are the result,
// one after the other.
type ImageMatMul struct {
	TransA, TransB bool
	Images         int
	One            int
	Sum            bool
	M, N, K        int // of one: C is (M, N), A (M, K), B (K, N), after transposition
}

// images replaces products of places by products of images.
func (b *builder) images() {
	if b.NoFuse {
		return
	}
	for j := 0; j < len(b.prog.Steps); j++ {
		op, ok := b.prog.Steps[j].Op.(graph.Transpose)
		if !ok {
			continue
		}
		switch {
		case slices.Equal(op.Pattern, []int{0, 3, 1, 2}):
			if i := b.toImages(j); i >= 0 {
				b.prog.Steps = slices.Delete(b.prog.Steps, i, i+1)
				j--
			}
		case slices.Equal(op.Pattern, []int{0, 2, 3, 1}):
			if b.fromImages(j) {
				b.prog.Steps = slices.Delete(b.prog.Steps, j, j+1)
				j--
			}
		}
	}
}

// toImages makes of the step j, a transposition to images, the product of images if what it transposes is a product, and
// returns the step of that, which is needed no more, or -1.
func (b *builder) toImages(j int) int {
	s := &b.prog.Steps[j]
	v := s.In[0]
	i := slices.IndexFunc(b.prog.Steps[:j], func(o Step) bool { return o.Out.id() == v.id() })
	if i < 0 || b.lasts(v) || len(b.readers(v)) != 1 {
		return -1
	}
	product := &b.prog.Steps[i]
	op, ok := product.Op.(graph.MatMul)
	batch, channels, places := s.Out.Shape[0], s.Out.Shape[1], s.Out.Shape[2]*s.Out.Shape[3]
	if !ok || op.Batched || op.TransA || product.Out.Shape[0] != batch*places || product.Out.Shape[1] != channels || s.Out.N == 0 {
		return -1
	}
	s.In = []Value{product.In[1], product.In[0]}
	s.Op = ImageMatMul{TransA: !op.TransB, TransB: true, Images: batch, M: channels, N: places, K: product.In[0].Shape[1]}
	return i
}

// fromImages makes products of images of those that read the result of the step j, a transposition from images, if all who
// do are such.
func (b *builder) fromImages(j int) bool {
	s := &b.prog.Steps[j]
	batch, channels, places := s.In[0].Shape[0], s.In[0].Shape[1], s.In[0].Shape[2]*s.In[0].Shape[3]
	if b.lasts(s.Out) || s.Out.N == 0 {
		return false
	}
	readers := b.readers(s.Out)
	products := make([]ImageMatMul, len(readers))
	for k, r := range readers {
		product := &b.prog.Steps[r]
		op, ok := product.Op.(graph.MatMul)
		if !ok || op.Batched || product.In[0].id() != s.Out.id() || product.In[1].id() == s.Out.id() || product.Out.N == 0 ||
			len(product.In[0].Shape) != 2 || product.In[0].Shape[0] != batch*places || product.In[0].Shape[1] != channels {
			return false
		}
		columns := product.Out.Shape[1]
		switch {
		case !op.TransA:
			products[k] = ImageMatMul{TransA: true, TransB: op.TransB, Images: batch, One: 1, M: places, N: columns, K: channels}
		case !op.TransB:
			products[k] = ImageMatMul{Images: batch, One: -1, Sum: true, M: channels, N: columns, K: places}
		default:
			return false
		}
	}
	for k, r := range readers {
		b.prog.Steps[r].Op = products[k]
		b.prog.Steps[r].In[0] = s.In[0]
	}
	return true
}

// readers lists the steps that read a value.
func (b *builder) readers(v Value) []int {
	var list []int
	for i := range b.prog.Steps {
		if reads(b.prog.Steps[i].In, v) {
			list = append(list, i)
		}
	}
	return list
}

// lasts reports whether a value is kept until the next run.
func (b *builder) lasts(v Value) bool {
	return slices.ContainsFunc(b.Roots, func(n *graph.Node) bool { return b.places[n].id() == v.id() })
}
