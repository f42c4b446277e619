// What CUDA's own headers would declare, and no more of it than the kernels use, so that a plain clang
// compiles them to PTX without a toolkit. With EMULATE defined the same kernels are C++ for the host: see
// emulate.h of the tests, which then takes the place of this file's second half.
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// INLINE is for functions that arrays go through, which must stay in registers.
#define INLINE inline __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))

#ifdef EMULATE
#include "emulate.h"
#else

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(threads, blocks) __attribute__((launch_bounds(threads, blocks)))

#define THREAD ((u32)__nvvm_read_ptx_sreg_tid_x())
#define THREADS ((u32)__nvvm_read_ptx_sreg_ntid_x())
#define BLOCK ((u32)__nvvm_read_ptx_sreg_ctaid_x())
#define BLOCK_Y ((u32)__nvvm_read_ptx_sreg_ctaid_y())
#define BLOCKS ((u32)__nvvm_read_ptx_sreg_nctaid_x())

// sync is a barrier of the block. It is not __syncthreads: clang 14 takes that for something that cannot write to a shared
// variable whose address nobody has, and then reads it before the barrier.
__device__ static inline void sync() { asm volatile("bar.sync 0;" ::: "memory"); }
// shuffle returns the x of the thread of the warp whose number differs in the bits of mask. All threads of a block must
// call it together: to the emulation it is a barrier.
__device__ static inline u32 shuffle(u32 x, u32 mask) { return (u32)__nvvm_shfl_sync_bfly_i32(~0u, (int)x, (int)mask, 31); }

// fence orders what a thread wrote before it before what it writes after it, for the whole device. ticket adds one to a counter,
// from last to 0, and returns what it was.
__device__ static inline void fence() { asm volatile("membar.gl;" ::: "memory"); }
__device__ static inline u32 ticket(u32 *counter, u32 last) { return (u32)__nvvm_atom_inc_gen_ui(counter, last); }
__device__ static inline void lower(u32 *to, u32 x) { __nvvm_atom_min_gen_ui(to, x); }
__device__ static inline float bits_to_float(u32 b) { return __nvvm_bitcast_i2f((int)b); }
__device__ static inline u32 float_to_bits(float x) { return (u32)__nvvm_bitcast_f2i(x); }
__device__ static inline double bits_to_double(u64 b) { return __nvvm_bitcast_ll2d((i64)b); }
__device__ static inline u64 double_to_bits(double x) { return (u64)__nvvm_bitcast_d2ll(x); }
__device__ static inline float shuffle(float x, u32 mask) { return bits_to_float(shuffle(float_to_bits(x), mask)); }
__device__ static inline double shuffle(double x, u32 mask) {
  u64 b = double_to_bits(x);
  return bits_to_double((u64)shuffle((u32)(b >> 32), mask) << 32 | shuffle((u32)b, mask));
}
__device__ static inline float root(float x) { return __nvvm_sqrt_rn_f(x); }
__device__ static inline double root(double x) { return __nvvm_sqrt_rn_d(x); }
__device__ static inline float down(float x) { return __nvvm_floor_f(x); }
__device__ static inline double down(double x) { return __nvvm_floor_d(x); }
__device__ static inline float up(float x) { return __nvvm_ceil_f(x); }
__device__ static inline double up(double x) { return __nvvm_ceil_d(x); }
__device__ static inline float fused(float a, float b, float c) { return __nvvm_fma_rn_f(a, b, c); }
__device__ static inline double fused(double a, double b, double c) { return __nvvm_fma_rn_d(a, b, c); }
__device__ static inline u32 high_product(u32 a, u32 b) { return (u32)(((u64)a * b) >> 32); }

#endif

// for_each runs over 0..n-1 with all threads of the grid.
#define for_each(i, n) for (u32 i = BLOCK * THREADS + THREAD; i < (n); i += BLOCKS * THREADS)

// both makes a kernel for float32 and one for float64 of a template of the same name. BOUNDS may be defined as what
// their launches are bound by.
#define BOUNDS
#define both(name, params, args)                                                          \
  extern "C" __global__ void BOUNDS name##_f32 params(float) { name<float> args; }              \
  extern "C" __global__ void BOUNDS name##_f64 params(double) { name<double> args; }
