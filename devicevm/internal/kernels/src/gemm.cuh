// Matrix products C = A B, either transposed, in batches. Row-major; C is contiguous.
//
// Where the tiles of C are too few for a device, k is divided among several blocks: each leaves its sums in scratch memory, and
// the last to arrive adds them, in the order of k. So a product is one launch, and which block that is changes no bit.
#pragma once
#include "divide.cuh"
#include "elementwise.cuh"
#include "tile.cuh"

// Product is a product, and what its elements then go through. Kernels have it by value, see Expression.
struct Product {
  u64 batch_a, batch_b;          // elements from one matrix of the batch to the next
  u32 m, n, k;                   // C is (m, n), A (m, k), B (k, n), after transposition
  u32 row_a, row_b;              // elements from one row of memory to the next
  u32 transpose_a, transpose_b;  // 0 or 1, as all that are one or the other
  u32 vectors_a, vectors_b;      // all rows begin at a multiple of 16 bytes
  u32 images;                    // not 1: the products of so many matrices of one batch are added up
  u32 depth;                     // k, or the images, are cut in parts, each of depth but the last
  u32 places_a;                  // see places
  Divisor splits, tiles, across; // so many parts; tiles of a C, and of a row of it
  Divisor places;                // not by 0: columns are (image, place), and C is (image, m, place), or with places_a
                                 // rows, or if A is not transposed k, is, and images of A are batch_a apart
  Expression then;

  // The index in C of an element of the matrix of a batch.
  __device__ INLINE u32 at(u32 batch, u32 row, u32 column) const {
    if (places.by == 0 || places_a) return (batch * m + row) * n + column;
    u32 image = column / places;
    return (image * m + row) * places.by + column - image * places.by;
  }
};

// arrive reports, to all threads of a block, whether it is the last of count to get there. What these wrote before is then
// there to read. The counter, 0 at first, is 0 again after the last.
__device__ static INLINE bool arrive(u32 *counter, u32 count) {
  __shared__ u32 before;
  fence();
  sync();
  if (THREAD == 0) before = ticket(counter, count - 1);
  sync();
  fence();
  return before == count - 1;
}

// product_tile computes the tile of C that the block is for, or a part of k for it. finish gets what it has summed.
template <typename T, u32 BM, u32 BN, u32 TM, u32 TN, typename Finish>
__device__ static INLINE void product_tile(const T *a, const T *b, const Product &p, T *memory, Finish finish) {
  u32 number = BLOCK, split = next(number, p.splits), batch = number, tile = next(batch, p.tiles), row0 = tile, column0 = next(row0, p.across);
  row0 *= BM;
  column0 *= BN;
  u32 begin = split * p.depth, end = begin + p.depth, image = batch, images = 1;
  if (p.images > 1) {
    image = begin;
    images = end < p.images ? p.depth : p.images - begin;
    begin = 0;
    end = p.k;
  }
  Tile<T, BM, BN, TM, TN> sum;
  for (; images > 0; images--, image++)
    sum.run({a + image * p.batch_a, p.row_a, p.m, p.transpose_a != 0, p.vectors_a != 0, p.places_a ? p.places : Divisor{}, p.batch_a},
            {b + image * p.batch_b, p.row_b, p.n, p.transpose_b == 0, p.vectors_b != 0, {}, 0}, row0, column0, begin, end < p.k ? end : p.k, memory);
  finish(sum, number, batch, row0, column0);
}

