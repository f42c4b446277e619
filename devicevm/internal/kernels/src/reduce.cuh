// Sums and maxima, in an order that does not depend on the device, so that two runs give the same bits.
#pragma once
#include "math.cuh"

// block_sum returns the sum of x over a block of 256 threads, to all of them.
template <typename T> __device__ static inline T block_sum(T x) {
  __shared__ T part[256];
  part[THREAD] = x;
  sync();
  for (u32 half = 128; half > 0; half /= 2) {
    if (THREAD < half) part[THREAD] += part[THREAD + half];
    sync();
  }
  T sum = part[0];
  sync(); // before part is written again
  return sum;
}

template <typename T> __device__ static inline T block_max(T x) {
  __shared__ T part[256];
  part[THREAD] = x;
  sync();
  for (u32 half = 128; half > 0; half /= 2) {
    if (THREAD < half && !(part[THREAD] >= part[THREAD + half])) { // a NaN on the left stays one on the right
      T a = part[THREAD], b = part[THREAD + half];
      part[THREAD] = a == a ? b : a;
    }
    sync();
  }
  T most = part[0];
  sync();
  return most;
}

// Sum and Maximum are what is reduced with.
struct Sum {
  template <typename T> __device__ static T start() { return 0; }
  template <typename T> __device__ static T join(T a, T b) { return a + b; }
  template <typename T> __device__ static T block(T x) { return block_sum(x); }
};

struct Maximum {
  template <typename T> __device__ static T start() { return -real<T>::inf(); }
  template <typename T> __device__ static T join(T a, T b) { return a != a || a >= b ? a : b; } // NaN wins
  template <typename T> __device__ static T block(T x) { return block_max(x); }
};

// reduce_rows: in is (rows, n), out (rows, parts): out[r*parts + p] is the reduction of part p of row r. One block
// of 256 threads reduces one part. A long row takes two passes, the second over the parts of the first.
template <typename F, typename T> __device__ static inline void reduce_rows(const T *in, T *out, u32 n, u32 part, u32 parts) {
  u32 row = BLOCK / parts, lo = BLOCK % parts * part, hi = lo + part < n ? lo + part : n;
  T sum = F::template start<T>();
  for (u32 i = lo + THREAD; i < hi; i += THREADS) sum = F::join(sum, in[(u64)row * n + i]);
  sum = F::block(sum);
  if (THREAD == 0) out[BLOCK] = sum;
}

// reduce_columns: in is (outer, n, inner), out (outer, parts, inner): reduces n, by parts. Threads run along inner, so
// reads are coalesced.
template <typename F, typename T>
__device__ static inline void reduce_columns(const T *in, T *out, u32 n, u32 inner, u32 part, u32 parts, u32 outer) {
  for_each(k, outer * parts * inner) {
    u32 column = k % inner, p = k / inner % parts, o = k / inner / parts;
    u32 lo = p * part, hi = lo + part < n ? lo + part : n;
    T sum = F::template start<T>();
    for (u32 i = lo; i < hi; i++) sum = F::join(sum, in[((u64)o * n + i) * inner + column]);
    out[k] = sum;
  }
}

template <typename T> __device__ static void sum_rows(const T *in, T *out, u32 n, u32 part, u32 parts) { reduce_rows<Sum>(in, out, n, part, parts); }
template <typename T> __device__ static void max_rows(const T *in, T *out, u32 n, u32 part, u32 parts) { reduce_rows<Maximum>(in, out, n, part, parts); }
template <typename T> __device__ static void sum_columns(const T *in, T *out, u32 n, u32 inner, u32 part, u32 parts, u32 outer) {
  reduce_columns<Sum>(in, out, n, inner, part, parts, outer);
}
template <typename T> __device__ static void max_columns(const T *in, T *out, u32 n, u32 inner, u32 part, u32 parts, u32 outer) {
  reduce_columns<Maximum>(in, out, n, inner, part, parts, outer);
}

#define params(T) (const T *in, T *out, u32 n, u32 part, u32 parts)
both(sum_rows, params, (in, out, n, part, parts))
both(max_rows, params, (in, out, n, part, parts))
#undef params
#define params(T) (const T *in, T *out, u32 n, u32 inner, u32 part, u32 parts, u32 outer)
both(sum_columns, params, (in, out, n, inner, part, parts, outer))
both(max_columns, params, (in, out, n, inner, part, parts, outer))
#undef params
