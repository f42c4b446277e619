// Expressions that know rows: instructions may sum a row, or find its maximum. A softmax is one, and so is all that comes
// before and after it, such as the gradient of its cross entropy: nothing but the operands is read, and nothing waited for.
#pragma once
#include "elementwise.cuh"
#include "reduce.cuh"

// rows evaluates e for rows of up to 32 elements, a warp a row.
template <typename T> __device__ static INLINE void rows(u32 count, u32 width, const Expression &e) {
  const u32 lane = THREAD % 32;
  for (u32 first = BLOCK * (THREADS / 32); first < count; first += BLOCKS * (THREADS / 32)) { // the same for all threads, as they shuffle
    const u32 row = first + THREAD / 32, at[1] = {row * width + lane};
    const bool there = row < count && lane < width;
    T x[1] = {};
    evaluate<false>(e.operand, e.operands, e.code, e.length, e.result, at, there, x, [&](u32 op, T(&x)[1]) INLINE_LAMBDA {
      if (op == ROW_SUM) x[0] = over_warp<Sum>(there ? x[0] : T(0));
      else if (op == ROW_MAX) x[0] = over_warp<Maximum>(there ? x[0] : -real<T>::inf());
      else return false;
      return true;
    });
  }
}

#define params(T) (u32 count, u32 width, const Expression e)
both(rows, params, (count, width, e))
#undef params
