// Max pooling. The forward pass keeps where each maximum was, for the backward pass.
#pragma once
#include "elementwise.cuh"
#include "layout.cuh"
#include "math.cuh"

// lowest is what Gorgonia has for a window without elements.
__device__ static inline float lowest(float) { return -0x1.fffffep127f; }
__device__ static inline double lowest(double) { return -0x1.fffffffffffffp1023; }

// max_pool: where is the maximum's place in its image plane, the first of equals; -1 where a window is empty.
template <typename T> __device__ static INLINE void max_pool(const T *in, T *out, int *where, const Window &w) {
  u32 n = w.batch * w.channels.by * w.out_height.by * w.out_width.by;
  for_each(i, n) {
    u32 plane = i, ox = next(plane, w.out_width), oy = next(plane, w.out_height);
    const T *image = in + (u64)plane * w.height.by * w.width.by;
    T most = lowest(T());
    int at = -1;
    for (u32 ky = 0; ky < w.kernel_height.by; ky++) {
      int y = (int)(oy * w.stride_height.by + ky) - w.pad_height;
      if (y < 0 || y >= (int)w.height.by) continue;
      for (u32 kx = 0; kx < w.kernel_width.by; kx++) {
        int x = (int)(ox * w.stride_width.by + kx) - w.pad_width;
        if (x < 0 || x >= (int)w.width.by) continue;
        T v = image[y * (int)w.width.by + x];
        if (v > most || (v != v && most == most)) { // a NaN stays
          most = v;
          at = y * (int)w.width.by + x;
        }
      }
    }
    out[i] = most;
    where[i] = at;
  }
}

struct PoolDiff {
  Window window;
  Expression then;
};

// max_pool_diff: each pixel sums the gradients of the windows whose maximum it is, which then evaluates. A thread has WIDE
// pixels at a time.
template <typename T> __device__ static INLINE void max_pool_diff(const T *grad, const int *where, const PoolDiff &p) {
  const Window &w = p.window;
  u32 n = w.batch * w.channels.by * w.height.by * w.width.by;
  for (u64 start = (u64)WIDE * (BLOCK * THREADS + THREAD); start < n; start += (u64)WIDE * BLOCKS * THREADS) {
    T sums[WIDE] = {};
    u32 at[WIDE], count = n - start < WIDE ? (u32)(n - start) : (u32)WIDE;
#pragma unroll
    for (u32 j = 0; j < WIDE; j++) {
      u32 plane = at[j] = (u32)start + j;
      if (j >= count) break;
      u32 x = next(plane, w.width), y = next(plane, w.height);
      int place = (int)(y * w.width.by + x);
      x += w.pad_width;
      y += w.pad_height;
      u32 first_y = y < w.kernel_height.by ? 0 : (y - w.kernel_height.by) / w.stride_height + 1;
      u32 first_x = x < w.kernel_width.by ? 0 : (x - w.kernel_width.by) / w.stride_width + 1;
      for (u32 oy = first_y; oy * w.stride_height.by <= y && oy < w.out_height.by; oy++)
        for (u32 ox = first_x; ox * w.stride_width.by <= x && ox < w.out_width.by; ox++) {
          u64 o = ((u64)plane * w.out_height.by + oy) * w.out_width.by + ox;
          if (where[o] == place) sums[j] += grad[o];
        }
    }
    if (p.then.wide && count == WIDE) express<true>(p.then, at, WIDE, sums);
    else express<false>(p.then, at, count, sums);
  }
}

#define params(T) (const T *in, T *out, int *where, const Window window)
both(max_pool, params, (in, out, where, window))
#undef params
#define params(T) (const T *grad, const int *where, const PoolDiff p)
both(max_pool_diff, params, (grad, where, p))
#undef params
