// Kernels that move elements: permutations of axes, slices, windows to columns and back.
#pragma once
#include "divide.cuh"
#include "strip.cuh"

enum { MAX_AXES = 8 };

// View says where element i of a tensor of this shape, in row-major order, is in memory: its coordinates by
// the strides. Strides may be 0, which repeats, or jump over what is not part of a slice.
struct View {
  u32 axes;
  u32 stride[MAX_AXES];
  Divisor shape[MAX_AXES];
  u32 none;
};

__device__ static INLINE u64 offset_of(const View &v, u32 i) {
  u64 at = 0;
  for (u32 a = v.axes; a > 0; a--) at += (u64)next(i, v.shape[a - 1]) * v.stride[a - 1];
  return at;
}

// gather: out[i] = in[view(i)].
template <typename T> __device__ static INLINE void gather(const T *in, T *out, u32 n, const View &view) {
  for_each(i, n) out[i] = in[offset_of(view, i)];
}

// scatter: out[view(i)] = in[i]. Strides of 0 would make it a race.
template <typename T> __device__ static INLINE void scatter(const T *in, T *out, u32 n, const View &view) {
  for_each(i, n) out[offset_of(view, i)] = in[i];
}

// Window is a convolution's or a pooling's geometry. Images are (batch, channels, height, width).
struct Window {
  u32 batch;
  int pad_height, pad_width; // before the first row and column
  u32 dilation_height, dilation_width;
  Divisor channels, height, width, out_height, out_width, kernel_height, kernel_width, stride_height, stride_width;
};

// im2col: columns are (batch, out_height, out_width, channels*kernel_height*kernel_width), as Gorgonia has them. A thread
// computes four neighbours: where the first is it finds by dividing, the others follow.
template <typename T> __device__ static INLINE void im2col(const T *image, T *columns, const Window &w) {
  const u32 n = w.batch * w.out_height.by * w.out_width.by * w.channels.by * w.kernel_height.by * w.kernel_width.by;
  for_each(quad, (n + 3) / 4) {
    u32 i = 4 * quad, b = i, kx = next(b, w.kernel_width), ky = next(b, w.kernel_height), c = next(b, w.channels);
    u32 ox = next(b, w.out_width), oy = next(b, w.out_height);
    Quad<T> q;
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
      int y = (int)(oy * w.stride_height.by + ky * w.dilation_height) - w.pad_height;
      int x = (int)(ox * w.stride_width.by + kx * w.dilation_width) - w.pad_width;
      bool inside = y >= 0 && y < (int)w.height.by && x >= 0 && x < (int)w.width.by && i + j < n;
      q.set(j, inside ? image[((u64)(b * w.channels.by + c) * w.height.by + y) * w.width.by + x] : T(0));
      if (++kx < w.kernel_width.by) continue;
      kx = 0;
      if (++ky < w.kernel_height.by) continue;
      ky = 0;
      if (++c < w.channels.by) continue;
      c = 0;
      if (++ox < w.out_width.by) continue;
      ox = 0;
      if (++oy < w.out_height.by) continue;
      oy = 0;
      b++;
    }
    if (i + 4 <= n && (u64)columns % 16 == 0) q.write(columns + i);
    else
      for (u32 j = 0; j < 4 && i + j < n; j++) columns[i + j] = q.get(j);
  }
}

// col2im sums what im2col spread. Each pixel gathers from the windows that it is in, so nothing is added
// atomically and the order of the sum is fixed. Neighbouring threads have neighbouring channels, whose columns are
// neighbours.
template <typename T> __device__ static INLINE void col2im(const T *columns, T *image, const Window &w) {
  u32 n = w.batch * w.channels.by * w.height.by * w.width.by;
  for_each(i, n) {
    u32 b = i, c = next(b, w.channels), left = next(b, w.width), top = next(b, w.height);
    u32 x = left + w.pad_width, y = top + w.pad_height;
    T sum = 0;
    for (u32 ky = 0; ky < w.kernel_height.by; ky++) {
      u32 oy = y - ky * w.dilation_height;
      if ((int)oy < 0 || next(oy, w.stride_height) != 0 || oy >= w.out_height.by) continue;
      for (u32 kx = 0; kx < w.kernel_width.by; kx++) {
        u32 ox = x - kx * w.dilation_width;
        if ((int)ox < 0 || next(ox, w.stride_width) != 0 || ox >= w.out_width.by) continue;
        u64 place = (u64)(b * w.out_height.by + oy) * w.out_width.by + ox;
        sum += columns[((place * w.channels.by + c) * w.kernel_height.by + ky) * w.kernel_width.by + kx];
      }
    }
    image[((u64)(b * w.channels.by + c) * w.height.by + top) * w.width.by + left] = sum;
  }
}

#define params(T) (const T *in, T *out, u32 n, const View view)
both(gather, params, (in, out, n, view))
both(scatter, params, (in, out, n, view))
#undef params
#define params(T) (const T *image, T *columns, const Window window)
both(im2col, params, (image, columns, window))
#undef params
#define params(T) (const T *columns, T *image, const Window window)
both(col2im, params, (columns, image, window))
#undef params
