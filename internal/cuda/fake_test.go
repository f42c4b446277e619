//go:build linux && (amd64 || arm64)

package cuda

// This file is a CUDA library in Go, behind C function pointers, so that calls are tested down to the
// machine's calling convention. It is as strict as the real one where that is kind: contexts are per
// thread, and a call without one fails.

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// signature says what the fake must know of a function: how many arguments it has, whether it needs a
// current context, and which handle it makes or destroys.
type signature struct {
	args    int
	context bool
	handle  bool   // finds the context by a stream or an event, in newer libraries
	makes   string // kind of handle written through the first argument
	ends    string // kind of handle that the first argument is
}

var signatures = map[string]signature{
	"cuInit":                            {args: 1},
	"cuDriverGetVersion":                {args: 1},
	"cuGetErrorName":                    {args: 2},
	"cuGetErrorString":                  {args: 2},
	"cuDeviceGetCount":                  {args: 1},
	"cuDeviceGet":                       {args: 2},
	"cuDeviceGetName":                   {args: 3},
	"cuDeviceGetAttribute":              {args: 3},
	"cuDeviceGetPCIBusId":               {args: 3},
	"cuDevicePrimaryCtxRetain":          {args: 2},
	"cuDevicePrimaryCtxRelease_v2":      {args: 1},
	"cuDevicePrimaryCtxGetState":        {args: 3},
	"cuCtxPushCurrent_v2":               {args: 1},
	"cuCtxPopCurrent_v2":                {args: 1},
	"cuCtxGetDevice":                    {args: 1, context: true},
	"cuMemGetInfo_v2":                   {args: 2, context: true},
	"cuMemAlloc_v2":                     {args: 2, context: true, makes: "memory"},
	"cuMemFree_v2":                      {args: 1, context: true, ends: "memory"},
	"cuMemHostRegister_v2":              {args: 3, context: true},
	"cuMemHostUnregister":               {args: 1, context: true, ends: "registration"},
	"cuMemPoolCreate":                   {args: 2, makes: "pool"},
	"cuMemPoolDestroy":                  {args: 1, ends: "pool"},
	"cuMemPoolTrimTo":                   {args: 2},
	"cuMemPoolSetAttribute":             {args: 3},
	"cuMemAllocFromPoolAsync":           {args: 4, context: true, handle: true, makes: "memory"},
	"cuMemFreeAsync":                    {args: 2, context: true, handle: true, ends: "memory"},
	"cuStreamCreateWithPriority":        {args: 3, context: true, makes: "stream"},
	"cuStreamDestroy_v2":                {args: 1, context: true, handle: true, ends: "stream"},
	"cuStreamQuery":                     {args: 1, context: true, handle: true},
	"cuStreamSynchronize":               {args: 1, context: true, handle: true},
	"cuStreamWaitEvent":                 {args: 3, context: true, handle: true},
	"cuEventCreate":                     {args: 2, context: true, makes: "event"},
	"cuEventDestroy_v2":                 {args: 1, context: true, handle: true, ends: "event"},
	"cuEventRecord":                     {args: 2, context: true, handle: true},
	"cuEventQuery":                      {args: 1, context: true, handle: true},
	"cuMemcpyHtoDAsync_v2":              {args: 4, context: true, handle: true},
	"cuMemcpyDtoHAsync_v2":              {args: 4, context: true, handle: true},
	"cuMemcpyDtoDAsync_v2":              {args: 4, context: true, handle: true},
	"cuMemsetD8Async":                   {args: 4, context: true, handle: true},
	"cuDeviceCanAccessPeer":             {args: 3},
	"cuCtxEnablePeerAccess":             {args: 2, context: true},
	"cuMemPoolSetAccess":                {args: 3},
	"cuMemcpyPeerAsync":                 {args: 6, context: true, handle: true},
	"cuModuleLoadDataEx":                {args: 5, context: true, makes: "module"},
	"cuModuleUnload":                    {args: 1, context: true, ends: "module"},
	"cuModuleGetFunction":               {args: 3, context: true},
	"cuLaunchKernel":                    {args: 11, context: true},
	"cuStreamBeginCapture_v2":           {args: 2, context: true},
	"cuStreamEndCapture":                {args: 2, context: true},
	"cuStreamGetCaptureInfo_v2":         {args: 6, context: true},
	"cuStreamUpdateCaptureDependencies": {args: 4, context: true},
	"cuGraphInstantiateWithFlags":       {args: 3, context: true, makes: "exec"},
	"cuGraphDestroy":                    {args: 1, ends: "graph"},
	"cuGraphLaunch":                     {args: 2, context: true},
	"cuGraphExecDestroy":                {args: 1, ends: "exec"},
	"cuEventElapsedTime":                {args: 3, context: true},
}

