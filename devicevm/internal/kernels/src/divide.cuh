// Division by numbers that the host knows: a product and a shift, where a device's own takes some twenty instructions.
// What kernels spend their time with that find an element's place by its index is that.
#pragma once
#include "device.cuh"

// Divisor divides what is below 2^31.
struct Divisor {
  u32 by, multiplier, shift; // ceil(2^(32 + shift) / by); by 1 is a case of its own
};

__device__ static INLINE u32 operator/(u32 n, const Divisor &d) { return d.by == 1 ? n : high_product(n, d.multiplier) >> d.shift; }

// next divides n, and returns the remainder: the last of the coordinates that n stands for.
__device__ static INLINE u32 next(u32 &n, const Divisor &d) {
  u32 quotient = n / d, rest = n - quotient * d.by;
  n = quotient;
  return rest;
}
