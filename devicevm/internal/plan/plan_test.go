package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// perceptron is a differentiated network of two layers with biases, for a batch of 8.
func perceptron(t *testing.T) (g *graph.Graph, cost *graph.Node) {
	t.Helper()
	src := G.NewGraph()
	must := func(n *G.Node, err error) *G.Node {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	matrix := func(name string, rows, cols int) *G.Node {
		return G.NewMatrix(src, tensor.Float32, G.WithShape(rows, cols), G.WithName(name))
	}
	x, y := matrix("x", 8, 20), matrix("y", 8, 3)
	w1, b1, w2, b2 := matrix("w1", 20, 5), matrix("b1", 1, 5), matrix("w2", 5, 3), matrix("b2", 1, 3)
	h := must(G.Rectify(must(G.BroadcastAdd(must(G.Mul(x, w1)), b1, nil, []byte{0}))))
	logits := must(G.BroadcastAdd(must(G.Mul(h, w2)), b2, nil, []byte{0}))
	loss := must(G.Neg(must(G.Mean(must(G.Sum(must(G.HadamardProd(must(G.LogSoftMax(logits)), y)), 1))))))
	if _, err := G.Grad(loss, w1, b1, w2, b2); err != nil {
		t.Fatal(err)
	}
	g, err := graph.Read(src)
	if err != nil {
		t.Fatal(err)
	}
	return g, g.Of(loss)
}

// describe is a step as a word.
func describe(s Step) string {
	word, e := "Elementwise", (*Elementwise)(nil)
	switch op := s.Op.(type) {
	case *Elementwise:
		e = op
	case Product:
		word, e = "Product", op.Then
	default:
		return strings.TrimPrefix(fmt.Sprintf("%T", s.Op), "graph.")
	}
	for _, a := range e.Args {
		if a.Zero {
			word += " zero"
			continue
		}
		word += []string{" full", " scalar", " repeated", ""}[a.Kind]
	}
	word += fmt.Sprintf(": %d", len(e.Code))
	if len(s.More) > 0 {
		word += fmt.Sprintf(", %d results", 1+len(s.More))
	}
	return word
}

// Everything that training needs, and nothing else.
func TestProgramOfPerceptron(t *testing.T) {
	leak.Check(t)
	g, cost := perceptron(t)
	p, err := Build(g, Options{Roots: Roots(g)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range p.Steps {
		got = append(got, describe(s))
	}
	slices.Sort(got)
	want := []string{
		"Elementwise full full: 1",   // logp y
		"Elementwise full full: 2",   // the mean, and its negation
		"Elementwise full scalar: 1", // the gradient of the mean, times y
		"MatMul", "MatMul",           // dW: there is no dX of x
		"Product full zero: 2",                // dX, and the rectifier's gradient by its mask
		"Product repeated zero: 3, 2 results", // x w1 + b1, and the rectifier of it
		"Product repeated: 1",                 // logits + b2
		"Softmax", "SoftmaxDiff",
		"Sum", "Sum", "Sum", // of biases, and the loss: of rows and of those sums at once
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("steps:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, n := range []*graph.Node{cost} {
		if _, ok := p.Where[n]; !ok {
			t.Errorf("%v is not kept", n)
		}
	}
	if len(p.Inputs) != 6 {
		t.Errorf("%d inputs, want 6", len(p.Inputs))
	}
}

// No step writes to what a later one still reads, in any way of building the program.
func TestMemoryIsNotShared(t *testing.T) {
	leak.Check(t)
	g, _ := perceptron(t)
	var sizes []int64
	for _, opts := range []Options{{}, {Share: true}, {Share: true, NoFuse: true}, {Share: true, Eval: true}, {Bugs: true}} {
		opts.Roots = Roots(g)
		p, err := Build(g, opts)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, p.ArenaSize)
		type use struct {
			Value
			first, last int
		}
		var uses []use
		note := func(v Value, step int) {
			if v.Space != Arena || v.N == 0 {
				return
			}
			if v.Off%alignment != 0 || v.Off+v.Bytes() > p.ArenaSize {
				t.Errorf("a value at %d of %d bytes in an arena of %d", v.Off, v.Bytes(), p.ArenaSize)
			}
			for i := range uses {
				if uses[i].Off == v.Off && uses[i].N == v.N && uses[i].last >= 0 {
					uses[i].last = step
					return
				}
			}
			t.Errorf("step %d reads what none has written", step)
		}
		for i, s := range p.Steps {
			for _, v := range s.In {
				note(v, i)
			}
			for _, v := range s.results() {
				if v.Space != Arena {
					continue
				}
				for k := range uses { // what this overwrites is over
					u := &uses[k]
					if u.last >= 0 && u.Off < v.Off+v.Bytes() && v.Off < u.Off+u.Bytes() {
						if u.last >= i {
							t.Errorf("step %d overwrites what it reads", i)
						}
						u.last = -1
					}
				}
				uses = append(uses, use{v, i, i})
				note(v, i)
			}
		}
		for _, n := range opts.Roots {
			note(p.Where[n], len(p.Steps))
		}
		for i, u := range uses {
			if !opts.Share && u.last < 0 {
				t.Errorf("value %d shares its memory, though there are only %d bytes", i, p.ArenaSize)
			}
		}
	}
	if sizes[0] <= sizes[1] {
		t.Errorf("%d bytes shared, %d not", sizes[1], sizes[0])
	}
}

// No step is larger than devices have room for.
func TestStepsAreBounded(t *testing.T) {
	leak.Check(t)
	src := G.NewGraph()
	sum := G.NewVector(src, tensor.Float32, G.WithShape(4), G.WithName("x"))
	for i := range 40 {
		other := G.NewVector(src, tensor.Float32, G.WithShape(4), G.WithName(fmt.Sprint("x", i)))
		if i%3 == 0 {
			other = G.Must(G.HadamardProd(other, G.Must(G.Sin(other))))
		}
		sum = G.Must(G.Add(other, sum))
	}
	for range 40 {
		sum = G.Must(G.Tanh(sum))
	}
	g, err := graph.Read(src)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Build(g, Options{Roots: []*graph.Node{g.Of(sum)}})
	if err != nil {
		t.Fatal(err)
	}
	operands, code := 0, 0
	for _, s := range p.Steps {
		e := s.Op.(*Elementwise)
		if len(e.Args) > broadest || len(e.Code) > longest {
			t.Errorf("a step of %d operands and %d instructions", len(e.Args), len(e.Code))
		}
		operands, code = max(operands, len(e.Args)), max(code, len(e.Code))
	}
	if operands != broadest || code != longest {
		t.Errorf("steps have up to %d operands and %d instructions, want %d and %d", operands, code, broadest, longest)
	}
}
