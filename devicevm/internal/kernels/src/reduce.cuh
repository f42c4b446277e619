// Sums and maxima, in an order that does not depend on the device, so that two runs give the same bits.
#pragma once
#include "math.cuh"

// Sum and Maximum are what is reduced with.
struct Sum {
  template <typename T> __device__ static T start() { return 0; }
  template <typename T> __device__ static T join(T a, T b) { return a + b; }
};

struct Maximum {
  template <typename T> __device__ static T start() { return -real<T>::inf(); }
  template <typename T> __device__ static T join(T a, T b) { return a != a || a >= b ? a : b; } // NaN wins
};

// over_warp reduces x over the 32 threads of a warp, for all of them.
template <typename F, typename T> __device__ static inline T over_warp(T x) {
#pragma unroll
  for (u32 mask = 16; mask > 0; mask /= 2) x = F::join(x, shuffle(x, mask));
  return x;
}

// over_block reduces x over a block of 256 threads, for all of them.
template <typename F, typename T> __device__ static inline T over_block(T x) {
  __shared__ T part[8];
  x = over_warp<F>(x);
  if (THREAD % 32 == 0) part[THREAD / 32] = x;
  sync();
  x = part[0];
#pragma unroll
  for (u32 i = 1; i < 8; i++) x = F::join(x, part[i]);
  sync(); // before part is written again
  return x;
}

template <typename T> __device__ static inline T block_sum(T x) { return over_block<Sum>(x); }

// over reduces x over the block, or over each of its warps.
template <typename F, typename T> __device__ static inline T over(bool block, T x) { return block ? over_block<F>(x) : over_warp<F>(x); }

// run reduces x[0], x[step], ... of n elements, several of which are read at once.
template <typename F, typename T> __device__ static inline T run(const T *x, u64 step, u32 n) {
  constexpr u32 ONCE = 8;
  T sum = F::template start<T>();
  for (u32 i = 0; i < n; i += ONCE) {
    T v[ONCE];
#pragma unroll
    for (u32 j = 0; j < ONCE; j++) v[j] = i + j < n ? x[(i + j) * step] : F::template start<T>();
#pragma unroll
    for (u32 j = 0; j < ONCE; j++) sum = F::join(sum, v[j]);
  }
  return sum;
}

// steps is how many of first, first + step, ... are below end.
__device__ static inline u32 steps(u32 first, u32 end, u32 step) { return first < end ? (end - first + step - 1) / step : 0; }

// reduce_rows: in is (rows, n), out (rows, parts): out[r*parts + p] is the reduction of part p of row r. A block of 256
// threads reduces each = 1 or 8 of these, a warp one of 8. A long row takes two passes, the second over the parts of the
// first.
template <typename F, typename T>
__device__ static inline void reduce_rows(const T *in, T *out, u32 rows, u32 n, u32 part, u32 parts, u32 each) {
  u32 lanes = 256 / each, lane = THREAD % lanes, k = BLOCK * each + THREAD / lanes;
  u32 lo = k % parts * part, hi = lo + part < n ? lo + part : n;
  T sum = F::template start<T>();
  bool mine = k < rows * parts;
  if (mine) sum = run<F>(in + (u64)(k / parts) * n + lo + lane, lanes, steps(lo + lane, hi, lanes));
  sum = over<F>(each == 1, sum);
  if (mine && lane == 0) out[k] = sum;
}

// reduce_columns: in is (outer, n, inner), out (outer, parts, inner): reduces n, by parts. A block of 256 threads has
// width columns, neighbours, so that reads are coalesced, of one part; the threads of a column share its rows. width is
// a power of two.
template <typename F, typename T>
__device__ static inline void reduce_columns(const T *in, T *out, u32 n, u32 inner, u32 part, u32 parts, u32 width) {
  __shared__ T sums[256];
  u32 across = (inner + width - 1) / width, lanes = 256 / width;
  u32 column = BLOCK % across * width + THREAD % width, lane = THREAD / width, k = BLOCK / across;
  u32 lo = k % parts * part, hi = lo + part < n ? lo + part : n;
  T sum = F::template start<T>();
  if (column < inner) sum = run<F>(in + ((u64)(k / parts) * n + lo + lane) * inner + column, (u64)lanes * inner, steps(lo + lane, hi, lanes));
  sums[THREAD] = sum;
  sync();
  for (u32 half = 128; half >= width; half /= 2) {
    if (THREAD < half) sums[THREAD] = F::join(sums[THREAD], sums[THREAD + half]);
    sync();
  }
  if (THREAD < width && column < inner) out[(u64)k * inner + column] = sums[THREAD];
}

#define reduction(name, F)                                                                                                       \
  template <typename T> __device__ static void name##_rows(const T *in, T *out, u32 rows, u32 n, u32 part, u32 parts, u32 each) { \
    reduce_rows<F>(in, out, rows, n, part, parts, each);                                                                         \
  }                                                                                                                              \
  template <typename T> __device__ static void name##_columns(const T *in, T *out, u32 n, u32 inner, u32 part, u32 parts, u32 width) { \
    reduce_columns<F>(in, out, n, inner, part, parts, width);                                                                    \
  }
reduction(sum, Sum)
reduction(max, Maximum)
#undef reduction

#define params(T) (const T *in, T *out, u32 rows, u32 n, u32 part, u32 parts, u32 each)
both(sum_rows, params, (in, out, rows, n, part, parts, each))
both(max_rows, params, (in, out, rows, n, part, parts, each))
#undef params
#define params(T) (const T *in, T *out, u32 n, u32 inner, u32 part, u32 parts, u32 width)
both(sum_columns, params, (in, out, n, inner, part, parts, width))
both(max_columns, params, (in, out, n, inner, part, parts, width))
#undef params
