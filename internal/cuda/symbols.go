package cuda

// This file lists what is used of the library. The comment of a symbol is its signature in cuda.h;
// all return CUresult. Sizes are size_t, handles are pointers, CUdevice and flags are 32-bit.

import (
	"fmt"
	"strings"
)

// symbol is a function of the library. Its address is 0 if an optional one is missing.
type symbol struct {
	name string
	addr uintptr
}

// library is the loaded library.
type library struct {
	// contextByHandle: calls that take a stream or an event need no current context.
	contextByHandle bool

	init             symbol // (unsigned int flags)
	driverGetVersion symbol // (int *version)
	getErrorName     symbol // (CUresult, const char **name)
	getErrorString   symbol // (CUresult, const char **text)

	deviceGetCount     symbol // (int *count)
	deviceGet          symbol // (CUdevice *, int ordinal)
	deviceGetName      symbol // (char *name, int len, CUdevice)
	deviceGetAttribute symbol // (int *value, CUdevice_attribute, CUdevice)
	deviceGetPCIBusID  symbol // (char *id, int len, CUdevice)

	primaryCtxRetain   symbol // (CUcontext *, CUdevice)
	primaryCtxRelease  symbol // (CUdevice)
	primaryCtxGetState symbol // (CUdevice, unsigned int *flags, int *active)
	ctxPushCurrent     symbol // (CUcontext)
	ctxPopCurrent      symbol // (CUcontext *)
	ctxGetDevice       symbol // (CUdevice *)

	memGetInfo        symbol // (size_t *free, size_t *total)
	memAlloc          symbol // (CUdeviceptr *, size_t)
	memFree           symbol // (CUdeviceptr)
	memHostRegister   symbol // (void *, size_t, unsigned int flags)
	memHostUnregister symbol // (void *)

	memPoolCreate         symbol // (CUmemoryPool *, const CUmemPoolProps *)
	memPoolDestroy        symbol // (CUmemoryPool)
	memPoolTrimTo         symbol // (CUmemoryPool, size_t keep)
	memPoolSetAttribute   symbol // (CUmemoryPool, CUmemPool_attribute, void *value)
	memAllocFromPoolAsync symbol // (CUdeviceptr *, size_t, CUmemoryPool, CUstream)
	memFreeAsync          symbol // (CUdeviceptr, CUstream)

	streamCreateWithPriority symbol // (CUstream *, unsigned int flags, int priority)
	streamDestroy            symbol // (CUstream)
	streamQuery              symbol // (CUstream)
	streamSynchronize        symbol // (CUstream)
	streamWaitEvent          symbol // (CUstream, CUevent, unsigned int flags)
	eventCreate              symbol // (CUevent *, unsigned int flags)
	eventDestroy             symbol // (CUevent)
	eventRecord              symbol // (CUevent, CUstream)
	eventQuery               symbol // (CUevent)

	memcpyHtoDAsync symbol // (CUdeviceptr dst, const void *src, size_t, CUstream)
	memcpyDtoHAsync symbol // (void *dst, CUdeviceptr src, size_t, CUstream)
	memcpyDtoDAsync symbol // (CUdeviceptr dst, CUdeviceptr src, size_t, CUstream)
	memsetD8Async   symbol // (CUdeviceptr, unsigned char, size_t, CUstream)

	deviceCanAccessPeer symbol // (int *can, CUdevice, CUdevice peer)
	ctxEnablePeerAccess symbol // (CUcontext peer, unsigned int flags)
	memPoolSetAccess    symbol // (CUmemoryPool, const CUmemAccessDesc *, size_t count)
	memcpyPeerAsync     symbol // (CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext, size_t, CUstream)

	moduleLoadDataEx  symbol // (CUmodule *, const void *image, unsigned int n, CUjit_option *, void **values)
	moduleUnload      symbol // (CUmodule)
	moduleGetFunction symbol // (CUfunction *, CUmodule, const char *name)
	launchKernel      symbol // (CUfunction, 6 x unsigned int, unsigned int shared, CUstream, void **params, void **extra)

	streamBeginCapture symbol // (CUstream, CUstreamCaptureMode)
	streamEndCapture   symbol // (CUstream, CUgraph *)

	// (CUstream, CUstreamCaptureStatus *, cuuint64_t *id, CUgraph *, const CUgraphNode **, size_t *), of CUDA 11.3. That
	// CUDA 12.3 has another of the name in cuda.h, with the edges' data, does not change what this symbol is.
	streamGetCaptureInfo symbol
	// (CUstream, CUgraphNode *, size_t, unsigned int flags), as above
	streamUpdateCaptureDependencies symbol

	graphInstantiate symbol // (CUgraphExec *, CUgraph, unsigned long long flags)
	graphDestroy     symbol // (CUgraph)
	graphLaunch      symbol // (CUgraphExec, CUstream)
	graphExecDestroy symbol // (CUgraphExec)

	eventElapsedTime symbol // (float *ms, CUevent from, CUevent to)
}

// entry says where in a library a symbol goes.
type entry struct {
	symbol   *symbol
	name     string
	optional bool
}

