// Expressions that know rows: instructions may be a softmax of the row, or its differential. So a softmax, all that comes
// before and after it, and the gradient are one expression: nothing but the operands is read, and nothing waited for.
#pragma once
#include "elementwise.cuh"
#include "reduce.cuh"

// row_operation computes op if it is one of rows. Those are whole operations, as what takes time in a short kernel is
// to fetch instructions from here and there.
template <typename T> __device__ static INLINE bool row_operation(u32 op, T &x, T y, bool there) {
  if (op < ROW_SOFTMAX) return false;
  const bool log = op == ROW_LOG_SOFTMAX || op == ROW_LOG_SOFTMAX_DIFF;
  if (op >= ROW_SOFTMAX_DIFF) {
    const T sum = over_warp<Sum>(there ? (log ? x : x * y) : T(0));
    x = log ? x - exponential(y) * sum : (x - sum) * y;
    return true;
  }
  x -= over_warp<Maximum>(there ? x : -real<T>::inf());
  const T e = exponential(x), sum = over_warp<Sum>(there ? e : T(0));
  x = log ? x - logarithm(sum) : e / sum;
  return true;
}

// rows evaluates e for rows of up to 32 elements, a warp a row.
template <typename T> __device__ static INLINE void rows(u32 count, u32 width, const Expression &e) {
  const u32 lane = THREAD % 32;
  for (u32 first = BLOCK * (THREADS / 32); first < count; first += BLOCKS * (THREADS / 32)) { // the same for all threads, as they shuffle
    const u32 row = first + THREAD / 32, at[1] = {row * width + lane};
    const bool there = row < count && lane < width;
    T x[1] = {};
    evaluate<false>(e.operand, e.operands, e.code, e.length, e.result, at, there, x,
                    [&](u32 op, T(&x)[1], const T(&y)[1]) INLINE_LAMBDA { return row_operation(op, x[0], y[0], there); });
  }
}

#define params(T) (u32 count, u32 width, const Expression e)
both(rows, params, (count, width, e))
#undef params
