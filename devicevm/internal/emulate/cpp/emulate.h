// The kernels as C++ for the host. A grid runs block after block; the threads of a block are coroutines that
// take turns, and switch at sync(). A thread that misses a sync() that others reach is reported, which on a
// GPU would hang or corrupt.
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __launch_bounds__(threads, blocks)
#define __shared__ static // one block at a time

struct Emulated {
  u32 thread, threads, block[3], blocks[3];
};
inline Emulated now;

#define THREAD (now.thread)
#define THREADS (now.threads)
#define BLOCK (now.block[0])
#define BLOCK_Y (now.block[1])
#define BLOCKS (now.blocks[0])

// Fiber is a coroutine. It lives for the process and runs one thread after another: contexts of the C library are only
// used to begin it, as they set the signal mask at each switch, which jumps do not.
struct Fiber {
  jmp_buf here;
  u32 syncs;
  bool done;
};
inline std::vector<Fiber *> fibers;
inline jmp_buf scheduler;
inline ucontext_t beginning, first;
inline void (*body)(void **);
inline void **arguments;

inline void yield(Fiber &f) {
  if (_setjmp(f.here) == 0) _longjmp(scheduler, 1);
}
inline void sync() {
  Fiber &f = *fibers[now.thread];
  f.syncs++;
  yield(f);
}
inline void fiber_main() {
  Fiber &f = *fibers.back();
  if (_setjmp(f.here) == 0) swapcontext(&first, &beginning);
  for (;;) {
    body(arguments);
    f.done = true;
    yield(f);
  }
}
inline void new_fiber() {
  constexpr size_t stack = 64 << 10;
  fibers.push_back(new Fiber);
  getcontext(&first);
  first.uc_stack.ss_sp = malloc(stack);
  first.uc_stack.ss_size = stack;
  makecontext(&first, fiber_main, 0);
  swapcontext(&beginning, &first);
}
inline void resume(u32 thread) {
  now.thread = thread;
  if (_setjmp(scheduler) == 0) _longjmp(fibers[thread]->here, 1);
}

// shuffle is between barriers: as all threads are there, what they give can be read.
inline u64 given[1024];
template <typename T> inline T shuffle(T x, u32 mask) {
  u32 thread = now.thread;
  memcpy(&given[thread], &x, sizeof x);
  sync();
  memcpy(&x, &given[thread ^ mask], sizeof x);
  sync();
  return x;
}

inline void fence() {}
inline u32 ticket(u32 *counter, u32 last) { u32 before = *counter; *counter = before >= last ? 0 : before + 1; return before; }
inline void lower(u32 *to, u32 x) { if (x < *to) *to = x; }
template <typename To, typename From> inline To same_bits(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
inline float bits_to_float(u32 b) { return same_bits<float>(b); }
inline u32 float_to_bits(float x) { return same_bits<u32>(x); }
inline double bits_to_double(u64 b) { return same_bits<double>(b); }
inline u64 double_to_bits(double x) { return same_bits<u64>(x); }
inline float root(float x) { return sqrtf(x); }
inline double root(double x) { return sqrt(x); }
inline float down(float x) { return floorf(x); }
inline double down(double x) { return floor(x); }
inline float up(float x) { return ceilf(x); }
inline double up(double x) { return ceil(x); }
inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return fma(a, b, c); }
inline u32 high_product(u32 a, u32 b) { return (u32)(((u64)a * b) >> 32); }

// call unpacks arguments as cuLaunchKernel does: each points to a value.
template <typename... A, size_t... I> inline void unpack(void (*kernel)(A...), void **args, std::index_sequence<I...>) {
  kernel(*(std::remove_const_t<A> *)args[I]...);
}
template <typename... A> inline void call(void (*kernel)(A...), void **args) {
  unpack(kernel, args, std::index_sequence_for<A...>());
}

// run returns 0, or 1 if threads of a block did not meet at the same sync().
inline int run(void (*kernel)(void **), const u32 *grid, u32 threads, void **args) {
  while (fibers.size() < threads) new_fiber();
  body = kernel, arguments = args;
  now.threads = threads;
  memcpy(now.blocks, grid, sizeof now.blocks);
  for (now.block[2] = 0; now.block[2] < grid[2]; now.block[2]++)
    for (now.block[1] = 0; now.block[1] < grid[1]; now.block[1]++)
      for (now.block[0] = 0; now.block[0] < grid[0]; now.block[0]++) {
        for (u32 t = 0; t < threads; t++) fibers[t]->syncs = 0, fibers[t]->done = false;
        for (bool more = true; more;) {
          for (u32 t = 0; t < threads; t++) resume(t);
          for (u32 t = 0; t < threads; t++)
            if (fibers[t]->done != fibers[0]->done || fibers[t]->syncs != fibers[0]->syncs) {
              fibers.clear(); // those left within the kernel are lost
              return 1;
            }
          more = !fibers[0]->done;
        }
      }
  return 0;
}
