// Expressions of elementwise operations in one pass: operands are read, instructions compute, the last result
// is stored. An expression is data, uniform over the grid, so that one kernel serves every graph.
#pragma once
#include "math.cuh"

enum Op : u32 {
  ADD, SUB, MUL, DIV, POW, LT, GT, LTE, GTE, EQ, NE, // of two; comparisons are 1 or 0
  ABS, SIGN, CEIL, FLOOR, SIN, COS, EXP, LOG, LOG2, NEG, SQUARE, SQRT, INVERSE, INVERSE_SQRT, CUBE, TANH, SIGMOID,
  LOG1P, EXPM1, SOFTPLUS,
  COPY,
};

// Operand is element (i / inner / repeat) * inner + i % inner of data for element i of the result, and element 0
// for a repeat of 0.
struct Operand {
  u64 data;
  u32 repeat, inner;
};

enum { PREVIOUS = 0x100, KEPT = 0x200, SLOTS = 16 };

// Instruction applies op to x and y, each the number of an operand, PREVIOUS for the result of the instruction
// before, or KEPT + the slot that an earlier one kept its result in: keep is that slot + 1, or 0.
struct Instruction {
  u32 op, x, y, keep;
};

// function is an elementary function, not inlined: for each element of each instruction that would be most of the
// module, and of the time that the driver takes to compile it.
template <typename T> __device__ __attribute__((noinline)) static T function(u32 op, T x, T y) {
  switch (op) {
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

enum { EACH = 4 }; // elements of a thread at a time, so that their loads overlap

template <typename T> __device__ static inline void apply(u32 op, T *xs, const T *ys) {
#define each(f)                                                                                                      \
  _Pragma("unroll") for (u32 j = 0; j < EACH; j++) {                                                                 \
    [[maybe_unused]] T x = xs[j], y = ys[j];                                                                         \
    xs[j] = f;                                                                                                       \
  }                                                                                                                  \
  break
  switch (op) {
  case ADD: each(x + y);
  case SUB: each(x - y);
  case MUL: each(x * y);
  case DIV: each(x / y);
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
  case SQRT: each(root(x));
  case INVERSE: each(1 / x);
  case INVERSE_SQRT: each(1 / root(x));
  case CUBE: each(x * x * x);
  case COPY: break;
  default: each(function(op, x, y));
  }
#undef each
}

// elementwise evaluates length instructions for n elements.
template <typename T>
__device__ static void elementwise(const Operand *operands, const Instruction *code, u32 length, T *out, u32 n) {
  const u32 step = BLOCKS * THREADS;
  for (u64 first = BLOCK * THREADS + THREAD; first < n; first += EACH * (u64)step) {
    T kept[SLOTS][EACH], x[EACH] = {}, y[EACH];
    auto read = [&](u32 from, T *to) {
      const Operand in = operands[from];
#pragma unroll
      for (u32 j = 0; j < EACH; j++) {
        u64 at = first + j * (u64)step;
        if (at >= n) break;
        u32 i = (u32)at;
        if (in.repeat == 0) i = 0;
        else if (in.repeat > 1) i = i / in.inner / in.repeat * in.inner + i % in.inner;
        to[j] = ((const T *)in.data)[i];
      }
    };
    for (u32 k = 0; k < length; k++) {
      const Instruction in = code[k];
#pragma unroll
      for (u32 j = 0; j < EACH; j++) y[j] = in.y & KEPT ? kept[in.y - KEPT][j] : x[j];
      if (in.y < PREVIOUS) read(in.y, y);
      if (in.x & KEPT) {
#pragma unroll
        for (u32 j = 0; j < EACH; j++) x[j] = kept[in.x - KEPT][j];
      } else if (in.x < PREVIOUS) read(in.x, x);
      apply(in.op, x, y);
      if (in.keep) {
#pragma unroll
        for (u32 j = 0; j < EACH; j++) kept[in.keep - 1][j] = x[j];
      }
    }
#pragma unroll
    for (u32 j = 0; j < EACH; j++) {
      u64 at = first + j * (u64)step;
      if (at < n) out[at] = x[j];
    }
  }
}

#define params(T) (const Operand *operands, const Instruction *code, u32 length, T *out, u32 n)
both(elementwise, params, (operands, code, length, out, n))
#undef params
