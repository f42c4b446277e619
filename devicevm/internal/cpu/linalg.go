package cpu

// This file has products of matrices and vectors.

import (
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	G "gorgonia.org/gorgonia"
)

func transposed(t bool) blas.Transpose {
	if t {
		return blas.Trans
	}
	return blas.NoTrans
}

// ownBLAS reports whether the user has not chosen a BLAS by gorgonia.Use: gonum's is there by default.
func ownBLAS() bool {
	_, ok := G.WhichBLAS().(gonum.Implementation)
	return ok
}

// gemm is c = op(a) x op(b): m x n from m x k and k x n, all row-major and contiguous.
func gemm[T float](transA, transB bool, m, n, k int, a, b, c []T) {
	lda, ldb := k, n
	if transA {
		lda = m
	}
	if transB {
		ldb = k
	}
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		clear(c)
		return
	}
	if vectors && m >= tileRows && n >= 4 && ownBLAS() {
		vectorGemm(transA, transB, m, n, k, a, b, c)
		return
	}
	switch c := any(c).(type) {
	case []float32:
		G.WhichBLAS().Sgemm(transposed(transA), transposed(transB), m, n, k, 1, any(a).([]float32), lda, any(b).([]float32), ldb, 0, c, n)
	case []float64:
		G.WhichBLAS().Dgemm(transposed(transA), transposed(transB), m, n, k, 1, any(a).([]float64), lda, any(b).([]float64), ldb, 0, c, n)
	}
}

// matMulThen is a product of matrices, and then what its elements go through, in their place.
func matMulThen[T float](r *Runner, s *plan.Step, op plan.Product) func() {
	var multiply func()
	if op.Images.Images > 0 {
		multiply = imageMatMul[T](r, s, op.Images)
	} else {
		multiply = matMul[T](r, s, op.MatMul, op.Shape)
	}
	return followed[T](r, s, multiply, 2, op.Then)
}

// followed is first, of own operands, and then what its elements go through, in their place.
func followed[T float](r *Runner, s *plan.Step, first func(), own int, code *plan.Elementwise) func() {
	then := *s
	then.In = append([]plan.Value{s.Out}, s.In[own:]...)
	finish := elementwise[T](r, &then, code)
	return func() {
		first()
		finish()
	}
}

func matMul[T float](r *Runner, s *plan.Step, op graph.MatMul, shape []int) func() {
	dims := len(shape)
	m, n := shape[dims-2], shape[dims-1]
	k := s.In[0].Shape[dims-1]
	if op.TransA {
		k = s.In[0].Shape[dims-2]
	}
	count := 1
	for _, d := range shape[:dims-2] {
		count *= d
	}
	return func() {
		a, b, c := values[T](r.mem, s.In[0]), values[T](r.mem, s.In[1]), values[T](r.mem, s.Out)
		for i := range count {
			gemm(op.TransA, op.TransB, m, n, k, a[i*m*k:(i+1)*m*k], b[i*k*n:(i+1)*k*n], c[i*m*n:(i+1)*m*n])
		}
	}
}

// imageMatMul is a product for each image.
func imageMatMul[T float](r *Runner, s *plan.Step, op plan.ImageMatMul) func() {
	stepA, stepB, stepC := op.M*op.K, op.K*op.N, op.M*op.N
	switch op.One {
	case 0:
		stepA = 0
	case 1:
		stepB = 0
	}
	if op.Sum {
		stepC = 0
	}
	return func() {
		gemms(op.TransA, op.TransB, op.M, op.N, op.K, op.Images, stepA, stepB, stepC,
			values[T](r.mem, s.In[0]), values[T](r.mem, s.In[1]), values[T](r.mem, s.Out))
	}
}

// gemms is so many products, whose matrices are steps of elements apart; a stepC of 0 adds them up.
func gemms[T float](transA, transB bool, m, n, k, products, stepA, stepB, stepC int, a, b, c []T) {
	if k > 0 && vectors && ownBLAS() {
		vectorGemms(transA, transB, m, n, k, products, stepA, stepB, stepC, a, b, c)
		return
	}
	for i := range products {
		to := c[i*stepC:][:m*n]
		if stepC == 0 && i > 0 {
			to = make([]T, m*n)
		}
		gemm(transA, transB, m, n, k, a[i*stepA:][:m*k], b[i*stepB:][:k*n], to)
		if stepC == 0 && i > 0 {
			for j, x := range to {
				c[j] += x
			}
		}
	}
}

func matVec[T float](r *Runner, s *plan.Step, op graph.MatVec) func() {
	rows, cols := s.In[0].Shape[0], s.In[0].Shape[1]
	return func() {
		a, x, y := values[T](r.mem, s.In[0]), values[T](r.mem, s.In[1]), values[T](r.mem, s.Out)
		if rows == 0 || cols == 0 {
			clear(y)
			return
		}
		switch y := any(y).(type) {
		case []float32:
			G.WhichBLAS().Sgemv(transposed(op.Trans), rows, cols, 1, any(a).([]float32), cols, any(x).([]float32), 1, 0, y, 1)
		case []float64:
			G.WhichBLAS().Dgemv(transposed(op.Trans), rows, cols, 1, any(a).([]float64), cols, any(x).([]float64), 1, 0, y, 1)
		}
	}
}

func dot[T float](r *Runner, s *plan.Step) func() {
	return func() {
		a, b, c := values[T](r.mem, s.In[0]), values[T](r.mem, s.In[1]), values[T](r.mem, s.Out)
		var sum float64
		for i, x := range a {
			sum += float64(x) * float64(b[i])
		}
		c[0] = T(sum)
	}
}

func outer[T float](r *Runner, s *plan.Step) func() {
	return func() {
		a, b, c := values[T](r.mem, s.In[0]), values[T](r.mem, s.In[1]), values[T](r.mem, s.Out)
		for i, x := range a {
			row := c[i*len(b) : (i+1)*len(b)]
			for j, y := range b {
				row[j] = x * y
			}
		}
	}
}
