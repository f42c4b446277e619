// Expressions of elementwise operations in one pass: operands are read, instructions compute, results are stored. An
// expression is data, uniform over the grid, so that one kernel serves every graph.
#pragma once
#include "divide.cuh"
#include "math.cuh"

enum Op : u32 {
  ADD, SUB, MUL, DIV, POW, LT, GT, LTE, GTE, EQ, NE, // of two; comparisons are 1 or 0
  ABS, SIGN, CEIL, FLOOR, SIN, COS, EXP, LOG, LOG2, NEG, SQUARE, SQRT, INVERSE, INVERSE_SQRT, CUBE, TANH, SIGMOID,
  LOG1P, EXPM1, SOFTPLUS,
  COPY,
  MASK, // of two: the first, times 1 or 0 for whether the second is at least 0
  // Of rows; only the kernel rows has them. The differentials are of the gradient and the softmax.
  ROW_SOFTMAX, ROW_LOG_SOFTMAX, ROW_SOFTMAX_DIFF, ROW_LOG_SOFTMAX_DIFF,
};

// Operand is what belongs to element i of the result: element 0 of data if ONE, i if SAME, k = i / step if STEPS,
// k % inner if ROWS, and (k / inner / repeat) * inner + k % inner if REPEATED. If the expression is wide, what belongs to
// WIDE elements from i on, i being a multiple of that, is one element, or, if apart, neighbours, the first at a multiple of
// 16 bytes.
enum Reach : u32 { ONE, SAME, STEPS, ROWS, REPEATED };
enum { WIDE = 4 };

struct Operand {
  u64 data;
  u32 reach, apart;
  Divisor step, inner, repeat;
};

__device__ static INLINE u32 element(const Operand &in, u32 i) {
  if (in.reach <= SAME) return in.reach == SAME ? i : 0;
  u32 k = i / in.step;
  if (in.reach == STEPS) return k;
  u32 rest = next(k, in.inner);
  return in.reach == ROWS ? rest : k / in.repeat * in.inner.by + rest;
}

enum { PREVIOUS = 0x40, KEPT = 0x80, SLOTS = 15, OPERANDS = 12, RESULTS = 4, LONGEST = 32 };

// Expression is code over operands. An instruction applies an operation to x and y, from its low bits up:
//
//   op 8, x 8, y 8, keep 4, store 4
//
// x and y are each the number of an operand, PREVIOUS for the result of the instruction before, or KEPT + the slot that
// an earlier one kept its result in: keep is that slot + 1, or 0. store is the number of the result that it is, + 1, or 0.
//
// brief, if it is not 0, says what all of the code is: see express.
//
// Kernels have it as a parameter by value, the last: what to read is known then without reading memory. It must
// only be read in place there, through references that are inlined, or compilers copy it to each thread's memory.
struct Expression {
  u32 length, operands, wide, brief;
  Operand operand[OPERANDS];
  u64 result[RESULTS];
  u32 code[LONGEST];
};

// function is an elementary function, not inlined: for each element of each instruction that would be most of the
// module, and of the time that the driver takes to compile it.
template <typename T> __device__ __attribute__((noinline)) static T function(u32 op, T x, T y) {
  switch (op) {
  case DIV: return x / y;
  case SQRT: return root(x);
  case INVERSE: return 1 / x;
  case INVERSE_SQRT: return 1 / root(x);
  case POW: return power(x, y);
  case SIN: return wave(x, 0);
  case COS: return wave(x, 1);
  case EXP: return exponential(x);
  case LOG: return logarithm(x);
  case LOG2: return logarithm(x) * T(1.4426950408889634);
  case TANH: return hyperbolic_tangent(x);
  case SIGMOID: return logistic(x);
  case LOG1P: return log_1_plus(x);
  case EXPM1: return exponential_minus_1(x);
  case SOFTPLUS: return soft_plus(x);
  }
  return real<T>::nan();
}

