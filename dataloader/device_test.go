package dataloader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
)

// TestMain uses a GPU once, where there is one: the driver opens files then that it never closes, and tests
// look for files left open.
func TestMain(m *testing.M) {
	if err := warmUp(); err != nil && !errors.Is(err, asynccopy.ErrUnavailable) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func warmUp() error {
	dev, err := asynccopy.Open(0)
	if err != nil {
		return err
	}
	stream, err := dev.NewStream()
	if err != nil {
		return err
	}
	x, err := stream.ToDevice(arange(10), false)
	if err != nil {
		return err
	}
	return errors.Join(x.Release(), dev.Close())
}

// onDevices runs a test on the software device, on one that does everything as late as it may, and on a GPU
// where there is one.
func onDevices(t *testing.T, test func(t *testing.T, dev *asynccopy.Device)) {
	for name, cfg := range map[string]soft.Config{"soft": {}, "late": {Late: true}} {
		t.Run(name, func(t *testing.T) {
			test(t, openDriver(t, drivertest.Checked(t, soft.New(cfg))))
		})
	}
	t.Run("cuda", func(t *testing.T) {
		dev, err := asynccopy.Open(0)
		if errors.Is(err, asynccopy.ErrUnavailable) && os.Getenv("REQUIRE_GPU") != "1" {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer closeDevice(t, dev)
		test(t, dev)
	})
}

func openDriver(t *testing.T, drv driver.Driver) *asynccopy.Device {
	t.Helper()
	dev, err := asynccopy.OpenDriver(drv, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDevice(t, dev) })
	return dev
}

func closeDevice(t *testing.T, dev *asynccopy.Device) {
	t.Helper()
	if err := dev.Close(); err != nil {
		t.Errorf("Device.Close: %v", err)
	}
}

func newStream(t *testing.T, dev *asynccopy.Device) *asynccopy.Stream {
	t.Helper()
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Batches on the device equal the host's, bit for bit, over two epochs with 8 workers; and they still do
// when the work that reads them is only issued in the body and runs later: the loader must not overwrite
// them before it has.
func TestDeviceBatchesEqualTheHosts(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *asynccopy.Device) {
		e := newEngine(t)
		copies, compute := newStream(t, dev), newStream(t, dev)
		const n = 203
		set, err := FromTensors(arange(n, 13, 7), arange(n))
		if err != nil {
			t.Fatal(err)
		}
		for _, last := range []LastBatch{KeepLast, PadLast} {
			l := newLoader(t, set, Config{BatchSize: 8, Shuffle: true, Workers: 8, Prefetch: 3, Stream: copies, LastBatch: last, Pin: e})
			type pending struct {
				field, batch int
				want         []float32
				shape        tensor.Shape
				got          *asynccopy.Download
			}
			var all []pending
			for range 2 {
				for b, err := range l.Batches(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					for f := range 2 {
						host, device := b.Host(f), b.Device(f)
						if !host.Shape().Eq(device.Shape()) || host.Dtype() != device.Dtype() {
							t.Fatalf("host %v of %v, device %v of %v", host.Shape(), host.Dtype(), device.Shape(), device.Dtype())
						}
						d, err := compute.ToHost(device, true)
						if err != nil {
							t.Fatal(err)
						}
						all = append(all, pending{f, b.Index, slices.Clone(host.Data().([]float32)), host.Shape().Clone(), d})
					}
				}
			}
			for _, p := range all {
				got, err := p.got.Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !got.Shape().Eq(p.shape) || !slices.Equal(got.Data().([]float32), p.want) {
					t.Fatalf("batch %d, field %d differs from the host's", p.batch, p.field)
				}
				release(t, got)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func release(t *testing.T, d *tensor.Dense) {
	t.Helper()
	if err := pintensor.Release(d); err != nil {
		t.Fatal(err)
	}
}

// Batches that are never waited for, kept ones, breaks and early releases leave nothing on the device.
func TestDeviceBatchesLeaveNothing(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *asynccopy.Device) {
		e := newEngine(t)
		l := newLoader(t, counting(50), Config{BatchSize: 4, Workers: 3, Stream: newStream(t, dev), Pin: e})
		var kept []*Batch
		for range 4 {
			for b, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				switch b.Index {
				case 2:
					b.Keep()
					kept = append(kept, b)
				case 4:
					if err := b.Release(); err != nil {
						t.Fatal(err)
					}
				}
				if b.Index == 9 {
					break
				}
			}
		}
		for _, b := range kept {
			if err := b.Device(1).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := verify(b, 4); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for _, b := range kept {
			if err := b.Release(); err != nil {
				t.Fatal(err)
			}
		}
		if s := dev.Stats(); s.Tensors != 0 {
			t.Errorf("%d tensors left on the device", s.Tensors)
		}
	})
}

// A loop's body that releases the loader's device tensor gets its own mistake back, and the next batch a
// new tensor.
func TestReleasedDeviceTensor(t *testing.T) {
	e := newEngine(t)
	dev := openDriver(t, soft.New(soft.Config{}))
	l := newLoader(t, counting(20), Config{BatchSize: 4, Prefetch: 1, Stream: newStream(t, dev), Pin: e})
	for range 2 {
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Device(0).Release(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestDeviceWithoutStream(t *testing.T) {
	l := newLoader(t, counting(4), Config{BatchSize: 4})
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.Contains(p, "Config.Stream is nil") {
					t.Errorf("Device panics with %q", p)
				}
			}()
			b.Device(0)
		}()
		mustPanic(t, "Host(2)", func() { b.Host(2) })
		mustPanic(t, "Host(-1)", func() { b.Host(-1) })
	}
}

// All fields of a batch are one copy, each begins where memory of its own would, and one that the loop's body
// released is there again in the next batch.
func TestOneCopyPerBatch(t *testing.T) {
	e := newEngine(t)
	faulty := drivertest.NewFaulty(drivertest.Checked(t, soft.New(soft.Config{})))
	dev := openDriver(t, faulty)
	fields := []Field{
		{Name: "byte", Dtype: tensor.Uint8, Shape: tensor.Shape{3}}, {Name: "float", Dtype: tensor.Float64, Shape: tensor.Shape{2, 5}},
		{Name: "bool", Dtype: tensor.Bool}, {Name: "int", Dtype: tensor.Int16, Shape: tensor.Shape{1}},
	}
	ds := FromFunc(21, fields, func(_ context.Context, i int, row Row) error {
		for f := range fields {
			for j := range row.Bytes(f) {
				row.Bytes(f)[j] = byte(i+f+j) % 2
			}
		}
		return nil
	})
	stream := newStream(t, dev)
	l := newLoader(t, ds, Config{BatchSize: 5, Workers: 2, Stream: stream, SingleEpoch: true, Pin: e})
	for range 2 {
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for f := range fields {
				if p := b.Device(f).DevicePtr(); p%fieldAlign != 0 {
					t.Errorf("field %d begins at %#x on the device", f, p)
				}
				d, err := stream.ToHost(b.Device(f), true)
				if err != nil {
					t.Fatal(err)
				}
				got, err := d.Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !got.Shape().Eq(b.Host(f).Shape()) || !reflect.DeepEqual(got.Data(), b.Host(f).Data()) {
					t.Errorf("batch %d, field %d: %v, want %v", b.Index, f, got.Data(), b.Host(f).Data())
				}
				release(t, got)
			}
			if err := b.Device(b.Index % len(fields)).Release(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := faulty.Calls("CopyHtoD"); got != 10 {
		t.Errorf("%d copies to the device for 10 batches", got)
	}
}

// A driver call that fails is an error in a batch's place, with the field, and costs nothing but that batch.
func TestFailingCopies(t *testing.T) {
	for _, call := range []string{"CopyHtoD", "Alloc", "AllocAsync", "NewEvent", "Record", "WaitEvent"} {
		for nth := range 6 {
			t.Run(fmt.Sprintf("%s/%d", call, nth+1), func(t *testing.T) {
				e := newEngine(t)
				faulty := drivertest.NewFaulty(drivertest.Checked(t, soft.New(soft.Config{})))
				dev := openDriver(t, faulty)
				l := newLoader(t, counting(40), Config{BatchSize: 4, Workers: 2, Prefetch: 2, Stream: newStream(t, dev), Pin: e})
				faulty.FailNth(call, nth+1, &driver.Error{Call: call, Code: 1, Name: "CUDA_ERROR_INVALID_VALUE", Text: "injected"})
				failed := 0
				for range 2 {
					turns := 0
					for b, err := range l.Batches(t.Context()) {
						turns++
						if err == nil {
							if err := errors.Join(verify(b, 4), b.Device(0).Wait(t.Context())); err != nil {
								t.Fatal(err)
							}
							continue
						}
						var batch *SampleError
						if !errors.As(err, &batch) || batch.Batch != turns-1 || !strings.Contains(err.Error(), "copy to the device: ") {
							t.Errorf("error %v in turn %d", err, turns)
						}
						failed++
					}
					if turns != 10 {
						t.Errorf("%d turns, want 10", turns)
					}
				}
				if failed > 1 {
					t.Errorf("%d batches failed for one failed call", failed)
				}
				t.Logf("%d calls, %d batches failed", faulty.Calls(call), failed)
			})
		}
	}
}

// Memory that is not page-locked is copied in the background. A copy that fails there is reported by whoever
// waits for its tensor, by the next call on the device, and by Close; batches after that, in the same memory, are
// not concerned.
func TestCopiesThatFailLater(t *testing.T) {
	for nth := range 4 {
		newEngine(t) // checks for goroutines
		host := drivertest.NewFaultyHost(soft.Host())
		host.FailAll("Register")
		e, err := pintensor.NewEngine(pintensor.WithDriver(host))
		if err != nil {
			t.Fatal(err)
		}
		faulty := drivertest.NewFaulty(drivertest.Checked(t, soft.New(soft.Config{})))
		dev := openDriver(t, faulty)
		fields := []Field{{Dtype: tensor.Int64, Shape: tensor.Shape{1 << 14}}} // small ones are copied at once
		ds := FromFunc(40, fields, func(_ context.Context, i int, row Row) error {
			Values[int64](row, 0)[i] = int64(i)
			return nil
		})
		l, err := New(ds, Config{BatchSize: 4, Workers: 2, Prefetch: 2, Stream: newStream(t, dev), Pin: e})
		if err != nil {
			t.Fatal(err)
		}
		faulty.FailNth("CopyHtoD", nth+1, &driver.Error{Call: "CopyHtoD", Code: 1, Name: "CUDA_ERROR_INVALID_VALUE", Text: "injected"})
		failed, reported := 0, 0
		for range 3 {
			turns := 0
			for b, err := range l.Batches(t.Context()) {
				turns++
				if err != nil {
					reported++
					continue
				}
				if b.Device(0).Wait(t.Context()) != nil {
					failed++
				}
			}
			if turns != 10 {
				t.Errorf("%d turns, want 10", turns)
			}
		}
		if failed > 1 || reported > 1 || failed+reported == 0 {
			t.Errorf("copy %d failed: %d batches on the device did, and %d calls said so", nth+1, failed, reported)
		}
		if err := l.Close(); strings.Count(fmt.Sprint(err), "injected") != 1 {
			t.Errorf("Close: %v, want the copy's error, once", err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A device that fails for good is reported, and the loader still ends and gives all memory back.
func TestDeviceThatFailsForGood(t *testing.T) {
	e := newEngine(t)
	dev, err := asynccopy.OpenDriver(soft.New(soft.Config{Fail: func(op soft.Op) error {
		if op.N == 50 {
			return errors.New("illegal address")
		}
		return nil
	}}), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close() // reports the failure once more
	l, err := New(counting(400), Config{BatchSize: 4, Workers: 2, Stream: newStream(t, dev), Pin: e})
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, err := range l.Batches(t.Context()) {
		if err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no batch failed on a device that did")
	}
	if err := l.Close(); strings.Count(fmt.Sprint(err), "illegal address") != 1 {
		t.Errorf("Close: %v, want the device's error, once", err)
	}
}

// The loop's wait for a batch ends with its context also when the device hangs.
func TestHangingDevice(t *testing.T) {
	e := newEngine(t)
	release := make(chan struct{})
	dev := openDriver(t, soft.New(soft.Config{Delay: func(op soft.Op) time.Duration {
		if op.Call == "CopyHtoD" {
			<-release
		}
		return 0
	}}))
	l := newLoader(t, counting(40), Config{BatchSize: 4, Workers: 2, Prefetch: 1, Stream: newStream(t, dev), Pin: e})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	turns := 0
	var last error
	for _, err := range l.Batches(ctx) {
		turns++
		last = err
	}
	if turns > 4 || !errors.Is(last, context.DeadlineExceeded) {
		t.Errorf("%d turns, error %v", turns, last)
	}
	close(release)
}
