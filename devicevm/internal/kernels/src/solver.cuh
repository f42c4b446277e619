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

// Parameter is one tensor's weights, gradient and moments (0 where the solver has none). Its blocks end before block end of
// the grid.
struct Parameter {
  u64 weights, gradient, first, second;
  u32 n, end;
};

enum { PARAMETERS = 16, UPDATES = 4 }; // of a launch; elements of a thread

struct Parameters {
  Parameter of[PARAMETERS];
};

// Element is what a solver changes.
template <typename T> struct Element {
  T w, first, second;
};

// update calls f for all elements of a launch: 256 UPDATES of a parameter a block, neighbours for neighbouring threads. f gets an
// element with as many moments as there are, and the gradient.
template <u32 MOMENTS, typename T, typename F> __device__ static INLINE void update(const Parameters &all, F f) {
  u32 k = 0, before = 0;
  while (BLOCK >= all.of[k].end) before = all.of[k++].end;
  const Parameter &p = all.of[k];
  T *w = (T *)p.weights, *first = (T *)p.first, *second = (T *)p.second;
  const T *gradient = (const T *)p.gradient;
  u32 at = (BLOCK - before) * 256 * UPDATES + THREAD;
  T g[UPDATES];
  Element<T> e[UPDATES] = {};
#pragma unroll
  for (u32 j = 0; j < UPDATES; j++) { // all are read before the first is written
    u32 i = at + 256 * j;
    if (i >= p.n) break;
    g[j] = gradient[i];
    e[j].w = w[i];
    if (MOMENTS > 0) e[j].first = first[i];
    if (MOMENTS > 1) e[j].second = second[i];
  }
#pragma unroll
  for (u32 j = 0; j < UPDATES; j++) {
    u32 i = at + 256 * j;
    if (i >= p.n) break;
    f(e[j], g[j]);
    w[i] = e[j].w;
    if (MOMENTS > 0) first[i] = e[j].first;
    if (MOMENTS > 1) second[i] = e[j].second;
  }
}

extern "C" __global__ void tick(Settings *s) {
  if (BLOCK != 0 || THREAD != 0) return;
  s->steps += 1;
  s->power1 *= s->beta1;
  s->power2 *= s->beta2;
}

template <typename T> __device__ static INLINE T clipped(const Settings *s, T g) {
  T c = T(s->clip);
  return c > 0 ? (g > c ? c : g < -c ? -c : g) : g;
}

// prepared is a gradient regularised by what of is, scaled and clipped.
template <typename T> __device__ static INLINE T prepared(const Settings *s, T g, T of) {
  g += T(s->l1) * (of > 0 ? T(1) : of < 0 ? T(-1) : T(0)) + T(s->l2) * of;
  return clipped(s, g * T(s->scale));
}

// sgd: w -= rate g.
template <typename T> __device__ static INLINE void sgd(const Settings *s, const Parameters &all) {
  update<0, T>(all, [&](Element<T> &e, T g) INLINE_LAMBDA { e.w -= T(s->rate) * prepared(s, g, e.w); });
}

// momentum: m = beta1 m - rate g; w += m.
template <typename T> __device__ static INLINE void momentum(const Settings *s, const Parameters &all) {
  update<1, T>(all, [&](Element<T> &e, T g) INLINE_LAMBDA {
    e.first = T(s->beta1) * e.first - T(s->rate) * prepared(s, g, s->upstream != 0 ? e.first : e.w);
    e.w += e.first;
  });
}

// rmsprop: v = beta2 v + (1-beta2) g^2; w -= rate g / sqrt(v + epsilon) + l2 w. As in Gorgonia, v is of gradients that are
// not clipped, and regularisation is not part of the gradient. v is the first moment: there is one only.
template <typename T> __device__ static INLINE void rmsprop(const Settings *s, const Parameters &all) {
  update<1, T>(all, [&](Element<T> &e, T g) INLINE_LAMBDA {
    e.first = T(s->beta2) * e.first + T(1 - s->beta2) * g * g;
    e.w -= T(s->rate) * clipped(s, g) / root(e.first + T(s->epsilon)) + T(s->l2) * e.w;
  });
}

// adam, with decay AdamW: m and v are the moments, corrected for having started at 0; w -= rate m / (sqrt(v) + epsilon).
template <typename T> __device__ static INLINE void adam(const Settings *s, const Parameters &all) {
  T correct1 = T(1 / (1 - s->power1)), correct2 = T(1 / (1 - s->power2)), keep = T(1 - s->rate * s->decay);
  update<2, T>(all, [&](Element<T> &e, T g) INLINE_LAMBDA {
    g = prepared(s, g, e.w);
    e.first = T(s->beta1) * e.first + T(1 - s->beta1) * g;
    e.second = T(s->beta2) * e.second + T(1 - s->beta2) * g * g;
    e.w = e.w * keep - T(s->rate) * (e.first * correct1) / (root(e.second * correct2) + T(s->epsilon));
  });
}

#define params(T) (const Settings *s, const Parameters all)
both(sgd, params, (s, all))
both(momentum, params, (s, all))
both(rmsprop, params, (s, all))
both(adam, params, (s, all))
#undef params
