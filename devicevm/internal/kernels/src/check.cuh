// A check for values that are not finite.
#pragma once
#include "math.cuh"

// not_finite lowers *first to the index of the first NaN (if nan) or infinity (if inf) in x, if there is one below
// it. *first is set to all ones before. Racing threads only ever lower it, so the result does not depend on them.
template <typename T> __device__ static void not_finite(const T *x, u32 n, u32 *first, u32 nan, u32 inf) {
  for_each(i, n) if ((nan && x[i] != x[i]) || (inf && magnitude(x[i]) == real<T>::inf())) lower(first, i);
}

#define params(T) (const T *x, u32 n, u32 *first, u32 nan, u32 inf)
both(not_finite, params, (x, n, first, nan, inf))
#undef params