template <typename T, u32 N> __device__ static inline void apply(u32 op, T (&xs)[N], const T (&ys)[N]) {
#define each(f)                                                                                                      \
  _Pragma("unroll") for (u32 j = 0; j < N; j++) {                                                                    \
    [[maybe_unused]] T x = xs[j], y = ys[j];                                                                         \
    xs[j] = f;                                                                                                       \
  }                                                                                                                  \
  break
  switch (op) {
  case ADD: each(x + y);
  case SUB: each(x - y);
  case MUL: each(x * y);
  case LT: each(x < y);
  case GT: each(x > y);
  case LTE: each(x <= y);
  case GTE: each(x >= y);
  case EQ: each(x == y);
  case NE: each(x != y);
  case ABS: each(magnitude(x));
  case SIGN: each(x > 0 ? T(1) : x < 0 ? T(-1) : x);
  case CEIL: each(up(x));
  case FLOOR: each(down(x));
  case NEG: each(-x);
  case SQUARE: each(x * x);
  case CUBE: each(x * x * x);
  case COPY: break;
  case MASK: each(x * T(y >= 0));
  default: each(function(op, x, y));
  }
#undef each
}

// wide is as many elements as are read or written at once, 16 bytes.
template <typename T> struct wide {
  typedef T type __attribute__((vector_size(16), may_alias));
  static constexpr u32 n = 16 / sizeof(T);
};

template <typename T, u32 N> __device__ static inline void read_wide(const T *from, T (&to)[N]) {
#pragma unroll
  for (u32 j = 0; j < N; j += wide<T>::n) {
    typename wide<T>::type v = *(const typename wide<T>::type *)(from + j);
#pragma unroll
    for (u32 k = 0; k < wide<T>::n; k++) to[j + k] = v[k];
  }
}

// fetch reads what belongs to the elements at. With NEXT these are WIDE neighbours, of a wide expression.
template <bool NEXT, typename T, u32 N>
__device__ static INLINE void fetch(const Operand &in, const u32 (&at)[N], u32 count, T (&to)[N]) {
  const T *data = (const T *)in.data;
  if (NEXT) {
    data += element(in, at[0]);
    if (in.apart) return read_wide(data, to);
    T x = *data;
#pragma unroll
    for (u32 j = 0; j < N; j++) to[j] = x;
    return;
  }
#pragma unroll
  for (u32 j = 0; j < N; j++)
    if (j < count) to[j] = data[element(in, at[j])];
}

template <bool NEXT, typename T, u32 N>
__device__ static INLINE void store(u64 result, const u32 (&at)[N], u32 count, const T (&x)[N]) {
  T *out = (T *)result;
  if (NEXT) {
#pragma unroll
    for (u32 j = 0; j < N; j += wide<T>::n) {
      typename wide<T>::type v = {};
#pragma unroll
      for (u32 k = 0; k < wide<T>::n; k++) v[k] = x[(j + k) % N];
      *(typename wide<T>::type *)(out + at[0] + j) = v;
    }
    return;
  }
#pragma unroll
  for (u32 j = 0; j < N; j++)
    if (j < count) out[at[j]] = x[j];
}

enum { AHEAD = 4 }; // operands that are read before the first instruction, so that the latencies overlap

