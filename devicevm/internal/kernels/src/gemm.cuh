// Matrix products where there is no cuBLAS: C = A B, either transposed, in batches. Row-major.
#pragma once
#include "device.cuh"

struct Product {
  u32 m, n, k;             // C is (m, n), A (m, k), B (k, n), after transposition
  u32 transpose_a, transpose_b;
  u32 row_a, row_b, row_c; // elements from one row of memory to the next
  u64 batch_a, batch_b, batch_c; // from one matrix of the batch to the next
  u32 splits, depth;       // k is cut in this many parts, each of depth but the last; C then has a plane for each
  u64 split_c;             // elements between those planes
};

// A block of 256 threads computes a tile of TILE x TILE, each thread EACH x EACH of it, TILE = 16 EACH.
// Tiles are numbered row by row along the grid's x, which is the only one that can be long; products and their parts
// along y. Threads take every 16th row and column, so that reads of shared memory do not collide.
template <typename T, u32 EACH> __device__ static inline void product(const T *a, const T *b, T *c, const Product &p) {
  constexpr u32 TILE = 16 * EACH, DEEP = 16;
  __shared__ T left[DEEP][TILE + 1], right[DEEP][TILE + 1];
  u32 batch = BLOCK_Y / p.splits, split = BLOCK_Y % p.splits, across = (p.n + TILE - 1) / TILE;
  a += batch * p.batch_a;
  b += batch * p.batch_b;
  c += batch * p.batch_c + split * p.split_c;
  u32 row0 = BLOCK / across * TILE, column0 = BLOCK % across * TILE, ty = THREAD / 16, tx = THREAD % 16;
  u32 begin = split * p.depth, end = begin + p.depth < p.k ? begin + p.depth : p.k;
  T sum[EACH][EACH] = {};
  for (u32 k0 = begin; k0 < end; k0 += DEEP) {
    for (u32 e = THREAD; e < TILE * DEEP; e += 256) {
      // Consecutive threads read consecutive memory, whichever way the matrix lies.
      u32 r = p.transpose_a ? e % TILE : e / DEEP, d = p.transpose_a ? e / TILE : e % DEEP;
      u32 row = row0 + r, k = k0 + d;
      left[d][r] = row < p.m && k < end ? a[p.transpose_a ? (u64)k * p.row_a + row : (u64)row * p.row_a + k] : T(0);
      r = p.transpose_b ? e / DEEP : e % TILE, d = p.transpose_b ? e % DEEP : e / TILE;
      u32 column = column0 + r;
      k = k0 + d;
      right[d][r] = column < p.n && k < end ? b[p.transpose_b ? (u64)column * p.row_b + k : (u64)k * p.row_b + column] : T(0);
    }
    sync();
#pragma unroll
    for (u32 d = 0; d < DEEP; d++) {
      T x[EACH], y[EACH];
#pragma unroll
      for (u32 i = 0; i < EACH; i++) x[i] = left[d][ty + 16 * i], y[i] = right[d][tx + 16 * i];
#pragma unroll
      for (u32 i = 0; i < EACH; i++)
#pragma unroll
        for (u32 j = 0; j < EACH; j++) sum[i][j] = fused(x[i], y[j], sum[i][j]);
    }
    sync();
  }
#pragma unroll
  for (u32 i = 0; i < EACH; i++)
#pragma unroll
    for (u32 j = 0; j < EACH; j++) {
      u32 row = row0 + ty + 16 * i, column = column0 + tx + 16 * j;
      if (row < p.m && column < p.n) c[(u64)row * p.row_c + column] = sum[i][j];
    }
}

template <typename T> __device__ static void product_small(const T *a, const T *b, T *c, const Product *p) { product<T, 2>(a, b, c, *p); }
template <typename T> __device__ static void product_large(const T *a, const T *b, T *c, const Product *p) { product<T, sizeof(T) == 4 ? 8 : 4>(a, b, c, *p); }

#define params(T) (const T *a, const T *b, T *c, const Product *p)
both(product_small, params, (a, b, c, p))
both(product_large, params, (a, b, c, p))
#undef params