const (
	fakeContext  = 0xC000 // of device 0; device 1 has the next one
	fakeAdopted  = 0xF00  // other code's, that a Device may be made of
	fakeDead     = 0xDEAD // other code's, destroyed
	fakeHandle   = 0xA000
	fakeFunction = 0xF000
	fakeError    = 999
)

// fakeLibrary is the state of the library in a test.
type fakeLibrary struct {
	release int32               // CUDA version
	missing []string            // symbols that it lacks
	before  func(string)        // called before each call, without the lock
	fail    map[string]int      // result by name
	pending map[string]int      // how often a query says "not ready"
	mu      sync.Mutex          // guards the rest
	calls   []string            // with arguments, those of contexts and errors left out
	current map[int][]uintptr   // contexts by thread
	dead    uintptr             // a context that was destroyed, perhaps while current
	strayed []string            // calls that would have acted on a context of other code
	active  [2]int              // retains of the primary contexts of two devices
	held    map[uintptr]string  // kinds by handle
	in      map[uintptr]uintptr // contexts by registration
	next    uintptr
	params  []uint64 // the first three of the last launch
	peers   int32    // whether devices can reach each other's memory
	access  [3]int32 // the last CUmemAccessDesc

	capturing uint32    // status of all streams
	nodes     []uintptr // what a capture depends on
}

var (
	fakeLock    sync.Mutex // held by the test that uses the library
	fakeNow     *fakeLibrary
	fakeStrings sync.Map // C strings that must not be collected
	fakeSymbols = sync.OnceValue(func() map[string]uintptr {
		symbols := make(map[string]uintptr)
		for name := range signatures {
			symbols[name] = purego.NewCallback(func(a, b, c, d, e, f uintptr) uintptr {
				return uintptr(fakeNow.call(name, [11]uintptr{a, b, c, d, e, f}))
			})
		}
		// Only this one has arguments on the stack.
		symbols["cuLaunchKernel"] = purego.NewCallback(func(a, b, c, d, e, f, g, h, i, j, k uintptr) uintptr {
			return uintptr(fakeNow.call("cuLaunchKernel", [11]uintptr{a, b, c, d, e, f, g, h, i, j, k}))
		})
		return symbols
	})
)

// newFake returns a library. At the end of the test no context may be current or retained, and nothing held.
func newFake(t testing.TB) *fakeLibrary {
	fakeLock.Lock()
	l := &fakeLibrary{
		release: 11040, fail: make(map[string]int), pending: make(map[string]int), current: make(map[int][]uintptr),
		held: make(map[uintptr]string), in: make(map[uintptr]uintptr), next: fakeHandle, peers: 1,
	}
	fakeNow = l
	t.Cleanup(func() {
		defer fakeLock.Unlock()
		for thread, stack := range l.current {
			if len(stack) != 0 {
				t.Errorf("contexts left current on thread %d: %#x", thread, stack)
			}
		}
		if l.active != [2]int{} {
			t.Errorf("primary contexts retained: %v", l.active)
		}
		if len(l.held) != 0 {
			t.Errorf("held: %v", l.held)
		}
	})
	return l
}

func (l *fakeLibrary) lookup(name string) (uintptr, error) {
	if addr, ok := fakeSymbols()[name]; ok && !slices.Contains(l.missing, name) {
		return addr, nil
	}
	return 0, fmt.Errorf("undefined symbol: %s", name)
}

func at[T any](addr uintptr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))) }

func cString(addr uintptr) string {
	n := 0
	for *at[byte](addr + uintptr(n)) != 0 {
		n++
	}
	return string(unsafe.Slice(at[byte](addr), n))
}

