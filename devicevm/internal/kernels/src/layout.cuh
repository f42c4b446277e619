// Kernels that move elements: permutations of axes, slices, windows to columns and back.
#pragma once
#include "device.cuh"

enum { MAX_AXES = 8 };

// View says where element i of a tensor of this shape, in row-major order, is in memory: its coordinates by
// the strides. Strides may be 0, which repeats, or jump over what is not part of a slice.
struct View {
  u32 axes;
  u32 shape[MAX_AXES];
  u32 stride[MAX_AXES];
};

__device__ static inline u64 offset_of(const View &v, u32 i) {
  u64 at = 0;
  for (u32 a = v.axes; a > 0; a--) {
    u32 n = v.shape[a - 1];
    at += (u64)(i % n) * v.stride[a - 1];
    i /= n;
  }
  return at;
}

// gather: out[i] = in[view(i)].
template <typename T> __device__ static void gather(const T *in, const View *view, T *out, u32 n) {
  for_each(i, n) out[i] = in[offset_of(*view, i)];
}

// scatter: out[view(i)] = in[i]. Strides of 0 would make it a race.
template <typename T> __device__ static void scatter(const T *in, const View *view, T *out, u32 n) {
  for_each(i, n) out[offset_of(*view, i)] = in[i];
}

// Window is a convolution's or a pooling's geometry. Images are (batch, channels, height, width).
struct Window {
  u32 batch, channels, height, width;
  u32 out_height, out_width;
  u32 kernel_height, kernel_width;
  u32 stride_height, stride_width;
  u32 dilation_height, dilation_width;
  int pad_height, pad_width; // before the first row and column
};

// im2col: columns are (batch, out_height, out_width, channels*kernel_height*kernel_width), as Gorgonia has them.
template <typename T> __device__ static void im2col(const T *image, T *columns, const Window *window) {
  const Window w = *window;
  u32 n = w.batch * w.out_height * w.out_width * w.channels * w.kernel_height * w.kernel_width;
  for_each(i, n) {
    u32 k = i, kx = k % w.kernel_width;
    k /= w.kernel_width;
    u32 ky = k % w.kernel_height;
    k /= w.kernel_height;
    u32 c = k % w.channels;
    k /= w.channels;
    u32 ox = k % w.out_width;
    k /= w.out_width;
    u32 oy = k % w.out_height, b = k / w.out_height;
    int y = (int)(oy * w.stride_height + ky * w.dilation_height) - w.pad_height;
    int x = (int)(ox * w.stride_width + kx * w.dilation_width) - w.pad_width;
    bool inside = y >= 0 && y < (int)w.height && x >= 0 && x < (int)w.width;
    columns[i] = inside ? image[((u64)(b * w.channels + c) * w.height + y) * w.width + x] : T(0);
  }
}

// col2im sums what im2col spread. Each pixel gathers from the windows that it is in, so nothing is added
// atomically and the order of the sum is fixed.
template <typename T> __device__ static void col2im(const T *columns, T *image, const Window *window) {
  const Window w = *window;
  u32 n = w.batch * w.channels * w.height * w.width;
  for_each(i, n) {
    u32 k = i;
    int x = (int)(k % w.width) + w.pad_width;
    k /= w.width;
    int y = (int)(k % w.height) + w.pad_height;
    k /= w.height;
    u32 c = k % w.channels, b = k / w.channels;
    T sum = 0;
    for (u32 ky = 0; ky < w.kernel_height; ky++) {
      int top = y - (int)(ky * w.dilation_height);
      if (top < 0 || top % (int)w.stride_height != 0 || top / (int)w.stride_height >= (int)w.out_height) continue;
      u32 oy = (u32)top / w.stride_height;
      for (u32 kx = 0; kx < w.kernel_width; kx++) {
        int left = x - (int)(kx * w.dilation_width);
        if (left < 0 || left % (int)w.stride_width != 0 || left / (int)w.stride_width >= (int)w.out_width) continue;
        u32 ox = (u32)left / w.stride_width;
        u64 place = (u64)(b * w.out_height + oy) * w.out_width + ox;
        sum += columns[((place * w.channels + c) * w.kernel_height + ky) * w.kernel_width + kx];
      }
    }
    image[i] = sum;
  }
}

#define params(T) (const T *in, const View *view, T *out, u32 n)
both(gather, params, (in, view, out, n))
both(scatter, params, (in, view, out, n))
#undef params
#define params(T) (const T *image, T *columns, const Window *window)
both(im2col, params, (image, columns, window))
#undef params
#define params(T) (const T *columns, T *image, const Window *window)
both(col2im, params, (columns, image, window))
#undef params
