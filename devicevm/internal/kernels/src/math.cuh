// Elementary functions. PTX has only approximations of some, for float32, and CUDA's library of them needs
// a toolkit; these are within a few units in the last place, and the same on every device.
#pragma once
#include "device.cuh"

template <typename T> struct real; // constants of a type

template <> struct real<float> {
  __device__ static constexpr float inf() { return __builtin_inff(); }
  __device__ static constexpr float nan() { return __builtin_nanf(""); }
  static constexpr int exp_terms = 8, log_terms = 5;
  static constexpr float exp_max = 88.8f, exp_min = -104.f;
  static constexpr float ln2_hi = 0x1.62e4p-1f, ln2_lo = 0x1.7f7d1cp-20f; // ln2_hi times an exponent is exact
};

template <> struct real<double> {
  __device__ static constexpr double inf() { return __builtin_inf(); }
  __device__ static constexpr double nan() { return __builtin_nan(""); }
  static constexpr int exp_terms = 14, log_terms = 12;
  static constexpr double exp_max = 709.8, exp_min = -745.2;
  static constexpr double ln2_hi = 0x1.62e42fee00000p-1, ln2_lo = 0x1.a39ef35793c76p-33;
};

__device__ static inline float power_of_two(int k, float) { return bits_to_float((u32)(k + 127) << 23); }
__device__ static inline double power_of_two(int k, double) { return bits_to_double((u64)(k + 1023) << 52); }

// scale returns x * 2^k, for results down to the smallest subnormal: in two steps, as 2^k may not exist.
template <typename T> __device__ static inline T scale(T x, int k) {
  int half = k / 2;
  return x * power_of_two(half, T()) * power_of_two(k - half, T());
}

template <typename T> __device__ static inline T magnitude(T x) { return x < 0 ? -x : x == 0 ? T(0) : x; }

// expm1_near is exp(r) - 1 for |r| <= 0.5, by its series, which is exact enough there to the last place.
template <typename T> __device__ static inline T expm1_near(T r) {
  T sum = 0;
#pragma unroll
  for (int n = real<T>::exp_terms; n >= 2; n--) sum = (sum + 1) * r / T(n);
  return fused(sum, r, r);
}

template <typename T> __device__ static inline T exponential(T x) {
  if (!(x == x)) return x;
  if (x > real<T>::exp_max) return real<T>::inf();
  if (x < real<T>::exp_min) return 0;
  T k = down(fused(x, T(1.4426950408889634), T(0.5)));
  T r = fused(-k, real<T>::ln2_lo, fused(-k, real<T>::ln2_hi, x));
  return scale(expm1_near(r) + 1, (int)k);
}

template <typename T> __device__ static inline T exponential_minus_1(T x) {
  return x > T(-0.5) && x < T(0.5) ? expm1_near(x) : exponential(x) - 1;
}

__device__ static inline int split_exponent(float x, float *mantissa) {
  u32 b = float_to_bits(x);
  *mantissa = bits_to_float((b & 0x7fffff) | 0x3f800000);
  return (int)(b >> 23) - 127;
}

