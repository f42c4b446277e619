// Max pooling. The forward pass keeps where each maximum was, for the backward pass.
#pragma once
#include "layout.cuh"
#include "math.cuh"

// lowest is what Gorgonia has for a window without elements.
__device__ static inline float lowest(float) { return -0x1.fffffep127f; }
__device__ static inline double lowest(double) { return -0x1.fffffffffffffp1023; }

// max_pool: where is the maximum's place in its image plane, the first of equals; -1 where a window is empty.
template <typename T> __device__ static void max_pool(const T *in, T *out, int *where, const Window *window) {
  const Window w = *window;
  u32 n = w.batch * w.channels * w.out_height * w.out_width;
  for_each(i, n) {
    u32 k = i, ox = k % w.out_width;
    k /= w.out_width;
    u32 oy = k % w.out_height, plane = k / w.out_height;
    const T *image = in + (u64)plane * w.height * w.width;
    T most = lowest(T());
    int at = -1;
    for (u32 ky = 0; ky < w.kernel_height; ky++) {
      int y = (int)(oy * w.stride_height + ky) - w.pad_height;
      if (y < 0 || y >= (int)w.height) continue;
      for (u32 kx = 0; kx < w.kernel_width; kx++) {
        int x = (int)(ox * w.stride_width + kx) - w.pad_width;
        if (x < 0 || x >= (int)w.width) continue;
        T v = image[y * (int)w.width + x];
        if (v > most || (v != v && most == most)) { // a NaN stays
          most = v;
          at = y * (int)w.width + x;
        }
      }
    }
    out[i] = most;
    where[i] = at;
  }
}

// max_pool_diff: each pixel sums the gradients of the windows whose maximum it is.
template <typename T> __device__ static void max_pool_diff(const T *grad, const int *where, T *out, const Window *window) {
  const Window w = *window;
  u32 n = w.batch * w.channels * w.height * w.width;
  for_each(i, n) {
    u32 plane = i / (w.height * w.width);
    int at = (int)(i % (w.height * w.width));
    int y = at / (int)w.width + w.pad_height, x = at % (int)w.width + w.pad_width;
    T sum = 0;
    int stride_y = (int)w.stride_height, stride_x = (int)w.stride_width;
    int first_y = y < (int)w.kernel_height ? 0 : (y - (int)w.kernel_height) / stride_y + 1;
    int first_x = x < (int)w.kernel_width ? 0 : (x - (int)w.kernel_width) / stride_x + 1;
    for (int oy = first_y; oy * stride_y <= y && oy < (int)w.out_height; oy++)
      for (int ox = first_x; ox * stride_x <= x && ox < (int)w.out_width; ox++) {
        u64 o = ((u64)plane * w.out_height + oy) * w.out_width + ox;
        if (where[o] == at) sum += grad[o];
      }
    out[i] = sum;
  }
}

#define params(T) (const T *in, T *out, int *where, const Window *window)
both(max_pool, params, (in, out, where, window))
#undef params
#define params(T) (const T *grad, const int *where, T *out, const Window *window)
both(max_pool_diff, params, (grad, where, out, window))
#undef params
