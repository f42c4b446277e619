// Sums, in an order that does not depend on the device, so that two runs give the same bits.
#pragma once
#include "device.cuh"

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

// sum_rows: in is (outer, parts, n); out[o*parts + p] is the sum over part p of row o, scaled. One block of
// 256 threads sums one part. A long sum takes two passes, the second over the parts of the first.
template <typename T> __device__ static void sum_rows(const T *in, T *out, u32 n, u32 part, u32 parts, T factor) {
  u32 row = BLOCK / parts, lo = BLOCK % parts * part, hi = lo + part < n ? lo + part : n;
  T sum = 0;
  for (u32 i = lo + THREAD; i < hi; i += THREADS) sum += in[(u64)row * n + i];
  sum = block_sum(sum);
  if (THREAD == 0) out[BLOCK] = sum * factor;
}

// sum_columns: in is (outer, n, inner), out (outer, parts, inner): sums over n, by parts. Threads run along inner,
// so reads are coalesced.
template <typename T> __device__ static void sum_columns(const T *in, T *out, u32 n, u32 inner, u32 part, u32 parts, u32 outer) {
  for_each(k, outer * parts * inner) {
    u32 column = k % inner, p = k / inner % parts, o = k / inner / parts;
    u32 lo = p * part, hi = lo + part < n ? lo + part : n;
    T sum = 0;
    for (u32 i = lo; i < hi; i++) sum += in[((u64)o * n + i) * inner + column];
    out[k] = sum;
  }
}

#define params(T) (const T *in, T *out, u32 n, u32 part, u32 parts, T factor)
both(sum_rows, params, (in, out, n, part, parts, factor))
#undef params
#define params(T) (const T *in, T *out, u32 n, u32 inner, u32 part, u32 parts, u32 outer)
both(sum_columns, params, (in, out, n, inner, part, parts, outer))
#undef params
