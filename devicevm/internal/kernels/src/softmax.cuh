// Softmax and its logarithm along an axis, and their derivatives. Lines are (outer, n, inner), and element i of line l is at
// (l / inner) * n * inner + l % inner + i * inner. A block of 256 threads takes each = 1 or 8 lines at a time, a warp one of
// 8.
#pragma once
#include "math.cuh"
#include "reduce.cuh"

// Line is one thread's part of a line: the elements lane, lane + lanes, ...; none of a line that is not there.
struct Line {
  u64 start;
  u32 n, inner, lane, lanes;
  __device__ Line(u32 line, u32 lines, u32 n, u32 inner, u32 each)
      : start((u64)(line / inner) * n * inner + line % inner), n(line < lines ? n : 0), inner(inner), lane(THREAD % (256 / each)), lanes(256 / each) {}
  __device__ u64 at(u32 i) const { return start + (u64)i * inner; }
};

// softmax reads its first element once, and the others, if lines are that long, from the cache.
template <typename T> __device__ static INLINE void softmax_line(const T *in, T *out, const Line &l, bool block, bool log) {
  T first = l.lane < l.n ? in[l.at(l.lane)] : -real<T>::inf(), most = first, sum = 0;
  for (u32 i = l.lane + l.lanes; i < l.n; i += l.lanes) most = Maximum::join(most, in[l.at(i)]);
  most = over<Maximum>(block, most);
  T e = exponential(first - most);
  if (l.lane < l.n) sum = e;
  for (u32 i = l.lane + l.lanes; i < l.n; i += l.lanes) sum += exponential(in[l.at(i)] - most);
  sum = over<Sum>(block, sum);
  T low = logarithm(sum);
  if (l.lane < l.n) out[l.at(l.lane)] = log ? first - most - low : e / sum;
  for (u32 i = l.lane + l.lanes; i < l.n; i += l.lanes) {
    T v = in[l.at(i)] - most;
    out[l.at(i)] = log ? v - low : exponential(v) / sum;
  }
}

// softmax_diff: y is softmax's result, dy the gradient there. dx = (dy - sum(dy y)) y, or dy - sum(dy) exp(y) of the
// logarithm.
template <typename T> __device__ static INLINE void softmax_diff_line(const T *y, const T *dy, T *dx, const Line &l, bool block, bool log) {
  T sum = 0;
  for (u32 i = l.lane; i < l.n; i += l.lanes) sum += log ? dy[l.at(i)] : dy[l.at(i)] * y[l.at(i)];
  sum = over<Sum>(block, sum);
  for (u32 i = l.lane; i < l.n; i += l.lanes) {
    T g = dy[l.at(i)], v = y[l.at(i)];
    dx[l.at(i)] = log ? g - exponential(v) * sum : (g - sum) * v;
  }
}

template <typename T> __device__ static void softmax(const T *x, T *y, u32 lines, u32 n, u32 inner, u32 each, u32 log) {
  for (u32 line = BLOCK * each; line < lines; line += BLOCKS * each)
    softmax_line(x, y, Line(line + THREAD / (256 / each), lines, n, inner, each), each == 1, log);
}

template <typename T> __device__ static void softmax_diff(const T *y, const T *dy, T *dx, u32 lines, u32 n, u32 inner, u32 each, u32 log) {
  for (u32 line = BLOCK * each; line < lines; line += BLOCKS * each)
    softmax_diff_line(y, dy, dx, Line(line + THREAD / (256 / each), lines, n, inner, each), each == 1, log);
}

#define params(T) (const T *x, T *y, u32 lines, u32 n, u32 inner, u32 each, u32 log)
both(softmax, params, (x, y, lines, n, inner, each, log))
#undef params
#define params(T) (const T *y, const T *dy, T *dx, u32 lines, u32 n, u32 inner, u32 each, u32 log)
both(softmax_diff, params, (y, dy, dx, lines, n, inner, each, log))
#undef params
