// Max pooling. The forward pass keeps where each maximum was, for the backward pass.
#pragma once
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

// max_pool_diff: each pixel sums the gradients of the windows whose maximum it is.
template <typename T> __device__ static INLINE void max_pool_diff(const T *grad, const int *where, T *out, const Window &w) {
  u32 n = w.batch * w.channels.by * w.height.by * w.width.by;
  for_each(i, n) {
    u32 plane = i, x = next(plane, w.width), y = next(plane, w.height);
    int at = (int)(y * w.width.by + x);
    x += w.pad_width;
    y += w.pad_height;
    u32 last_y = y / w.stride_height, last_x = x / w.stride_width; // the last windows that may have the pixel
    u32 first_y = y < w.kernel_height.by ? 0 : (y - w.kernel_height.by) / w.stride_height + 1;
    u32 first_x = x < w.kernel_width.by ? 0 : (x - w.kernel_width.by) / w.stride_width + 1;
    T sum = 0;
    for (u32 oy = first_y; oy <= last_y && oy < w.out_height.by; oy++)
      for (u32 ox = first_x; ox <= last_x && ox < w.out_width.by; ox++) {
        u64 o = ((u64)plane * w.out_height.by + oy) * w.out_width.by + ox;
        if (where[o] == at) sum += grad[o];
      }
    out[i] = sum;
  }
}

#define params(T) (const T *in, T *out, int *where, const Window window)
both(max_pool, params, (in, out, where, window))
#undef params
#define params(T) (const T *grad, const int *where, T *out, const Window window)
both(max_pool_diff, params, (grad, where, out, window))
#undef params
