// Softmax and its logarithm along the last axis, and their derivatives. One block of 256 threads a row.
#pragma once
#include "math.cuh"
#include "reduce.cuh"

template <typename T> __device__ static void softmax(const T *x, T *y, u32 rows, u32 n, u32 log) {
  for (u32 row = BLOCK; row < rows; row += BLOCKS) {
    const T *in = x + (u64)row * n;
    T *out = y + (u64)row * n, most = -real<T>::inf(), sum = 0;
    for (u32 i = THREAD; i < n; i += THREADS) most = most == most && !(in[i] <= most) ? in[i] : most;
    most = block_max(most);
    for (u32 i = THREAD; i < n; i += THREADS) sum += exponential(in[i] - most);
    sum = block_sum(sum);
    T low = logarithm(sum);
    for (u32 i = THREAD; i < n; i += THREADS) out[i] = log ? in[i] - most - low : exponential(in[i] - most) / sum;
  }
}

// softmax_diff: y is softmax's result, dy the gradient there. dx = (dy - sum(dy y)) y, or dy - sum(dy) exp(y) of the logarithm.
template <typename T> __device__ static void softmax_diff(const T *y, const T *dy, T *dx, u32 rows, u32 n, u32 log) {
  for (u32 row = BLOCK; row < rows; row += BLOCKS) {
    u64 at = (u64)row * n;
    T sum = 0;
    for (u32 i = THREAD; i < n; i += THREADS) sum += log ? dy[at + i] : dy[at + i] * y[at + i];
    sum = block_sum(sum);
    for (u32 i = THREAD; i < n; i += THREADS)
      dx[at + i] = log ? dy[at + i] - exponential(y[at + i]) * sum : (dy[at + i] - sum) * y[at + i];
  }
}

#define params(T) (const T *x, T *y, u32 rows, u32 n, u32 log)
both(softmax, params, (x, y, rows, n, log))
#undef params
#define params(T) (const T *y, const T *dy, T *dx, u32 rows, u32 n, u32 log)
both(softmax_diff, params, (y, dy, dx, rows, n, log))
#undef params
