// The product of a tile of rows and a tile of columns, which the kernels of gemm.cuh are made of.
//
// A block of 256 threads computes BM x BN elements of C. It is divided into groups, each of which sums a part of k
// for the whole tile, TM x TN elements a thread: where a result has few tiles, that many more threads share the work.
// Chunks of KC rows and columns pass through shared memory, two at a time: while one is multiplied the next is on
// its way. In shared memory k is the outer index, whichever way the matrix lies, and quads of four elements are
// permuted by k, so that neither the threads that store nor those that read collide in a bank.
//
// A thread's addresses differ from chunk to chunk, and from one of its quads to the next, by the same steps each time: what is
// computed beside products is little, and done once.
#pragma once
#include "divide.cuh"
#include "strip.cuh"

// Matrix is one operand: element (i, k) is at i * row + k, or at k * row + i if its rows in memory run along i.
template <typename T> struct Matrix {
  const T *data;
  u32 row, length; // from one row in memory to the next; how many i there are
  bool along;      // rows in memory run along i, not k
  bool vectors;    // all rows begin at a multiple of 16 bytes
  Divisor places;  // not by 0: what rows in memory run along is (image, place), and images are jump apart
  u64 jump;

  // The elements from the beginning of a row to what is at x of it.
  __device__ INLINE u64 offset(u32 x) const {
    if (places.by == 0) return x;
    u32 image = x / places;
    return image * jump + (x - image * places.by);
  }
};

// Panel is what a thread brings of B rows or columns: QUADS quads of each chunk.
template <typename T, u32 B, u32 KC> struct Panel {
  enum : u32 {
    QUADS = KC * B / 1024,
    SWIZZLE = B < 32 ? B / 4 : 8,                                      // how many quads are permuted
    LINE = KC / 4, LOW = LINE < 8 ? LINE : 8, FEW = 32 / LOW,          // along k: quads of a row, those a warp reads of it, its rows
    NEXT_K = 1024 / B, NEXT_I = 8 / (LINE / LOW) * FEW,                // from a thread's quad to its next
  };
  static_assert(KC * B % 1024 == 0 && LINE % LOW == 0 && 8 % (LINE / LOW) == 0, "quads do not divide evenly");

  Matrix<T> m;
  const T *from; // the first quad, of the next chunk
  const T *line; // its row, if rows run along k
  u32 at;        // its k
  u64 apart;     // elements from one quad to the next
  u64 chunk;     // from one chunk to the next
  u32 k;         // of the first quad, in the chunk
  u32 valid;     // along i: elements of a quad that there are; else how many quads are in rows that there are
  u32 place;     // of the first quad in shared memory
  bool whole;

  __device__ static INLINE u32 place_of(u32 i, u32 k) { return k * B + (i ^ (k / 4 % SWIZZLE * 4)); }

  // The quads of rows (or columns) from first on, and of k from begin on.
  __device__ INLINE Panel(const Matrix<T> &matrix, u32 first, u32 begin) : m(matrix) {
    u32 i;
    if (m.along) {
      i = THREAD % (B / 4) * 4;
      k = THREAD / (B / 4);
      u32 left = first + i < m.length ? m.length - first - i : 0;
      line = m.data;
      valid = left < 4 ? left : 4;
      whole = valid == 4;
      from = m.data + (u64)(begin + k) * m.row + m.offset(first + i);
      apart = (u64)NEXT_K * m.row;
      chunk = (u64)KC * m.row;
    } else {
      u32 rest = THREAD / 32;
      i = rest / (LINE / LOW) * FEW + THREAD / LOW % FEW;
      k = (rest % (LINE / LOW) * LOW + THREAD % LOW) * 4;
      u32 left = first + i < m.length ? (m.length - first - i + NEXT_I - 1) / NEXT_I : 0;
      valid = left < QUADS ? left : (u32)QUADS;
      whole = valid == QUADS;
      line = m.data + (u64)(first + i) * m.row;
      from = line + m.offset(begin + k);
      apart = (u64)NEXT_I * m.row;
      chunk = KC;
    }
    at = begin + k;
    place = place_of(i, k);
  }

  // load reads the quads of a chunk of which have k are left, and goes on to the next. What is beyond the matrix is 0.
  __device__ INLINE void load(u32 have, Quad<T> (&to)[QUADS]) {
    bool images = m.places.by != 0 && !m.along; // the next place may be in another
    if (m.vectors && whole && have >= KC) {
#pragma unroll
      for (u32 j = 0; j < QUADS; j++) to[j].read(from + j * apart);
    } else {
#pragma unroll
      for (u32 j = 0; j < QUADS; j++) {
        u32 l = m.along ? k + j * NEXT_K : k, n = l >= have ? 0 : m.along ? valid : j >= valid ? 0 : have - l < 4 ? have - l : 4;
        if (n == 4 && m.vectors) to[j].read(from + j * apart);
        else
#pragma unroll
          for (u32 c = 0; c < 4; c++) {
            const T *one = images ? line + m.offset(at + c) : from + c;
            to[j].set(c, c < n ? one[j * apart] : T(0));
          }
      }
    }
    at += KC;
    from = images ? line + m.offset(at) : from + chunk;
  }

  // store writes them to shared memory.
  __device__ INLINE void store(const Quad<T> (&quad)[QUADS], T *to) const {
    if (m.along) {
#pragma unroll
      for (u32 j = 0; j < QUADS; j++) // the place for a k that is j * NEXT_K further: the bits of both are apart
        quad[j].write(to + (place ^ (j * NEXT_K / 4 % SWIZZLE * 4)) + j * NEXT_K * B);
    } else {
#pragma unroll
      for (u32 j = 0; j < QUADS; j++) {
        // Rows that are j * NEXT_I further: where that is less than what is permuted, a bit of it is.
        T *at = NEXT_I < SWIZZLE * 4 ? to + (place ^ (j * NEXT_I)) : to + place + j * NEXT_I;
#pragma unroll
        for (u32 c = 0; c < 4; c++) at[c * B] = quad[j].get(c);
      }
    }
  }
};

