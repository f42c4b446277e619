// Batch normalisation of (batch, channels, space), without scale and bias, which are operations of their own in
// Gorgonia. One block of 256 threads a channel.
#pragma once
#include "math.cuh"
#include "reduce.cuh"

// batch_norm normalises by the batch's own mean and variance, which it keeps in mean and inverse (1/sqrt(variance +
// epsilon)) for the backward pass, and moves the running ones by momentum: running = momentum*running +
// (1-momentum)*batch, the variance unbiased by n/(n-1).
template <typename T>
__device__ static void batch_norm(const T *in, T *out, T *mean, T *inverse, T *running_mean, T *running_variance,
                                  u32 batch, u32 channels, u32 space, T momentum, T epsilon) {
  u32 c = BLOCK, n = batch * space;
  T sum = 0;
  for (u32 k = THREAD; k < n; k += THREADS) sum += in[((u64)(k / space) * channels + c) * space + k % space];
  T m = block_sum(sum) / T(n);
  sum = 0;
  for (u32 k = THREAD; k < n; k += THREADS) {
    T d = in[((u64)(k / space) * channels + c) * space + k % space] - m;
    sum += d * d;
  }
  T variance = block_sum(sum) / T(n), scale = 1 / root(variance + epsilon);
  for (u32 k = THREAD; k < n; k += THREADS) {
    u64 at = ((u64)(k / space) * channels + c) * space + k % space;
    out[at] = (in[at] - m) * scale;
  }
  if (THREAD == 0) {
    mean[c] = m;
    inverse[c] = scale;
    running_mean[c] = momentum * running_mean[c] + (1 - momentum) * m;
    running_variance[c] = momentum * running_variance[c] + (1 - momentum) * variance * (n > 1 ? T(n) / T(n - 1) : T(1));
  }
}

// batch_norm_eval normalises by given statistics; with mean 0, on a gradient, it is its own derivative.
template <typename T>
__device__ static void batch_norm_eval(const T *in, T *out, const T *mean, const T *variance, u32 n, u32 channels, u32 space, T epsilon) {
  for_each(i, n) {
    u32 c = i / space % channels;
    out[i] = (in[i] - (mean ? mean[c] : T(0))) / root(variance[c] + epsilon);
  }
}

// batch_norm_diff is the derivative of batch_norm: dx = (dy - mean(dy) - x' mean(dy x')) * inverse, x' being normalised.
template <typename T>
__device__ static void batch_norm_diff(const T *in, const T *grad, const T *mean, const T *inverse, T *out, u32 batch, u32 channels, u32 space) {
  u32 c = BLOCK, n = batch * space;
  T m = mean[c], scale = inverse[c], sum = 0, product = 0;
  for (u32 k = THREAD; k < n; k += THREADS) {
    u64 at = ((u64)(k / space) * channels + c) * space + k % space;
    sum += grad[at];
    product += grad[at] * (in[at] - m) * scale;
  }
  sum = block_sum(sum) / T(n);
  product = block_sum(product) / T(n);
  for (u32 k = THREAD; k < n; k += THREADS) {
    u64 at = ((u64)(k / space) * channels + c) * space + k % space;
    out[at] = (grad[at] - sum - (in[at] - m) * scale * product) * scale;
  }
}

#define params(T)                                                                                            \
  (const T *in, T *out, T *mean, T *inverse, T *running_mean, T *running_variance, u32 batch, u32 channels,  \
   u32 space, T momentum, T epsilon)
both(batch_norm, params, (in, out, mean, inverse, running_mean, running_variance, batch, channels, space, momentum, epsilon))
#undef params
#define params(T) (const T *in, T *out, const T *mean, const T *variance, u32 n, u32 channels, u32 space, T epsilon)
both(batch_norm_eval, params, (in, out, mean, variance, n, channels, space, epsilon))
#undef params
#define params(T) (const T *in, const T *grad, const T *mean, const T *inverse, T *out, u32 batch, u32 channels, u32 space)
both(batch_norm_diff, params, (in, grad, mean, inverse, out, batch, channels, space))
#undef params