// evaluate runs code for the elements at, of which there are count, and stores the results. x is what PREVIOUS
// means in the first instruction. over(op, x, y) computes operations that apply does not know, and says whether op is one.
template <bool NEXT, typename T, u32 N, typename Over>
__device__ __attribute__((always_inline)) static inline void evaluate(const Operand *operand, u32 operands, const u32 *code, u32 length,
                                                                      const u64 *result, const u32 (&at)[N], u32 count, T (&x)[N], Over over) {
  T ahead[AHEAD][N] = {}, kept[SLOTS][N], y[N];
#pragma unroll
  for (u32 k = 0; k < AHEAD; k++)
    if (k < operands) fetch<NEXT>(operand[k], at, count, ahead[k]);
  auto find = [&](u32 from, T(&to)[N]) {
    if (from >= KEPT) {
#pragma unroll
      for (u32 j = 0; j < N; j++) to[j] = kept[from - KEPT][j];
    } else if (from < AHEAD) {
#pragma unroll
      for (u32 k = 0; k < AHEAD; k++)
        if (from == k) {
#pragma unroll
          for (u32 j = 0; j < N; j++) to[j] = ahead[k][j];
        }
    } else if (from < PREVIOUS) fetch<NEXT>(operand[from], at, count, to);
  };
  for (u32 k = 0; k < length; k++) {
    const u32 in = code[k];
#pragma unroll
    for (u32 j = 0; j < N; j++) y[j] = x[j];
    find(in >> 16 & 0xFF, y);
    find(in >> 8 & 0xFF, x);
    if (!over(in & 0xFF, x, y)) apply(in & 0xFF, x, y);
    if (u32 keep = in >> 24 & 0xF) {
#pragma unroll
      for (u32 j = 0; j < N; j++) kept[keep - 1][j] = x[j];
    }
    if (u32 to = in >> 28) store<NEXT>(result[to - 1], at, count, x);
  }
}

template <bool NEXT, typename T, u32 N>
__device__ static INLINE void evaluate(const Operand *operand, u32 operands, const u32 *code, u32 length, const u64 *result, const u32 (&at)[N], u32 count, T (&x)[N]) {
  evaluate<NEXT>(operand, operands, code, length, result, at, count, x, [](u32, T(&)[N], const T(&)[N]) INLINE_LAMBDA { return false; });
}

// What brief expressions do with x and an operand y, in this order. The sum is result 1, what is last is result 0.
enum Brief : u32 { READ_X = 1, ADD_Y = 2, STORE_SUM = 4, RECTIFY = 8, MASK_BY_Y = 16 };

// express evaluates e for the elements at of its results, of which there are count. x is what PREVIOUS means in the first
// instruction; without instructions x is the result. Other kernels call it with what they have computed. Layers and
// their gradients are brief: their instructions are here one after the other, and so in the caches sooner.
template <bool NEXT = false, typename T, u32 N>
__device__ static INLINE void express(const Expression &e, const u32 (&at)[N], u32 count, T (&x)[N]) {
  if (e.length > 0 && !e.brief) return evaluate<NEXT>(e.operand, e.operands, e.code, e.length, e.result, at, count, x);
  T y[N] = {};
  const u32 brief = e.brief, reads = brief & READ_X;
  if (reads) fetch<NEXT>(e.operand[0], at, count, x);
  if (e.operands > reads) fetch<NEXT>(e.operand[reads], at, count, y);
#pragma unroll
  for (u32 j = 0; j < N; j++) x[j] = brief & ADD_Y ? x[j] + y[j] : x[j];
  if (brief & STORE_SUM) store<NEXT>(e.result[1], at, count, x);
#pragma unroll
  for (u32 j = 0; j < N; j++) {
    if (brief & RECTIFY) x[j] = x[j] * T(x[j] >= 0);
    if (brief & MASK_BY_Y) x[j] = x[j] * T(y[j] >= 0);
  }
  store<NEXT>(e.result[0], at, count, x);
}

// elementwise evaluates e for n elements, of which a thread has WIDE at a time.
template <typename T> __device__ __attribute__((always_inline)) static inline void elementwise(u32 n, const Expression &e) {
  for (u64 first = (u64)WIDE * (BLOCK * THREADS + THREAD); first < n; first += (u64)WIDE * BLOCKS * THREADS) {
    T x[WIDE] = {};
    u32 at[WIDE];
#pragma unroll
    for (u32 j = 0; j < WIDE; j++) at[j] = (u32)first + j;
    u32 count = n - first < WIDE ? (u32)(n - first) : (u32)WIDE;
    if (e.wide && count == WIDE) express<true>(e, at, WIDE, x);
    else express<false>(e, at, count, x);
  }
}

#define params(T) (u32 n, const Expression e)
both(elementwise, params, (n, e))
#undef params
