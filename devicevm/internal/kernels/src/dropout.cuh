// Dropout by a counter-based generator (Philox 4x32-10, Salmon et al. 2011), so that the mask of a run is a
// function of (seed, stream, run, element) alone: the backward pass draws it again rather than keep it.
#pragma once
#include "device.cuh"

struct Random {
  u32 word[4];
};

__device__ static inline Random philox(u64 seed, u32 c0, u32 c1, u32 c2, u32 c3) {
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    u32 h0 = high_product(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
    u32 h1 = high_product(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Run is what numbers depend on that differ from run to run. It is on the device so that a captured step can count.
struct Run {
  u64 count, seed;
};

// dropout: out = in * scale where a draw, uniform in [0, 2^32), is below threshold, else 0. One draw of four words
// serves four elements. It is its own derivative: the backward pass applies it to the gradient.
template <typename T> __device__ static void dropout(const T *in, T *out, u32 n, u32 stream, const Run *run, u64 threshold, T scale) {
  u64 count = run->count, seed = run->seed;
  for_each(q, (n + 3) / 4) {
    Random r = philox(seed, q, stream, (u32)count, (u32)(count >> 32));
    for (u32 j = 0; j < 4; j++) {
      u32 i = 4 * q + j;
      if (i < n) out[i] = r.word[j] < threshold ? in[i] * scale : T(0);
    }
  }
}

// count ends a run.
extern "C" __global__ void count(Run *run) {
  if (BLOCK == 0 && THREAD == 0) run->count++;
}

#define params(T) (const T *in, T *out, u32 n, u32 stream, const Run *run, u64 threshold, T scale)
both(dropout, params, (in, out, n, stream, run, threshold, scale))
#undef params