func (l *library) entries() []entry {
	return []entry{
		{&l.init, "cuInit", false},
		{&l.driverGetVersion, "cuDriverGetVersion", false},
		{&l.getErrorName, "cuGetErrorName", false},
		{&l.getErrorString, "cuGetErrorString", false},
		{&l.deviceGetCount, "cuDeviceGetCount", false},
		{&l.deviceGet, "cuDeviceGet", false},
		{&l.deviceGetName, "cuDeviceGetName", false},
		{&l.deviceGetAttribute, "cuDeviceGetAttribute", false},
		{&l.deviceGetPCIBusID, "cuDeviceGetPCIBusId", true},
		{&l.primaryCtxRetain, "cuDevicePrimaryCtxRetain", false},
		{&l.primaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", false},
		{&l.primaryCtxGetState, "cuDevicePrimaryCtxGetState", false},
		{&l.ctxPushCurrent, "cuCtxPushCurrent_v2", false},
		{&l.ctxPopCurrent, "cuCtxPopCurrent_v2", false},
		{&l.ctxGetDevice, "cuCtxGetDevice", false},
		{&l.memGetInfo, "cuMemGetInfo_v2", false},
		{&l.memAlloc, "cuMemAlloc_v2", false},
		{&l.memFree, "cuMemFree_v2", false},
		{&l.memHostRegister, "cuMemHostRegister_v2", false},
		{&l.memHostUnregister, "cuMemHostUnregister", false},
		{&l.memPoolCreate, "cuMemPoolCreate", true},
		{&l.memPoolDestroy, "cuMemPoolDestroy", true},
		{&l.memPoolTrimTo, "cuMemPoolTrimTo", true},
		{&l.memPoolSetAttribute, "cuMemPoolSetAttribute", true},
		{&l.memAllocFromPoolAsync, "cuMemAllocFromPoolAsync", true},
		{&l.memFreeAsync, "cuMemFreeAsync", true},
		{&l.streamCreateWithPriority, "cuStreamCreateWithPriority", false},
		{&l.streamDestroy, "cuStreamDestroy_v2", false},
		{&l.streamQuery, "cuStreamQuery", false},
		{&l.streamSynchronize, "cuStreamSynchronize", false},
		{&l.streamWaitEvent, "cuStreamWaitEvent", false},
		{&l.eventCreate, "cuEventCreate", false},
		{&l.eventDestroy, "cuEventDestroy_v2", false},
		{&l.eventRecord, "cuEventRecord", false},
		{&l.eventQuery, "cuEventQuery", false},
		{&l.memcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", false},
		{&l.memcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", false},
		{&l.memcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", false},
		{&l.memsetD8Async, "cuMemsetD8Async", false},
		{&l.deviceCanAccessPeer, "cuDeviceCanAccessPeer", false},
		{&l.ctxEnablePeerAccess, "cuCtxEnablePeerAccess", false},
		{&l.memPoolSetAccess, "cuMemPoolSetAccess", true},
		{&l.memcpyPeerAsync, "cuMemcpyPeerAsync", false},
		{&l.moduleLoadDataEx, "cuModuleLoadDataEx", false},
		{&l.moduleUnload, "cuModuleUnload", false},
		{&l.moduleGetFunction, "cuModuleGetFunction", false},
		{&l.launchKernel, "cuLaunchKernel", false},
		{&l.streamBeginCapture, "cuStreamBeginCapture_v2", false},
		{&l.streamEndCapture, "cuStreamEndCapture", false},
		{&l.streamGetCaptureInfo, "cuStreamGetCaptureInfo_v2", true},
		{&l.streamUpdateCaptureDependencies, "cuStreamUpdateCaptureDependencies", true},
		{&l.graphInstantiate, "cuGraphInstantiateWithFlags", true},
		{&l.graphDestroy, "cuGraphDestroy", false},
		{&l.graphLaunch, "cuGraphLaunch", false},
		{&l.graphExecDestroy, "cuGraphExecDestroy", false},
		{&l.eventElapsedTime, "cuEventElapsedTime", false},
	}
}

// bind looks every symbol up. It fails for a missing one that is not optional.
func bind(lookup func(name string) (uintptr, error)) (*library, error) {
	l := new(library)
	var missing []string
	for _, e := range l.entries() {
		addr, err := lookup(e.name)
		if err != nil {
			addr = 0
		}
		*e.symbol = symbol{strings.TrimSuffix(e.name, "_v2"), addr}
		if addr == 0 && !e.optional {
			missing = append(missing, e.name)
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("it is %s, which lacks %s; CUDA 11.0 or newer is needed", l.version(), strings.Join(missing, ", "))
	}
	return l, nil
}

// release returns the version of CUDA that the driver is for, 13000 for 13.0.
func (l *library) release() (int, error) {
	if l.driverGetVersion.addr == 0 {
		return 0, nil
	}
	f := newFrame(l)
	defer f.free()
	err := f.call(&l.driverGetVersion, f.out(0))
	return int(int32(f.outs[0])), err
}

// version names the driver's version, such as "a driver for CUDA 12.4".
func (l *library) version() string {
	v, err := l.release()
	switch {
	case err != nil:
		return fmt.Sprintf("a driver of unknown version (%v)", err)
	case v == 0:
		return "a driver of unknown version"
	}
	return fmt.Sprintf("a driver for CUDA %d.%d", v/1000, v%1000/10)
}

// hasPools reports whether the library can allocate in stream order.
func (l *library) hasPools() bool {
	for _, s := range []symbol{l.memPoolCreate, l.memPoolDestroy, l.memPoolTrimTo, l.memPoolSetAttribute, l.memAllocFromPoolAsync, l.memFreeAsync} {
		if s.addr == 0 {
			return false
		}
	}
	return true
}
