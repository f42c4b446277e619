// Solvers: one launch updates all parameters of a model, from settings on the device, so that a captured step
// follows a changed learning rate.
#pragma once
#include "math.cuh"

// Settings of a solver, float64 whatever the parameters are. tick keeps the last three.
struct Settings {
  double rate, l1, l2;     // regularisation is added to the gradient
  double scale, clip;      // then it is scaled (1/batch size), then clipped to [-clip, clip] if clip > 0
  double decay;            // of weights, decoupled: w -= rate * decay * w
  double beta1, beta2;     // of the first and second moment; beta1 is momentum's too
  double epsilon;
  double upstream;         // not 0: momentum regularises by itself in place of the weights, as Gorgonia's does
  double power1, power2;   // beta^steps
  double steps;
};

// Parameter is one tensor's weights, gradient and moments (first 0 where the solver has none).
struct Parameter {
  u64 weights, gradient, first, second;
  u64 n;
};

extern "C" __global__ void tick(Settings *s) {
  if (BLOCK != 0 || THREAD != 0) return;
  s->steps += 1;
  s->power1 *= s->beta1;
  s->power2 *= s->beta2;
}

template <typename T> __device__ static inline T clipped(const Settings *s, T g) {
  T c = T(s->clip);
  return c > 0 ? (g > c ? c : g < -c ? -c : g) : g;
}

// prepared is a gradient regularised by what of is, scaled and clipped.
template <typename T> __device__ static inline T prepared(const Settings *s, T g, T of) {
  g += T(s->l1) * (of > 0 ? T(1) : of < 0 ? T(-1) : T(0)) + T(s->l2) * of;
  return clipped(s, g * T(s->scale));
}

// sgd: w -= rate g.
template <typename T> __device__ static void sgd(const Settings *s, const Parameter *all) {
  Parameter p = all[BLOCK_Y];
  T *w = (T *)p.weights;
  const T *g = (const T *)p.gradient;
  for_each(i, (u32)p.n) w[i] -= T(s->rate) * prepared(s, g[i], w[i]);
}

// momentum: m = beta1 m - rate g; w += m.
template <typename T> __device__ static void momentum(const Settings *s, const Parameter *all) {
  Parameter p = all[BLOCK_Y];
  T *w = (T *)p.weights, *m = (T *)p.first;
  const T *g = (const T *)p.gradient;
  for_each(i, (u32)p.n) {
    T v = T(s->beta1) * m[i] - T(s->rate) * prepared(s, g[i], s->upstream != 0 ? m[i] : w[i]);
    m[i] = v;
    w[i] += v;
  }
}

// rmsprop: v = beta2 v + (1-beta2) g^2; w -= rate g / sqrt(v + epsilon) + l2 w. As in Gorgonia, v is of gradients that are
// not clipped, and regularisation is not part of the gradient. v is the first moment: there is one only.
template <typename T> __device__ static void rmsprop(const Settings *s, const Parameter *all) {
  Parameter p = all[BLOCK_Y];
  T *w = (T *)p.weights, *moment = (T *)p.first;
  const T *gradient = (const T *)p.gradient;
  for_each(i, (u32)p.n) {
    T g = gradient[i], v = T(s->beta2) * moment[i] + T(1 - s->beta2) * g * g;
    moment[i] = v;
    w[i] -= T(s->rate) * clipped(s, g) / root(v + T(s->epsilon)) + T(s->l2) * w[i];
  }
}

// adam, with decay AdamW: m and v are the moments, corrected for having started at 0; w -= rate m / (sqrt(v) + epsilon).
template <typename T> __device__ static void adam(const Settings *s, const Parameter *all) {
  Parameter p = all[BLOCK_Y];
  T *w = (T *)p.weights, *first = (T *)p.first, *second = (T *)p.second;
  const T *gradient = (const T *)p.gradient;
  T correct1 = T(1 / (1 - s->power1)), correct2 = T(1 / (1 - s->power2)), keep = T(1 - s->rate * s->decay);
  for_each(i, (u32)p.n) {
    T g = prepared(s, gradient[i], w[i]);
    T m = T(s->beta1) * first[i] + T(1 - s->beta1) * g;
    T v = T(s->beta2) * second[i] + T(1 - s->beta2) * g * g;
    first[i] = m;
    second[i] = v;
    w[i] = w[i] * keep - T(s->rate) * (m * correct1) / (root(v * correct2) + T(s->epsilon));
  }
}

#define params(T) (const Settings *s, const Parameter *all)
both(sgd, params, (s, all))
both(momentum, params, (s, all))
both(rmsprop, params, (s, all))
both(adam, params, (s, all))
#undef params