__device__ static inline int split_exponent(double x, double *mantissa) {
  u64 b = double_to_bits(x);
  *mantissa = bits_to_double((b & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
  return (int)(b >> 52) - 1023;
}

__device__ static inline bool subnormal(float x) { return x < 0x1p-126f; }
__device__ static inline bool subnormal(double x) { return x < 0x1p-1022; }

// logarithm: x = m * 2^k with m in [sqrt(1/2), sqrt(2)), and log m = 2 atanh((m-1)/(m+1)) by its series.
template <typename T> __device__ static inline T logarithm(T x) {
  if (!(x > 0)) return x == 0 ? -real<T>::inf() : real<T>::nan();
  if (x == real<T>::inf()) return x;
  int k = 0;
  if (subnormal(x)) {
    x *= T(18014398509481984.0); // 2^54
    k = -54;
  }
  T m;
  k += split_exponent(x, &m);
  if (m > T(1.4142135623730951)) {
    m *= T(0.5);
    k++;
  }
  T s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
#pragma unroll
  for (int n = real<T>::log_terms; n >= 1; n--) sum = fused(sum, s2, T(1) / T(2 * n + 1)) ;
  // m - 1 is exact; 2s = (m-1) - s (m-1), so the series only corrects it.
  T f = m - 1, low = fused(T(k), real<T>::ln2_lo, fused(T(2) * s * s2, sum, -s * f));
  return fused(T(k), real<T>::ln2_hi, f + low);
}

// log_1_plus corrects log(1+x) by what the sum lost.
template <typename T> __device__ static inline T log_1_plus(T x) {
  T w = 1 + x;
  if (w == 1 || x == real<T>::inf()) return x;
  return logarithm(w) * (x / (w - 1));
}

template <typename T> __device__ static inline T hyperbolic_tangent(T x) {
  T a = magnitude(x), y;
  if (!(x == x)) return x;
  if (a > T(20)) y = 1;
  else {
    T e = exponential_minus_1(2 * a);
    y = e / (e + 2);
  }
  return x < 0 ? -y : y;
}

template <typename T> __device__ static inline T logistic(T x) {
  if (x >= 0) return 1 / (1 + exponential(-x));
  T e = exponential(x); // exp(-x) may be infinite
  return e / (1 + e);
}

template <typename T> __device__ static inline T soft_plus(T x) {
  T tail = log_1_plus(exponential(-magnitude(x)));
  return x > 0 ? x + tail : x == x ? tail : x;
}

// wave is sin(x), or cos(x) with quarter 1. The nearest multiple of pi/2 is taken off in two parts, which is exact
// enough up to about 1e9; what is above that, where neighbouring float32 are many turns apart, loses its digits.
template <typename T> __device__ static inline T wave(T value, int quarter) {
  double x = value;
  if (!(magnitude(x) < real<double>::inf())) return real<T>::nan();
  double k = down(fused(x, 0.6366197723675814, 0.5));
  double r = fused(-k, 0x1.921fb54442d18p0, x);
  r = fused(-k, 0x1.1a62633145c07p-54, r);
  quarter = (quarter + (int)(k - 4 * down(k * 0.25))) & 3;
  double r2 = r * r, sum = 0;
  const int odd = quarter & 1; // a cosine: 1 - r2/2 + ...; else r - r^3/6 + ...
#pragma unroll
  for (int n = 8; n >= 1; n--) sum = (1 + sum) * -r2 / (odd ? (2 * n - 1) * (2 * n) : (2 * n) * (2 * n + 1));
  double y = odd ? 1 + sum : fused(r, sum, r);
  return T(quarter & 2 ? -y : y);
}

// power is C's pow.
template <typename T> __device__ static inline T power(T x, T y) {
  if (y == 0 || x == 1) return 1;
  if (!(x == x) || !(y == y)) return real<T>::nan();
  bool whole = down(y) == y, odd = whole && magnitude(y) < T(9007199254740992.0) && down(y * T(0.5)) * 2 != y;
  T a = magnitude(x), sign = x < 0 && odd ? T(-1) : T(1);
  if (x < 0 && !whole && a != real<T>::inf() && magnitude(y) != real<T>::inf()) return real<T>::nan();
  if (magnitude(y) == real<T>::inf()) return a == 1 ? T(1) : (a > 1) == (y > 0) ? real<T>::inf() : T(0);
  if (whole && magnitude(y) <= 8) { // the squares and cubes of losses, exactly
    T p = 1;
    for (int n = (int)magnitude(y); n > 0; n--) p *= a;
    return sign * (y < 0 ? 1 / p : p);
  }
  if (a == 0) return y > 0 ? T(0) : sign * real<T>::inf();
  return sign * exponential(y * logarithm(a));
}
