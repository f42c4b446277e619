// A check for values that are not finite.
#pragma once
#include "math.cuh"

// not_finite lowers *first to the index of the first NaN or infinity in x, if there is one below it. *first is set
// to all ones before. Racing threads only ever lower it, so the result does not depend on them.
template <typename T> __device__ static void not_finite(const T *x, u32 n, u32 *first) {
  for_each(i, n) if (!(magnitude(x[i]) < real<T>::inf())) lower(first, i);
}

#define params(T) (const T *x, u32 n, u32 *first)
both(not_finite, params, (x, n, first))
#undef params
