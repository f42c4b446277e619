// Softmax and its logarithm along an axis, and their derivatives. One block of 256 threads a line: lines are (outer, n,
// inner), and element i of line l is at (l / inner) * n * inner + l % inner + i * inner.
#pragma once
#include "math.cuh"
#include "reduce.cuh"

template <typename T> __device__ static void softmax(const T *x, T *y, u32 lines, u32 n, u32 inner, u32 log) {
  for (u32 line = BLOCK; line < lines; line += BLOCKS) {
    u64 start = (u64)(line / inner) * n * inner + line % inner;
    const T *in = x + start;
    T *out = y + start, most = -real<T>::inf(), sum = 0;
    for (u32 i = THREAD; i < n; i += THREADS) most = Maximum::join(most, in[(u64)i * inner]);
    most = block_max(most);
    for (u32 i = THREAD; i < n; i += THREADS) sum += exponential(in[(u64)i * inner] - most);
    sum = block_sum(sum);
    T low = logarithm(sum);
    for (u32 i = THREAD; i < n; i += THREADS) {
      T v = in[(u64)i * inner] - most;
      out[(u64)i * inner] = log ? v - low : exponential(v) / sum;
    }
  }
}

// softmax_diff: y is softmax's result, dy the gradient there. dx = (dy - sum(dy y)) y, or dy - sum(dy) exp(y) of the
// logarithm.
template <typename T> __device__ static void softmax_diff(const T *y, const T *dy, T *dx, u32 lines, u32 n, u32 inner, u32 log) {
  for (u32 line = BLOCK; line < lines; line += BLOCKS) {
    u64 start = (u64)(line / inner) * n * inner + line % inner;
    T sum = 0;
    for (u32 i = THREAD; i < n; i += THREADS) {
      u64 at = start + (u64)i * inner;
      sum += log ? dy[at] : dy[at] * y[at];
    }
    sum = block_sum(sum);
    for (u32 i = THREAD; i < n; i += THREADS) {
      u64 at = start + (u64)i * inner;
      dx[at] = log ? dy[at] - exponential(y[at]) * sum : (dy[at] - sum) * y[at];
    }
  }
}

#define params(T) (const T *x, T *y, u32 lines, u32 n, u32 inner, u32 log)
both(softmax, params, (x, y, lines, n, inner, log))
#undef params
#define params(T) (const T *y, const T *dy, T *dx, u32 lines, u32 n, u32 inner, u32 log)
both(softmax_diff, params, (y, dy, dx, lines, n, inner, log))
#undef params
