package pintensor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

func Example() {
	batch, err := pintensor.New(tensor.Float32, 64, 784)
	if err != nil {
		fmt.Println(err)
		return
	}
	pixels := batch.Data().([]float32)
	pixels[0] = 0.5
	fmt.Println(batch.Shape(), pixels[:2])

	if err := pintensor.Release(batch); err != nil {
		fmt.Println(err)
	}
	// Output: (64, 784) [0.5 0]
}

func ExampleNew() {
	t, err := pintensor.New(tensor.Float64, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pintensor.Release(t)
	fmt.Print(t)
	// Output:
	// ⎡0  0  0⎤
	// ⎣0  0  0⎦
}

func ExamplePin() {
	images := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float32{1, 2, 3, 4, 5, 6}))
	columns, err := images.Slice(nil, tensor.S(1, 3)) // every other kind of view works too
	if err != nil {
		fmt.Println(err)
		return
	}
	pinned, err := pintensor.Pin(columns.(*tensor.Dense))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pintensor.Release(pinned)
	fmt.Println(pinned.Data())
	// Output: [2 3 5 6]
}

// A buffer that is filled again and again is pinned once. Were it being copied to a device, PinInto would wait for that.
func ExamplePinInto() {
	buffer, err := pintensor.New(tensor.Float32, 2, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pintensor.Release(buffer)
	images := tensor.New(tensor.WithShape(4, 2), tensor.WithBacking([]float32{1, 2, 3, 4, 5, 6, 7, 8}))
	for i := 0; i < 4; i += 2 {
		batch, err := images.Slice(tensor.S(i, i+2)) // every other kind of view works too
		if err == nil {
			err = pintensor.PinInto(buffer, batch.(*tensor.Dense))
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(buffer.Data())
	}
	// Output:
	// [1 2 3 4]
	// [5 6 7 8]
}

// A function that is given tensors of any kind pins those that are not pinned, and releases only those.
func ExampleEnsurePinned() {
	batch, err := pintensor.New(tensor.Float32, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pintensor.Release(batch)
	ordinary := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(2, 3))

	for _, t := range []*tensor.Dense{batch, ordinary} {
		pinned, err := pintensor.EnsurePinned(t)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("the tensor itself:", pinned == t)
		if pinned != t {
			if err := pintensor.Release(pinned); err != nil {
				fmt.Println(err)
			}
		}
	}
	// Output:
	// the tensor itself: true
	// the tensor itself: false
}

func ExampleIsPinned() {
	ordinary := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(10))
	fmt.Println(pintensor.IsPinned(ordinary))
	// Output: false
}

func ExampleRelease() {
	t, err := pintensor.New(tensor.Float32, 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	view, _ := t.Slice(tensor.S(0, 5))
	fmt.Println(errors.Is(pintensor.Release(view.(*tensor.Dense)), pintensor.ErrNotOwner))
	fmt.Println(pintensor.Release(t))
	fmt.Println(pintensor.Release(t))
	// Output:
	// true
	// <nil>
	// pintensor: Release: t of shape (10): already released
}

func ExampleEmpty() {
	t, err := pintensor.Empty(tensor.Float32, 3) // about to be overwritten, so not cleared
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pintensor.Release(t)
	copy(t.Data().([]float32), []float32{1, 2, 3})
	fmt.Println(t)
	// Output: [1  2  3]
}

func ExampleNewEngine() {
	engine, err := pintensor.NewEngine(pintensor.WithLimit(1<<20), pintensor.WithPoison())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	_, err = engine.New(tensor.Float32, 1<<20)
	fmt.Println(err)
	// Output: pintensor: New: limit reached: limit 1048576 bytes, lent 0, cached 0, in flight 0, asked for 4194304
}

// With tensor.WithEngine results of arithmetic are in pinned memory too. Nobody releases them; the
// garbage collector gives their memory back.
func ExampleEngine() {
	engine, err := pintensor.NewEngine()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	a := tensor.New(tensor.WithEngine(engine), tensor.Of(tensor.Float32), tensor.WithShape(3))
	for i := range 3 {
		a.Set(i, float32(i))
	}
	sum, err := a.Add(a)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sum.Data(), engine.Owns(sum))
	// Output: [0 2 4] true
}

func ExampleEngine_Register() {
	engine, err := pintensor.NewEngine()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	weights := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(100, 100))
	unregister, err := engine.Register(weights) // no copy
	if err != nil {
		fmt.Println(err) // for example: the limit of locked memory is too low
		return
	}
	fmt.Println(engine.IsPinned(weights))
	if err := unregister(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(engine.IsPinned(weights))
	// Output:
	// true
	// false
}

func ExampleEngine_Stats() {
	engine, err := pintensor.NewEngine()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	for range 3 {
		t, err := engine.New(tensor.Uint8, 100_000)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := engine.Release(t); err != nil {
			fmt.Println(err)
		}
	}
	s := engine.Stats()
	fmt.Println("made new:", s.Cold, "from the cache:", s.Warm)
	fmt.Println("asked for:", s.Requested.Peak, "lent:", s.Lent.Peak)
	// Output:
	// made new: 1 from the cache: 2
	// asked for: 100000 lent: 106496
}

// A program that knows its batches has their memory page-locked while it opens its files.
func ExampleEngine_ReserveAsync() {
	engine, err := pintensor.NewEngine()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	reserved := engine.ReserveAsync(context.Background(), 64*784*4, 3)
	// ... open files ...
	if err := <-reserved; err != nil {
		fmt.Println(err) // not fatal: memory is then page-locked when it is needed
	}
	batch, err := engine.New(tensor.Float32, 64, 784)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Release(batch)
	s := engine.Stats()
	fmt.Println("made ahead:", s.Cold, "taken from the cache:", s.Warm)
	// Output: made ahead: 3 taken from the cache: 1
}

func ExampleEngine_Reserve() {
	engine, err := pintensor.NewEngine(pintensor.WithLimit(1 << 20))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	fmt.Println(engine.Reserve(context.Background(), 64<<10, 4))
	fmt.Println(engine.Stats().Cached.Current)
	fmt.Println(engine.Reserve(context.Background(), 64<<10, 20))
	// Output:
	// <nil>
	// 262144
	// pintensor: Reserve: limit reached: limit 1048576 bytes, lent 0, cached 262144, in flight 0, asked for 1310720
}

// An engine for a program that needs much pinned memory now and then, and little otherwise.
func ExampleWithMaxCached() {
	engine, err := pintensor.NewEngine(pintensor.WithMaxCached(256 << 10))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	for _, size := range []int{100 << 10, 10 << 20} {
		t, err := engine.New(tensor.Uint8, size)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := engine.Release(t); err != nil { // 10 MiB go back to the system
			fmt.Println(err)
		}
	}
	fmt.Println(engine.Stats().Cached.Current)
	// Output: 106496
}

// A server gives up, now and then, what its latest peak needed and nothing has since.
func ExampleEngine_TrimOlder() {
	engine, err := pintensor.NewEngine()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	tick := time.NewTicker(20 * time.Millisecond) // time.Minute, rather
	defer tick.Stop()
	serve := func(n int) {
		t, err := engine.New(tensor.Uint8, n)
		if err == nil {
			err = engine.Release(t)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	serve(10 << 20)
	for range 6 {
		serve(64 << 10)
		<-tick.C
		if _, err := engine.TrimOlder(30 * time.Millisecond); err != nil {
			fmt.Println(err)
		}
	}
	serve(64 << 10)
	fmt.Println(engine.Stats().Cached.Current)
	// Output: 65536
}

func ExampleStats() {
	var s pintensor.Stats // of an engine: engine.Stats()
	s.Lent = pintensor.Usage{Current: 1 << 20, Peak: 3 << 20, Total: 200 << 20}
	s.Registered = pintensor.Usage{Current: 3 << 20, Peak: 3 << 20, Total: 3 << 20}
	s.Cold, s.Warm, s.Locking = 3, 197, "cuda"
	fmt.Println(s)

	usage, err := json.Marshal(s.Lent)
	fmt.Println(string(usage), err)

	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	log.Info("epoch done", "lent", s.Lent)
	// Output:
	// lent 1.0 MiB (peak 3.0 MiB), cached 0 B, in flight 0 B, registered 3.0 MiB (cuda), 3 cold, 197 warm, 0 forgotten, 0 waits, 0 trims
	// {"current":1048576,"peak":3145728,"total":209715200} <nil>
	// level=INFO msg="epoch done" lent.current=1048576 lent.peak=3145728 lent.total=209715200
}

func ExampleEngine_Trim() {
	engine, err := pintensor.NewEngine()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	t, err := engine.New(tensor.Uint8, 64<<10)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := engine.Release(t); err != nil {
		fmt.Println(err)
	}
	fmt.Println(engine.Trim(0))
	// Output: 65536 <nil>
}

// Code that issues its own copies tells the engine, so that the memory is not lent again under them.
func ExampleAcquire() {
	source, err := pintensor.New(tensor.Float32, 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	hold, err := pintensor.Acquire(source)
	if err != nil {
		fmt.Println(err)
		return
	}
	copied := issueCopy(source) // an event that is recorded after the copy
	hold.Until(copied)
	fmt.Println(pintensor.Release(source)) // at once: the memory is lent again when the copy is done
	// Output: <nil>
}

func ExampleInUse() {
	buffer, err := pintensor.New(tensor.Float32, 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pintensor.Release(buffer)
	hold, err := pintensor.Acquire(buffer)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pintensor.InUse(buffer)) // a copy is being issued
	hold.Until(issueCopy(buffer))
	fmt.Println(pintensor.InUse(buffer)) // and is done
	// Output:
	// true
	// false
}

// finished is a pintensor.Completion; an *asynccopy.Event is one too.
type finished struct{}

func (finished) Done() (bool, error)        { return true, nil }
func (finished) Wait(context.Context) error { return nil }

func issueCopy(*tensor.Dense) pintensor.Completion { return finished{} }

// A program that runs without a GPU, or with a low `ulimit -l`, says so at its start.
func ExampleEngine_Locked() {
	engine, err := pintensor.NewEngine()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	if err := engine.Reserve(context.Background(), 64*784*4, 2); err != nil { // the engine asks the system only now
		fmt.Println(err)
	}
	if ok, why := engine.Locked(); !ok {
		fmt.Println(why)
	} else {
		fmt.Println("page-locked")
	}
	// Output: page-locked
}

// A program whose cores are all busy reading data copies its tensors without further goroutines.
func ExampleWithParallelism() {
	engine, err := pintensor.NewEngine(pintensor.WithParallelism(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	images := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(16, 3, 224, 224)) // 10 MB
	pinned, err := engine.Pin(images)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Release(pinned)
	fmt.Println(pinned.Shape(), engine.Owns(pinned))
	// Output: (16, 3, 224, 224) true
}

// A buffer is for code that has no use for a tensor, such as a reader that fills chunks.
func ExampleEngine_AllocBuffer() {
	engine, err := pintensor.NewEngine()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	chunk, err := engine.AllocBuffer(4 << 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	n := copy(chunk.Bytes(), "pixels")
	fmt.Println(n, "of", len(chunk.Bytes()), "bytes")
	fmt.Println(chunk.Release(), engine.Stats().Lent.Current)
	// Output:
	// 6 of 4194304 bytes
	// <nil> 0
}

// Every machine has a node 0; a machine with one node has no other.
func ExampleWithNUMANode() {
	engine, err := pintensor.NewEngine(pintensor.WithNUMANode(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	_, err = pintensor.NewEngine(pintensor.WithNUMANode(-3))
	fmt.Println(err != nil)
	// Output: true
}
