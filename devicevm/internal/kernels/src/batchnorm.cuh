// Batch normalisation of (batch, channels, space), without scale and bias, which are operations of their own in
// Gorgonia. One block of 256 threads a channel.
#pragma once
#include "math.cuh"
#include "reduce.cuh"

// batch_norm normalises by the batch's own mean and variance, and moves the running ones, (2, channels), towards them:
// running = momentum * batch + (1-momentum) * running, the variance that of a sample, divided by n-1. With eval it
// normalises by the running ones, and leaves them. saved, (2, channels), gets the mean and 1/sqrt(variance + epsilon)
// that were used, for the backward pass.
template <typename T>
__device__ static void batch_norm(const T *in, T *out, T *saved, T *running, u32 batch, u32 channels, u32 space, u32 eval, T momentum, T epsilon) {
  u32 c = BLOCK, n = batch * space;
  T mean = running[c], variance = running[channels + c];
  if (!eval) { // the same for all threads
    T sum = 0, squares = 0;
    for (u32 k = THREAD; k < n; k += THREADS) sum += in[((u64)(k / space) * channels + c) * space + k % space];
    mean = block_sum(sum) / T(n);
    for (u32 k = THREAD; k < n; k += THREADS) {
      T d = in[((u64)(k / space) * channels + c) * space + k % space] - mean;
      squares += d * d;
    }
    squares = block_sum(squares);
    variance = squares / T(n);
    if (THREAD == 0) {
      running[c] = momentum * mean + (1 - momentum) * running[c];
      running[channels + c] = momentum * (squares / T(n - 1)) + (1 - momentum) * running[channels + c];
    }
  }
  T scale = 1 / root(variance + epsilon);
  for (u32 k = THREAD; k < n; k += THREADS) {
    u64 at = ((u64)(k / space) * channels + c) * space + k % space;
    out[at] = (in[at] - mean) * scale;
  }
  if (THREAD == 0) {
    saved[c] = mean;
    saved[channels + c] = scale;
  }
}

// batch_norm_diff is the derivative: dx = (dy - mean(dy) - x' mean(dy x')) / deviation, x' being normalised; with eval, where
// the statistics do not depend on x, dy / deviation.
template <typename T>
__device__ static void batch_norm_diff(const T *in, const T *grad, const T *saved, T *out, u32 batch, u32 channels, u32 space, u32 eval) {
  u32 c = BLOCK, n = batch * space;
  T mean = saved[c], scale = saved[channels + c], sum = 0, product = 0;
  if (!eval) {
    for (u32 k = THREAD; k < n; k += THREADS) {
      u64 at = ((u64)(k / space) * channels + c) * space + k % space;
      sum += grad[at];
      product += grad[at] * (in[at] - mean) * scale;
    }
    sum = block_sum(sum) / T(n);
    product = block_sum(product) / T(n);
  }
  for (u32 k = THREAD; k < n; k += THREADS) {
    u64 at = ((u64)(k / space) * channels + c) * space + k % space;
    out[at] = (grad[at] - sum - (in[at] - mean) * scale * product) * scale;
  }
}

#define params(T) (const T *in, T *out, T *saved, T *running, u32 batch, u32 channels, u32 space, u32 eval, T momentum, T epsilon)
both(batch_norm, params, (in, out, saved, running, batch, channels, space, eval, momentum, epsilon))
#undef params
#define params(T) (const T *in, const T *grad, const T *saved, T *out, u32 batch, u32 channels, u32 space, u32 eval)
both(batch_norm_diff, params, (in, grad, saved, out, batch, channels, space, eval))
#undef params
