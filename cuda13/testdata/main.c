/* A program written for CUDA 12, and a driver that prints what reaches it. */
#include <cuda.h>
#include <stdio.h>

int main(void) {
	CUcontext ctx;
	CUgraph g = (CUgraph)0x60;
	CUgraphNode from = (CUgraphNode)0xf, to = (CUgraphNode)0x7;
	size_t n = 3;
	cuCtxCreate(&ctx, 8, 1);
	cuMemAdvise(0x1000, 64, 5, CU_DEVICE_CPU);
	cuMemAdvise(0x1000, 64, 5, 2);
	cuMemPrefetchAsync(0x2000, 128, 1, (CUstream)0x5);
	cuMemPrefetchAsync(0x2000, 128, CU_DEVICE_CPU, (CUstream)0x5);
	cuGraphAddDependencies(g, &from, &to, 1);
	return cuGraphGetEdges(g, &from, &to, &n);
}

#undef cuCtxCreate
#undef cuMemAdvise
#undef cuMemPrefetchAsync
#undef cuGraphAddDependencies
#undef cuGraphGetEdges

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev) { return printf("cuCtxCreate_v2 %u %d\n", flags, dev) < 0; }

#if CUDA_VERSION >= 13000
CUresult cuMemAdvise_v2(CUdeviceptr p, size_t n, CUmem_advise a, CUmemLocation at) {
	return printf("cuMemAdvise_v2 %llx %zu %d %d:%d\n", p, n, a, at.type, at.id) < 0;
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr p, size_t n, CUmemLocation at, unsigned int flags, CUstream s) {
	return printf("cuMemPrefetchAsync_v2 %llx %zu %d:%d %u %p\n", p, n, at.type, at.id, flags, (void *)s) < 0;
}
CUresult cuGraphAddDependencies_v2(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data, size_t n) {
	return printf("cuGraphAddDependencies_v2 %p %p %p %d %zu\n", (void *)g, (void *)*from, (void *)*to, data != NULL, n) < 0;
}
CUresult cuGraphGetEdges_v2(CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *n) {
	return printf("cuGraphGetEdges_v2 %p %p %p %d %zu\n", (void *)g, (void *)*from, (void *)*to, data != NULL, *n) < 0;
}
#else
CUresult cuMemAdvise(CUdeviceptr p, size_t n, CUmem_advise a, CUdevice dev) {
	return printf("cuMemAdvise %llx %zu %d %d\n", p, n, a, dev) < 0;
}
CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t n, CUdevice dev, CUstream s) {
	return printf("cuMemPrefetchAsync %llx %zu %d %p\n", p, n, dev, (void *)s) < 0;
}
CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
	return printf("cuGraphAddDependencies %p %p %p %zu\n", (void *)g, (void *)*from, (void *)*to, n) < 0;
}
CUresult cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n) {
	return printf("cuGraphGetEdges %p %p %p %zu\n", (void *)g, (void *)*from, (void *)*to, *n) < 0;
}
#endif