// product is for results of few tiles. Blocks are numbered by batch, then tile, row by row, then part of k. partial has
// room for a tile for each block, arrived a counter for each tile, where there are parts. What is done with C, p says.
template <typename T, u32 BM, u32 BN, u32 TM, u32 TN>
__device__ static INLINE void product(const T *a, const T *b, T *partial, u32 *arrived, const Product &p) {
  typedef Tile<T, BM, BN, TM, TN> Sum;
  enum : u32 {
    SIZE = BM * BN, N = SIZE / 256 < 4 ? SIZE / 256 : 4,
    ROOM = 2 * Sum::STAGE / SIZE, PLANES = Sum::GROUPS < ROOM ? Sum::GROUPS : ROOM,
  };
  __shared__ __attribute__((aligned(16))) T memory[2 * Sum::STAGE];
  product_tile<T, BM, BN, TM, TN>(a, b, p, memory, [&](Sum &s, u32 number, u32 batch, u32 row0, u32 column0) INLINE_LAMBDA {
    for (u32 groups = Sum::GROUPS; groups > PLANES; groups /= 2) { // until there is room for all
      if (s.group >= groups / 2 && s.group < groups) s.each([&](u32 at, T x) INLINE_LAMBDA { memory[(s.group - groups / 2) * SIZE + at] = x; });
      sync();
      if (s.group < groups / 2) s.each([&](u32 at, T &x) INLINE_LAMBDA { x += memory[s.group * SIZE + at]; });
      sync();
    }
    if (s.group < PLANES) s.each([&](u32 at, T x) INLINE_LAMBDA { memory[s.group * SIZE + at] = x; });
    sync();
    auto groups_of = [&](u32 at) INLINE_LAMBDA { // N neighbours
      Strip<T, N> x, y;
      x.read(memory + at);
#pragma unroll
      for (u32 g = 1; g < PLANES; g++) {
        y.read(memory + g * SIZE + at);
        x.add(y);
      }
      return x;
    };
    const T *all = partial + (u64)number * p.splits.by * SIZE;
    if (p.splits.by > 1) {
      T *mine = partial + (u64)BLOCK * SIZE;
#pragma unroll
      for (u32 j = N * THREAD; j < SIZE; j += N * 256) groups_of(j).write(mine + j);
      if (!arrive(&arrived[number], p.splits.by)) return;
    }
#pragma unroll 1
    for (u32 place = N * THREAD; place < SIZE; place += N * 256) {
      Strip<T, N> sum;
      if (p.splits.by == 1) sum = groups_of(place);
      else {
        constexpr u32 READS = 64 / sizeof(T) / N; // of parts that are under way at once
        sum.read(all + place);
        for (u32 k = 1; k < p.splits.by; k += READS) {
          Strip<T, N> part[READS];
          const T *from = all + (u64)k * SIZE + place;
#pragma unroll
          for (u32 l = 0; l < READS; l++)
            if (k + l < p.splits.by) part[l].read(from + l * SIZE);
#pragma unroll
          for (u32 l = 0; l < READS; l++)
            if (k + l < p.splits.by) sum.add(part[l]);
        }
      }
      u32 row = row0 + place / BN, column = column0 + place % BN, count = row < p.m && column < p.n ? p.n - column : 0;
      T x[N];
      u32 at[N];
#pragma unroll
      for (u32 i = 0; i < N; i++) {
        x[i] = sum.get(i);
        at[i] = p.at(batch, row, column + i);
      }
      // Neighbours in the tile are neighbours in C but where its rows, or images, end at no multiple of N.
      if (N > 1 && p.then.wide && count >= N && at[0] % N == 0 && at[N - 1] == at[0] + N - 1) express<(N > 1)>(p.then, at, N, x);
      else
#pragma unroll 1
        for (u32 i = 0; i < N && i < count; i++) {
          u32 one[1] = {p.at(batch, row, column + i)};
          T y[1] = {x[0]};
#pragma unroll
          for (u32 l = 1; l < N; l++) y[0] = i == l ? x[l] : y[0];
          express<false>(p.then, one, 1, y);
        }
    }
  });
}

// product_whole is for results of many tiles, of which each block has one. C is the first result of p.then; nothing else
// of that is looked at.
template <typename T, u32 B, u32 EACH> __device__ static INLINE void product_whole(const T *a, const T *b, const Product &p) {
  typedef Tile<T, B, B, EACH, EACH> Sum;
  __shared__ __attribute__((aligned(16))) T memory[2 * Sum::STAGE];
  product_tile<T, B, B, EACH, EACH>(a, b, p, memory, [&](Sum &s, u32, u32 batch, u32 row0, u32 column0) INLINE_LAMBDA {
    T *c = (T *)p.then.result[0];
    s.each([&](u32 at, T x) INLINE_LAMBDA {
      u32 row = row0 + at / B, column = column0 + at % B;
      if (row < p.m && column < p.n) c[p.at(batch, row, column)] = x;
    });
  });
}

// By the edge of a tile. Where C is small the groups matter, where it is large how much a thread has in registers.
#define params(T) (const T *a, const T *b, T *partial, u32 *arrived, const Product &p)
template <typename T> __device__ static INLINE void product_tiny params(T) { product<T, 16, 16, 2, 4>(a, b, partial, arrived, p); }
template <typename T> __device__ static INLINE void product_small params(T) { product<T, 32, 32, 4, 4>(a, b, partial, arrived, p); }
template <typename T> __device__ static INLINE void product_medium params(T) {
  product<T, 64, 64, sizeof(T) == 4 ? 8 : 4, 4>(a, b, partial, arrived, p);
}
template <typename T> __device__ static INLINE void product_large params(T) {
  product_whole<T, sizeof(T) == 4 ? 128 : 64, sizeof(T) == 4 ? 8 : 4>(a, b, p);
}
#undef params

#define params(T) (const T *a, const T *b, T *partial, u32 *arrived, const Product p)
#undef BOUNDS
#define BOUNDS __launch_bounds__(256, 2) // so many registers that two blocks fit
both(product_tiny, params, (a, b, partial, arrived, p))
both(product_small, params, (a, b, partial, arrived, p))
both(product_medium, params, (a, b, partial, arrived, p))
#undef BOUNDS
#define BOUNDS
both(product_large, params, (a, b, partial, arrived, p))
#undef params