func (l *fakeLibrary) call(name string, a [11]uintptr) (code int) {
	if l.before != nil {
		l.before(name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	sig := signatures[name]
	if !strings.HasPrefix(name, "cuGetError") && !strings.HasPrefix(name, "cuCtxP") {
		l.calls = append(l.calls, fmt.Sprintf("%s%x", name, a[:sig.args]))
	}
	thread := unix.Gettid()
	stack := l.current[thread]
	if sig.context {
		byHandle := l.release >= 13000 && sig.handle
		switch {
		case len(stack) == 0 && !byHandle:
			return 201
		case len(stack) > 0 && l.dead != 0 && stack[len(stack)-1] == l.dead:
			return 709
		case len(stack) > 0 && !byHandle && !l.known(stack[len(stack)-1]):
			l.strayed = append(l.strayed, name)
		}
	}
	if code := l.fail[name]; code != 0 {
		return code
	}
	if l.pending[name] > 0 {
		l.pending[name]--
		return notReady
	}
	if sig.makes != "" {
		l.next++
		l.held[l.next] = sig.makes
		*at[uintptr](a[0]) = l.next
	}
	if sig.ends != "" {
		if l.held[a[0]] != sig.ends {
			return 1
		}
		delete(l.held, a[0])
	}
	switch name {
	case "cuDriverGetVersion":
		*at[int32](a[0]) = l.release
	case "cuGetErrorName", "cuGetErrorString":
		text := append(fmt.Appendf(nil, "%s of %d", name[len("cuGetError"):], a[0]), 0)
		fakeStrings.Store(&text[0], text)
		*at[*byte](a[1]) = &text[0]
	case "cuDeviceGetCount":
		*at[int32](a[0]) = 2
	case "cuDeviceGet":
		*at[int32](a[0]) = int32(a[1])
	case "cuDeviceGetName":
		copy(unsafe.Slice(at[byte](a[0]), a[1]), "Fake\x00rest")
	case "cuDeviceGetPCIBusId":
		copy(unsafe.Slice(at[byte](a[0]), a[1]), fmt.Sprintf("0000:3B:%02X.0\x00rest", a[2]))
	case "cuDeviceGetAttribute", "cuMemHostRegister_v2":
		if name == "cuMemHostRegister_v2" {
			l.held[a[0]] = "registration"
			l.in[a[0]] = stack[len(stack)-1]
		} else {
			*at[int32](a[0]) = 1
		}
	case "cuDevicePrimaryCtxRetain":
		l.active[a[1]]++
		*at[uintptr](a[0]) = fakeContext + a[1]
	case "cuDevicePrimaryCtxRelease_v2":
		if l.active[a[0]]--; l.active[a[0]] < 0 {
			return 201
		}
	case "cuDevicePrimaryCtxGetState":
		*at[int32](a[2]) = int32(min(l.active[a[0]], 1))
	case "cuCtxPushCurrent_v2":
		if l.dead != 0 && a[0] == l.dead {
			return 709
		}
		l.current[thread] = append(stack, a[0])
	case "cuCtxPopCurrent_v2":
		if len(stack) == 0 {
			return 201
		}
		*at[uintptr](a[0]) = stack[len(stack)-1]
		l.current[thread] = stack[:len(stack)-1]
	case "cuCtxGetDevice":
		*at[int32](a[0]) = 1
	case "cuDeviceCanAccessPeer":
		*at[int32](a[0]) = l.peers
	case "cuMemPoolSetAccess":
		l.access = *at[[3]int32](a[1])
	case "cuModuleLoadDataEx":
		image := cString(a[1])
		if strings.HasPrefix(image, "bad") {
			options, values := unsafe.Slice(at[int32](a[3]), a[2]), unsafe.Slice(at[uintptr](a[4]), a[2])
			if options[0] == 5 && options[1] == 6 {
				copy(unsafe.Slice(at[byte](values[0]), values[1]), "line 1: "+image+"\n\x00")
			}
			delete(l.held, l.next)
			return 218
		}
	case "cuModuleGetFunction":
		if cString(a[2]) == "missing" {
			return 500
		}
		*at[uintptr](a[0]) = fakeFunction
	case "cuLaunchKernel":
		l.params = l.params[:0]
		for _, p := range unsafe.Slice(at[uintptr](a[9]), 3) {
			l.params = append(l.params, *at[uint64](p))
		}
	case "cuStreamGetCaptureInfo_v2":
		*at[uint32](a[1]) = l.capturing
		*at[uintptr](a[4]) = uintptr(unsafe.Pointer(unsafe.SliceData(l.nodes)))
		*at[uintptr](a[5]) = uintptr(len(l.nodes))
	case "cuStreamUpdateCaptureDependencies":
		l.nodes = slices.Clone(unsafe.Slice(at[uintptr](a[1]), a[2]))
	case "cuStreamBeginCapture_v2":
		l.capturing = 1
	case "cuStreamEndCapture":
		l.capturing, l.nodes = 0, nil
		l.next++
		l.held[l.next] = "graph"
		*at[uintptr](a[1]) = l.next
	case "cuEventElapsedTime":
		*at[float32](a[0]) = 1.5
	case "cuMemGetInfo_v2":
		*at[uintptr](a[0]), *at[uintptr](a[1]) = 1<<40, 1<<41
	}
	return success
}

// known reports whether ctx is of this package: a device's, or adopted by a test.
func (l *fakeLibrary) known(ctx uintptr) bool {
	return ctx >= fakeContext && ctx < fakeContext+2 || ctx == fakeAdopted
}

// took returns the calls made since the last took.
func (l *fakeLibrary) took() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}
