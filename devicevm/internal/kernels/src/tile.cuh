// The product of a tile of rows and a tile of columns, which the kernels of gemm.cuh are made of.
//
// A block of 256 threads computes BM x BN elements of C. It is divided into groups, each of which sums a part of k
// for the whole tile, TM x TN elements a thread: where a result has few tiles, that many more threads share the work.
// Chunks of KC rows and columns pass through shared memory, two at a time: while one is multiplied the next is on
// its way. In shared memory k is the outer index, whichever way the matrix lies, and quads of four elements are
// permuted by k, so that neither the threads that store nor those that read collide in a bank.
#pragma once
#include "device.cuh"

// Strip is N neighbouring elements, that are read and written 16 bytes at once, or all of them if they are fewer.
template <typename T, u32 N> struct Strip {
  enum : u32 { WIDTH = N * sizeof(T) < 16 ? N : 16 / sizeof(T) };
  typedef T Vector __attribute__((vector_size(WIDTH * sizeof(T))));
  Vector part[N / WIDTH];

  __device__ INLINE T get(u32 i) const { return part[i / WIDTH][i % WIDTH]; }
  __device__ INLINE void set(u32 i, T x) { part[i / WIDTH][i % WIDTH] = x; }
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

// Matrix is one operand: element (i, k) is at i * row + k, or at k * row + i if transposed, which is to say
// that its rows in memory run along i.
template <typename T> struct Matrix {
  const T *data;
  u32 row, length; // from one row in memory to the next; how many i there are
  bool along;      // rows in memory run along i, not k
  bool vectors;    // all rows begin at a multiple of 16 bytes
};

template <typename T, u32 BM, u32 BN, u32 TM, u32 TN> struct Tile {
  enum : u32 {
    KC = 4096 * 4 / (BM + BN) / sizeof(T), // of k in a chunk: 16 KiB of both operands
    ROWS = BM / TM, COLUMNS = BN / TN,     // of threads
    GROUP = ROWS * COLUMNS,                // threads
    GROUPS = 256 / GROUP,
    EACH = KC / GROUPS,                    // of k, for a group
    STAGE = KC * (BM + BN),
    WIDE = COLUMNS < 8 ? COLUMNS : 8,      // threads of a warp that lie side by side
    ACROSS = COLUMNS / WIDE,
  };
  static_assert(KC * BM % 1024 == 0 && KC * BN % 1024 == 0 && EACH % 4 == 0 && GROUP % 32 == 0, "quads do not divide evenly");

  u32 group, row, column; // of this thread: its part of k, and the place of its elements among the threads'
  T sum[TM][TN];

  __device__ INLINE Tile() : sum{} {
    u32 warp = THREAD % GROUP / 32, lane = THREAD % 32;
    group = THREAD / GROUP;
    column = warp % ACROSS * WIDE + lane % WIDE;
    row = warp / ACROSS * (32 / WIDE) + lane / WIDE;
  }

  // The place of element i at k in shared memory, for a tile of B.
  template <u32 B> __device__ static INLINE u32 place(u32 i, u32 k) { return k * B + (i ^ ((k / 4 % (B < 32 ? B / 4 : 8)) * 4)); }

  // Element is where quad q of a chunk of a tile of B begins: which i and k, of the chunk.
  struct Element {
    u32 i, k;
  };
  template <u32 B> __device__ static INLINE Element quad(bool along, u32 q) {
    if (along) return {q % (B / 4) * 4, q / (B / 4)};
    constexpr u32 N = KC / 4, LOW = N < 8 ? N : 8, FEW = 32 / LOW; // quads of a row; of those in a warp; rows in a warp
    u32 rest = q / 32;
    return {rest / (N / LOW) * FEW + q / LOW % FEW, (rest % (N / LOW) * LOW + q % LOW) * 4};
  }

  // load reads this thread's quads of the chunk from k on; what is beyond the matrix, or beyond the end of k, is 0.
  template <u32 B> __device__ static INLINE void load(const Matrix<T> &m, u32 first, u32 k, u32 end, Quad<T> (&to)[KC * B / 1024]) {
#pragma unroll
    for (u32 j = 0; j < KC * B / 1024; j++) {
      Element e = quad<B>(m.along, THREAD + 256 * j);
      u32 i = first + e.i, at = k + e.k;
      bool inside = i < m.length && at < end;
      u32 left = !inside ? 0 : m.along ? m.length - i : end - at;
      const T *from = m.data + (m.along ? (u64)at * m.row + i : (u64)i * m.row + at);
      if (left >= 4 && m.vectors) to[j].read(from);
      else
#pragma unroll
        for (u32 c = 0; c < 4; c++) to[j].set(c, c < left ? from[c] : T(0));
    }
  }

  // store writes them to shared memory.
  template <u32 B> __device__ static INLINE void store(bool along, const Quad<T> (&from)[KC * B / 1024], T *to) {
#pragma unroll
    for (u32 j = 0; j < KC * B / 1024; j++) {
      Element e = quad<B>(along, THREAD + 256 * j);
      if (along) from[j].write(&to[place<B>(e.i, e.k)]);
      else
#pragma unroll
        for (u32 c = 0; c < 4; c++) to[place<B>(e.i, e.k + c)] = from[j].get(c);
    }
  }

  // index is which i of a tile of B the thread's element n of N is, for thread t of COUNT side by side: quads are spread
  // over the tile, so that threads that read at the same time read all banks.
  template <u32 N, u32 COUNT> __device__ static INLINE u32 index(u32 t, u32 n) {
    constexpr u32 RUN = N < 4 ? N : 4;
    return n / RUN * COUNT * RUN + t * RUN + n % RUN;
  }

  template <u32 B, u32 N, u32 COUNT> __device__ static INLINE void fragment(const T *from, u32 t, u32 k, T (&to)[N]) {
    constexpr u32 RUN = N < 4 ? N : 4;
#pragma unroll
    for (u32 n = 0; n < N; n += RUN) {
      Strip<T, RUN> r;
      r.read(&from[place<B>(index<N, COUNT>(t, n), k)]);
#pragma unroll
      for (u32 c = 0; c < RUN; c++) to[n + c] = r.get(c);
    }
  }

  // multiply adds the group's part of a chunk in shared memory.
  __device__ INLINE void multiply(const T *left, const T *right) {
#pragma unroll 2
    for (u32 k0 = 0; k0 < EACH; k0 += 4)
#pragma unroll
      for (u32 d = 0; d < 4; d++) {
        u32 k = group * EACH + k0 + d;
        T x[TM], y[TN];
        fragment<BM, TM, ROWS>(left, row, k, x);
        fragment<BN, TN, COLUMNS>(right, column, k, y);
#pragma unroll
        for (u32 i = 0; i < TM; i++)
#pragma unroll
          for (u32 j = 0; j < TN; j++) sum[i][j] = fused(x[i], y[j], sum[i][j]);
      }
  }

  // each calls f with the thread's sums, of its group's part of k, and their places in the tile, row by row.
  template <typename F> __device__ INLINE void each(F f) {
#pragma unroll
    for (u32 i = 0; i < TM; i++)
#pragma unroll
      for (u32 j = 0; j < TN; j++) f(index<TM, ROWS>(row, i) * BN + index<TN, COLUMNS>(column, j), sum[i][j]);
  }

  // run sums k from begin to end for rows from row0 and columns from column0 on. memory is of 2 STAGE elements; the threads
  // have met after the last use of it.
  __device__ INLINE void run(const Matrix<T> &a, const Matrix<T> &b, u32 row0, u32 column0, u32 begin, u32 end, T *memory) {
    Quad<T> left[KC * BM / 1024], right[KC * BN / 1024];
    load<BM>(a, row0, begin, end, left);
    load<BN>(b, column0, begin, end, right);
    T *now = memory, *next = memory + STAGE;
    for (u32 k = begin; k < end; k += KC) {
      store<BM>(a.along, left, now);
      store<BN>(b.along, right, now + KC * BM);
      sync(); // what was read from the other stage has been, too
      if (k + KC < end) {
        load<BM>(a, row0, k + KC, end, left);
        load<BN>(b, column0, k + KC, end, right);
      }
      multiply(now, now + KC * BM);
      T *other = now;
      now = next;
      next = other;
    }
    sync();
  }
};
