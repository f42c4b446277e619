// Neighbouring elements that are read and written at once.
#pragma once
#include "device.cuh"

// Strip is N neighbouring elements, that are read and written 16 bytes at once, or all of them if they are fewer.
template <typename T, u32 N> struct Strip {
  enum : u32 { WIDTH = N * sizeof(T) < 16 ? N : 16 / sizeof(T) };
  typedef T Vector __attribute__((vector_size(WIDTH * sizeof(T))));
  Vector part[N / WIDTH];

  __device__ INLINE T get(u32 i) const { return part[i / WIDTH][i % WIDTH]; }
  __device__ INLINE void set(u32 i, T x) { part[i / WIDTH][i % WIDTH] = x; }
  __device__ INLINE void add(const Strip &o) {
#pragma unroll
    for (u32 i = 0; i < N / WIDTH; i++) part[i] += o.part[i];
  }
  __device__ INLINE void read(const T *from) {
#pragma unroll
    for (u32 i = 0; i < N / WIDTH; i++) part[i] = ((const Vector *)from)[i];
  }
  __device__ INLINE void write(T *to) const {
#pragma unroll
    for (u32 i = 0; i < N / WIDTH; i++) ((Vector *)to)[i] = part[i];
  }
};
template <typename T> using Quad = Strip<T, 4>;
