/*
 * Lets gorgonia.org/cu v0.9.6, and other code written for CUDA 12 or older, compile against CUDA 13 and newer. Put
 * this folder first on the include path: this file includes the toolkit's cuda.h, then gives the five functions that
 * CUDA 13 changed their old signatures back. With an older toolkit it changes nothing. See README.md.
 */
#ifndef PINTENSOR_CUDA13_CUDA_H
#define PINTENSOR_CUDA13_CUDA_H

#include_next <cuda.h>

#if CUDA_VERSION >= 13000

/* The driver still has the old function, under the name that it has had since CUDA 3.2. */
#ifdef __cplusplus
extern "C"
#endif
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev);

/* What was a device, or CU_DEVICE_CPU, is a location. */
static inline CUmemLocation pintensor_location(CUdevice dev) {
	CUmemLocation at;
	if (dev == CU_DEVICE_CPU) {
		at.type = CU_MEM_LOCATION_TYPE_HOST;
		at.id = 0;
	} else {
		at.type = CU_MEM_LOCATION_TYPE_DEVICE;
		at.id = dev;
	}
	return at;
}

static inline CUresult pintensor_cuMemAdvise(CUdeviceptr p, size_t n, CUmem_advise advice, CUdevice dev) {
	return cuMemAdvise(p, n, advice, pintensor_location(dev));
}

static inline CUresult pintensor_cuMemPrefetchAsync(CUdeviceptr p, size_t n, CUdevice dev, CUstream s) {
	return cuMemPrefetchAsync(p, n, pintensor_location(dev), 0, s);
}

/* Edges had no data. Asking for edges that have some gives CUDA_ERROR_LOSSY_QUERY, as the old function does. */
static inline CUresult pintensor_cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
	return cuGraphAddDependencies(g, from, to, NULL, n);
}

static inline CUresult pintensor_cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n) {
	return cuGraphGetEdges(g, from, to, NULL, n);
}

#undef cuCtxCreate
#undef cuMemAdvise
#undef cuMemPrefetchAsync
#undef cuGraphAddDependencies
#undef cuGraphGetEdges
#define cuCtxCreate cuCtxCreate_v2
#define cuMemAdvise pintensor_cuMemAdvise
#define cuMemPrefetchAsync pintensor_cuMemPrefetchAsync
#define cuGraphAddDependencies pintensor_cuGraphAddDependencies
#define cuGraphGetEdges pintensor_cuGraphGetEdges

#endif /* CUDA_VERSION >= 13000 */

#endif