template <typename T, u32 BM, u32 BN, u32 TM, u32 TN> struct Tile {
  enum : u32 {
    KC = 4096 * 4 / (BM + BN) / sizeof(T), // of k in a chunk: 16 KiB of both operands
    ROWS = BM / TM, COLUMNS = BN / TN,     // of threads
    GROUP = ROWS * COLUMNS,                // threads
    GROUPS = 256 / GROUP,
    STAGE = KC * (BM + BN),
    WIDE = COLUMNS < 8 ? COLUMNS : 8,      // threads of a warp that lie side by side
    ACROSS = COLUMNS / WIDE,
  };
  static_assert(KC % (4 * GROUPS) == 0 && GROUP % 32 == 0, "groups do not divide a chunk evenly");

  u32 group, row, column; // of this thread: its part of k, and the place of its elements among the threads'
  T sum[TM][TN];

  __device__ INLINE Tile() : sum{} {
    u32 warp = THREAD % GROUP / 32, lane = THREAD % 32;
    group = THREAD / GROUP;
    column = warp % ACROSS * WIDE + lane % WIDE;
    row = warp / ACROSS * (32 / WIDE) + lane / WIDE;
  }

  // index is which i of a tile of B the thread's element n of N is, for thread t of COUNT side by side: quads are spread
  // over the tile, so that threads that read at the same time read all banks.
  template <u32 N, u32 COUNT> __device__ static INLINE u32 index(u32 t, u32 n) {
    constexpr u32 RUN = N < 4 ? N : 4;
    return n / RUN * COUNT * RUN + t * RUN + n % RUN;
  }

  // fragment reads the thread's elements at k of what the group has of quad j of k.
  template <u32 B, u32 N, u32 COUNT> __device__ INLINE void fragment(const T *from, u32 t, u32 j, u32 d, T (&to)[N]) const {
    constexpr u32 RUN = N < 4 ? N : 4, SWIZZLE = Panel<T, B, KC>::SWIZZLE;
#pragma unroll
    for (u32 n = 0; n < N; n += RUN) {
      Strip<T, RUN> r;
      u32 i = index<N, COUNT>(t, n) ^ (group % SWIZZLE * 4); // does not change: j only adds bits that group has not
      r.read(from + (i ^ (GROUPS * j % SWIZZLE * 4)) + (4 * GROUPS * j + d) * B);
#pragma unroll
      for (u32 c = 0; c < RUN; c++) to[n + c] = r.get(c);
    }
  }

  // multiply adds the group's part of a chunk of have k in shared memory: every GROUPS-th quad of k.
  __device__ INLINE void multiply(const T *left, const T *right, u32 have) {
    left += 4 * group * BM;
    right += 4 * group * BN;
#pragma unroll 2
    for (u32 j = 0; j < KC / (4 * GROUPS); j++) {
      if (4 * (group + GROUPS * j) >= have) break;
#pragma unroll
      for (u32 d = 0; d < 4; d++) {
        T x[TM], y[TN];
        fragment<BM, TM, ROWS>(left, row, j, d, x);
        fragment<BN, TN, COLUMNS>(right, column, j, d, y);
#pragma unroll
        for (u32 i = 0; i < TM; i++)
#pragma unroll
          for (u32 c = 0; c < TN; c++) sum[i][c] = fused(x[i], y[c], sum[i][c]);
      }
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
    Panel<T, BM, KC> rows(a, row0, begin);
    Panel<T, BN, KC> columns(b, column0, begin);
    Quad<T> left[Panel<T, BM, KC>::QUADS], right[Panel<T, BN, KC>::QUADS];
    u32 have = end - begin, stage = 0;
    rows.load(have, left);
    columns.load(have, right);
    for (;;) {
      T *now = memory + stage;
      rows.store(left, now);
      columns.store(right, now + KC * BM);
      sync(); // what was read from the other stage has been, too
      u32 rest = have > KC ? have - KC : 0;
      if (rest > 0) {
        rows.load(rest, left);
        columns.load(rest, right);
      }
      multiply(now, now + KC * BM, have);
      if (rest == 0) break;
      have = rest;
      stage = STAGE - stage;
    }
    sync();
  }
};
