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
    auto look = [&](T v, int place) INLINE_LAMBDA {
      if (v > most || (v != v && most == most)) { // a NaN stays
        most = v;
        at = place;
      }
    };
    const int top = (int)(oy * w.stride_height.by) - w.pad_height, left = (int)(ox * w.stride_width.by) - w.pad_width;
    if (w.kernel_height.by == 2 && w.kernel_width.by == 2 && top >= 0 && left >= 0 && top + 1 < (int)w.height.by && left + 1 < (int)w.width.by) {
      const int first = top * (int)w.width.by + left, second = first + (int)w.width.by;
      const T v[4] = {image[first], image[first + 1], image[second], image[second + 1]}; // all on their way at once
      look(v[0], first);
      look(v[1], first + 1);
      look(v[2], second);
      look(v[3], second + 1);
    } else {
      for (u32 ky = 0; ky < w.kernel_height.by; ky++) {
        int y = top + (int)ky;
        if (y < 0 || y >= (int)w.height.by) continue;
        for (u32 kx = 0; kx < w.kernel_width.by; kx++) {
          int x = left + (int)kx;
          if (x >= 0 && x < (int)w.width.by) look(image[y * (int)w.width.by + x], y * (int)w.width.by + x);
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

// A pixel of an image, and the windows that it may be in.
struct Pixel {
  u32 plane, x, y; // with padding
  int place;       // in its plane
  __device__ INLINE Pixel(u32 i, const Window &w) : plane(i) {
    x = next(plane, w.width);
    y = next(plane, w.height);
    place = (int)(y * w.width.by + x);
    x += w.pad_width;
    y += w.pad_height;
  }
  __device__ INLINE u32 window(u32 oy, u32 ox, const Window &w) const { return (plane * w.out_height.by + oy) * w.out_width.by + ox; }
};

// max_pool_diff: each pixel sums the gradients of the windows whose maximum it is, which then evaluates. A thread has WIDE
// pixels at a time. Where no windows overlap each pixel is in one at most, and what is read does not depend on what
// was read before.
template <typename T> __device__ static INLINE void max_pool_diff(const T *grad, const int *where, const PoolDiff &p) {
  const Window &w = p.window;
  const u32 n = w.batch * w.channels.by * w.height.by * w.width.by;
  const bool apart = w.kernel_height.by <= w.stride_height.by && w.kernel_width.by <= w.stride_width.by && w.out_height.by > 0 && w.out_width.by > 0;
  for (u64 start = (u64)WIDE * (BLOCK * THREADS + THREAD); start < n; start += (u64)WIDE * BLOCKS * THREADS) {
    T sums[WIDE] = {};
    u32 at[WIDE];
    const u32 count = n - start < WIDE ? (u32)(n - start) : (u32)WIDE;
#pragma unroll
    for (u32 j = 0; j < WIDE; j++) at[j] = (u32)start + j;
    if (apart) {
      int places[WIDE], maxima[WIDE];
      T gradients[WIDE];
#pragma unroll
      for (u32 j = 0; j < WIDE; j++) {
        const Pixel pixel(j < count ? at[j] : at[0], w);
        const u32 oy = pixel.y / w.stride_height, ox = pixel.x / w.stride_width;
        const bool inside = oy < w.out_height.by && ox < w.out_width.by; // of a window, or of what is between windows
        const u32 o = inside ? pixel.window(oy, ox, w) : 0;
        places[j] = inside ? pixel.place : -2; // which no maximum has
        maxima[j] = where[o];
        gradients[j] = grad[o];
      }
#pragma unroll
      for (u32 j = 0; j < WIDE; j++) sums[j] = maxima[j] == places[j] ? gradients[j] : T(0);
    } else {
#pragma unroll
      for (u32 j = 0; j < WIDE; j++) {
        const Pixel pixel(at[j], w);
        const u32 end_y = j < count ? w.out_height.by : 0; // nothing for a pixel that is not there
        const u32 first_y = pixel.y < w.kernel_height.by ? 0 : (pixel.y - w.kernel_height.by) / w.stride_height + 1;
        const u32 first_x = pixel.x < w.kernel_width.by ? 0 : (pixel.x - w.kernel_width.by) / w.stride_width + 1;
        for (u32 oy = first_y; oy * w.stride_height.by <= pixel.y && oy < end_y; oy++)
          for (u32 ox = first_x; ox * w.stride_width.by <= pixel.x && ox < w.out_width.by; ox++) {
            const u32 o = pixel.window(oy, ox, w);
            if (where[o] == pixel.place) sums[j] += grad[o];
          }
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
