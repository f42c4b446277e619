package plan

// This file tests products of images.

import (
	"slices"
	"strings"
	"testing"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// convolutions is a differentiated network of two convolutions, each rectified.
func convolutions(t *testing.T) *graph.Graph {
	t.Helper()
	src := G.NewGraph()
	must := func(n *G.Node, err error) *G.Node {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	node := func(name string, shape ...int) *G.Node {
		return G.NewTensor(src, tensor.Float32, 4, G.WithShape(shape...), G.WithName(name))
	}
	x, w1, w2 := node("x", 2, 3, 5, 6), node("w1", 4, 3, 3, 3), node("w2", 7, 4, 3, 3)
	for _, w := range []*G.Node{w1, w2} {
		x = must(G.Rectify(must(G.Conv2d(x, w, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))))
	}
	if _, err := G.Grad(must(G.Sum(x)), w1, w2); err != nil {
		t.Fatal(err)
	}
	g, err := graph.Read(src)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Images are not transposed; the rectifiers are part of the products.
func TestImages(t *testing.T) {
	leak.Check(t)
	g := convolutions(t)
	for _, c := range []struct {
		opts Options
		want []string
	}{
		{Options{}, []string{
			"Im2Col", "Product zero: 2, 2 results", "Im2Col", "Product zero scalar: 4, 2 results", "Sum",
			"plan.ImageMatMul", "plan.ImageMatMul", "plan.ImageMatMul", "Col2Im",
		}},
		{Options{NoFuse: true}, []string{"Transpose", "Transpose", "Transpose", "Transpose"}},
	} {
		c.opts.Roots = Roots(g)
		p, err := Build(g, c.opts)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range p.Steps {
			if name := describe(s); !strings.HasPrefix(name, "Elementwise") && (!c.opts.NoFuse || name == "Transpose") {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: steps\n%s\nwant\n%s", c.opts, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
