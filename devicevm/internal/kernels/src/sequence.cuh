// Sequences of operations on small tensors, or on rows that have nothing to do with each other, as softmax, the loss and
// its gradient are, in one kernel: launching each by itself takes longer than computing it.
#pragma once
#include "elementwise.cuh"
#include "softmax.cuh"

enum StageKind : u32 { EXPRESS, SOFTMAX, LOG_SOFTMAX, SOFTMAX_DIFF, LOG_SOFTMAX_DIFF, SUM_ROWS, MAX_ROWS };

// Stage computes rows of width elements. together is how many rows a block takes at a time: 1, 8 or 256, for a row by a
// block, a warp or a thread. Of EXPRESS the elements are the results', WIDE a thread; of softmax those of operand and
// result; of sums and maxima the operand's, and the result has one for each row. operand, code and result are the places
// of its first ones.
struct Stage {
  u32 kind, rows, width, together;
  u32 operand, operands, code, length, result;
  u32 wide; // of EXPRESS, as of an Expression: rows of a block are a multiple of WIDE elements too
};

enum { STAGES = 8, SEQUENCE_OPERANDS = 20, SEQUENCE_RESULTS = 12, SEQUENCE_CODE = 64 };

// Sequence is stages, one after the other. A block computes each rows, of all stages: if there are several blocks no row needs
// another block's. It is a parameter by value, as Expression is.
struct Sequence {
  u32 stages, each;
  Stage stage[STAGES];
  Operand operand[SEQUENCE_OPERANDS];
  u64 result[SEQUENCE_RESULTS];
  u32 code[SEQUENCE_CODE];
};

template <typename F, typename T> __device__ static inline void stage_reduce(const T *in, T *out, u32 lo, u32 hi, u32 width, u32 together) {
  const u32 lanes = 256 / together, lane = THREAD % lanes;
  for (u32 first = lo; first < hi; first += together) { // the same for all threads, as they shuffle
    u32 row = first + THREAD / lanes;
    T sum = F::template start<T>();
    if (row < hi) sum = run<F>(in + (u64)row * width + lane, lanes, steps(lane, width, lanes));
    if (lanes > 1) sum = over<F>(together == 1, sum);
    if (row < hi && lane == 0) out[row] = sum;
  }
}

template <typename T> __device__ __attribute__((always_inline)) static inline void sequence(const Sequence &s) {
  for (u32 k = 0; k < s.stages; k++) {
    const Stage &stage = s.stage[k];
    const u32 kind = stage.kind, rows = stage.rows, width = stage.width, together = stage.together;
    const u32 lo = BLOCK * s.each, hi = rows - lo < s.each ? rows : lo + s.each;
    const T *a = (const T *)s.operand[stage.operand].data;
    T *out = (T *)s.result[stage.result];
    if (k > 0) sync(); // what the stages before have written is there
    switch (kind) {
    case EXPRESS:
      for (u32 i = lo * width + WIDE * THREAD; i < hi * width; i += WIDE * 256) {
        T x[WIDE] = {};
        const u32 at[WIDE] = {i, i + 1, i + 2, i + 3}, count = hi * width - i < WIDE ? hi * width - i : (u32)WIDE;
        const Operand *operand = s.operand + stage.operand;
        const u32 *code = s.code + stage.code;
        const u64 *result = s.result + stage.result;
        if (stage.wide && count == WIDE) evaluate<true>(operand, stage.operands, code, stage.length, result, at, WIDE, x);
        else evaluate<false>(operand, stage.operands, code, stage.length, result, at, count, x);
      }
      break;
    case SOFTMAX:
    case LOG_SOFTMAX:
      for (u32 first = lo; first < hi; first += together)
        softmax_line(a, out, Line(first + THREAD / (256 / together), hi, width, 1, together), together == 1, kind == LOG_SOFTMAX);
      break;
    case SOFTMAX_DIFF:
    case LOG_SOFTMAX_DIFF:
      for (u32 first = lo; first < hi; first += together)
        softmax_diff_line(a, (const T *)s.operand[stage.operand + 1].data, out, Line(first + THREAD / (256 / together), hi, width, 1, together), together == 1,
                          kind == LOG_SOFTMAX_DIFF);
      break;
    case SUM_ROWS: stage_reduce<Sum>(a, out, lo, hi, width, together); break;
    case MAX_ROWS: stage_reduce<Maximum>(a, out, lo, hi, width, together); break;
    }
  }
}

#define params(T) (const Sequence s)
both(sequence, params, (s))
#undef params
