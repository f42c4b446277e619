// Chains of elementwise operations in one pass: a value is loaded, each instruction replaces it by a
// function of itself and perhaps one operand, and the last result is stored. A chain is data, uniform
// over the grid, so one kernel serves every graph; what it costs beside the memory traffic is a branch.
#pragma once
#include "math.cuh"

enum Op : u32 {
  LOAD, STORE, // value = operand; operand = value
  ADD, SUB, RSUB, MUL, DIV, RDIV, POW, RPOW, // RSUB is operand - value, and so on
  GT, GTE, LT, LTE, EQ, NE, // 1 or 0
  MAXIMUM, MINIMUM,
  NEG, ABS, SIGN, CEIL, FLOOR, SQUARE, CUBE, SQRT, INVERSE, INVERSE_SQRT,
  EXP, LOG, LOG2, LOG1P, EXPM1, TANH, SIGMOID, SOFTPLUS,
};

// Instruction has an operand that is a constant, where data is 0, or element (i / div) % mod of data.
// div 1 and mod 0 are element i itself.
struct Instruction {
  u32 op, div, mod, unused;
  u64 data;
  double constant;
};

// power is long, and inlined for each element of each instruction it would be most of the module.
template <typename T> __device__ __attribute__((noinline)) static T power_call(T x, T y) { return power(x, y); }

enum { EACH = 4 }; // elements of a thread at a time, so that their loads overlap

template <typename T> __device__ static inline void apply(u32 op, T *value, const T *operand) {
#define each(f)                                                                                                      \
  _Pragma("unroll") for (u32 j = 0; j < EACH; j++) {                                                                 \
    [[maybe_unused]] T x = value[j], y = operand[j];                                                                               \
    value[j] = f;                                                                                          \
  }                                                                                                                  \
  break
  switch (op) {
  case LOAD: each(y);
  case ADD: each(x + y);
  case SUB: each(x - y);
  case RSUB: each(y - x);
  case MUL: each(x * y);
  case DIV: each(x / y);
  case RDIV: each(y / x);
  case POW: each(power_call(x, y));
  case RPOW: each(power_call(y, x));
  case GT: each(x > y);
  case GTE: each(x >= y);
  case LT: each(x < y);
  case LTE: each(x <= y);
  case EQ: each(x == y);
  case NE: each(x != y);
  case MAXIMUM: each(x != x || x > y ? x : y);
  case MINIMUM: each(x != x || x < y ? x : y);
  case NEG: each(-x);
  case ABS: each(magnitude(x));
  case SIGN: each(x > 0 ? T(1) : x < 0 ? T(-1) : x);
  case CEIL: each(up(x));
  case FLOOR: each(down(x));
  case SQUARE: each(x * x);
  case CUBE: each(x * x * x);
  case SQRT: each(root(x));
  case INVERSE: each(1 / x);
  case INVERSE_SQRT: each(1 / root(x));
  case EXP: each(exponential(x));
  case LOG: each(logarithm(x));
  case LOG2: each(logarithm(x) * T(1.4426950408889634));
  case LOG1P: each(log_1_plus(x));
  case EXPM1: each(exponential_minus_1(x));
  case TANH: each(hyperbolic_tangent(x));
  case SIGMOID: each(logistic(x));
  case SOFTPLUS: each(soft_plus(x));
  default: each(real<T>::nan());
  }
#undef each
}

// elementwise runs a chain over n elements.
template <typename T> __device__ static void elementwise(const Instruction *chain, u32 length, T *out, u32 n) {
  const u32 step = BLOCKS * THREADS;
  for (u64 first = BLOCK * THREADS + THREAD; first < n; first += EACH * (u64)step) {
    T value[EACH] = {};
    for (u32 k = 0; k < length; k++) {
      const Instruction in = chain[k];
      T *data = (T *)in.data, operand[EACH];
#pragma unroll
      for (u32 j = 0; j < EACH; j++) {
        u64 at = first + j * (u64)step;
        operand[j] = (T)in.constant;
        if (at >= n || !data) continue;
        u32 i = (u32)at;
        if (in.div > 1) i /= in.div;
        if (in.mod > 0) i %= in.mod;
        if (in.op == STORE) data[i] = value[j];
        else operand[j] = data[i];
      }
      if (in.op != STORE) apply(in.op, value, operand);
    }
#pragma unroll
    for (u32 j = 0; j < EACH; j++) {
      u64 at = first + j * (u64)step;
      if (at < n) out[at] = value[j];
    }
  }
}

#define params(T) (const Instruction *chain, u32 length, T *out, u32 n)
both(elementwise, params, (chain, length, out, n))
#undef params
