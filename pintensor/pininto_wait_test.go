package pintensor

// This file tests PinInto beside copies in flight, and beside other goroutines.

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gorgonia.org/tensor"
)

// inBubble runs PinInto on a goroutine until it waits, or ends, and returns how it ended.
func inBubble(e *Engine, dst, src *tensor.Dense) (ended <-chan error) {
	result := make(chan error, 1)
	go func() { result <- e.PinInto(dst, src) }()
	synctest.Wait()
	return result
}

// TestPinIntoWaits: copies in flight see the memory as it was, and PinInto waits for them, all and no longer.
func TestPinIntoWaits(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 4, 2))
	beside := must[*tensor.Dense](t)(e.New(tensor.Float32, 4, 2))
	ones := numbered(tensor.Float32, 4, 2)
	isOld := func() bool { return !slices.ContainsFunc(d.Raw, func(x byte) bool { return x != 9 }) }
	for name, use := range map[string]func(t *testing.T) (end []func()){
		"a copy": func(t *testing.T) []func() { w := newWork(); useBy(t, d, w); return []func(){w.complete} },
		"of its view": func(t *testing.T) []func() {
			w := newWork()
			useBy(t, slice(t, d, tensor.S(0, 1)), w)
			return []func(){w.complete}
		},
		"two copies": func(t *testing.T) []func() {
			v, w := newWork(), newWork()
			useBy(t, d, v)
			useBy(t, d, w)
			return []func(){w.complete, v.complete}
		},
		"one that failed": func(t *testing.T) []func() {
			w := newWork()
			w.err = errors.New("the device is lost")
			useBy(t, d, w)
			return []func(){w.complete}
		},
		"one that is being issued": func(t *testing.T) []func() {
			w, h := newWork(), must[Hold](t)(Acquire(d))
			return []func(){func() { h.Until(w) }, w.complete}
		},
		"one that is not issued after all": func(t *testing.T) []func() {
			return []func(){must[Hold](t)(Acquire(d)).Done}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			fillWith(d.Raw, 9)
			elsewhere := newWork()
			useBy(t, beside, elsewhere) // of another tensor: not waited for
			ends := use(t)
			ended := inBubble(e.Engine, d, ones)
			for _, end := range ends {
				time.Sleep(time.Second) // longer than it looks for the end of a hold
				synctest.Wait()
				if len(ended) > 0 || !isOld() {
					t.Errorf("%s: memory was written to that a copy uses: %v", name, d)
				}
				end()
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if len(ended) != 1 {
				t.Fatalf("%s: it waits when nothing uses the memory", name)
			}
			if err := <-ended; err != nil || !bytes.Equal(d.Raw, ones.Raw) {
				t.Errorf("%s: %v, %v", name, d, err)
			}
			elsewhere.complete()
			e.poll(pollAll) // or it would be asked outside of the bubble
		})
	}
	if err := errors.Join(e.Release(d), e.Release(beside)); err != nil {
		t.Fatal(err)
	}
}

// TestPinIntoGivesUp: after ten seconds the memory is as it was.
func TestPinIntoGivesUp(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 4))
	for want, use := range map[string]func(t *testing.T) (end func()){
		"copies of its memory are in flight after 10s": func(t *testing.T) func() { w := newWork(); useBy(t, d, w); return w.complete },
		"a hold on its memory is open after 10s":       func(t *testing.T) func() { return must[Hold](t)(Acquire(d)).Done },
	} {
		synctest.Test(t, func(t *testing.T) {
			fillWith(d.Raw, 9)
			end := use(t)
			begin := time.Now()
			err := e.PinInto(d, numbered(tensor.Float32, 4))
			text := "pintensor: PinInto: dst of shape (4): " + want + ": in use by a copy"
			if !errors.Is(err, ErrInUse) || err.Error() != text || time.Since(begin) != maxWait {
				t.Errorf("%v after %v, want %s", err, time.Since(begin), text)
			}
			if slices.ContainsFunc(d.Raw, func(x byte) bool { return x != 9 }) {
				t.Errorf("%s: the memory was written to", want)
			}
			end()
			if err := e.PinInto(d, numbered(tensor.Float32, 4)); err != nil {
				t.Errorf("later: %v", err)
			}
		})
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

// A copy that is done, which nobody has asked about yet, is not waited for.
func TestPinIntoAsks(t *testing.T) {
	e := newRig(t)
	e.maxWait = 1 // a nanosecond
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 4))
	for range 10 {
		w := newWork()
		useBy(t, d, w)
		w.complete()
	}
	if err := e.PinInto(d, numbered(tensor.Float32, 4)); err != nil {
		t.Error(err)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

// Goroutines that fill and read parts of one tensor don't get in each other's way. The race detector watches.
func TestPinIntoAtOnce(t *testing.T) {
	e := newRig(t)
	e.maxWait = time.Minute
	const parts, rows = 4, 3
	d := must[*tensor.Dense](t)(e.New(tensor.Int64, parts*rows, 5))
	shared := numbered(tensor.Int64, rows, 5)
	var wg sync.WaitGroup
	for k := range parts {
		part, again := slice(t, d, tensor.S(k*rows, (k+1)*rows)), slice(t, d, tensor.S(k*rows, (k+1)*rows))
		wg.Go(func() {
			for i := range 50 {
				if err := e.PinInto(part, shared); err != nil {
					t.Error(err)
					return
				}
				copied, err := e.Pin(again)
				if err != nil {
					t.Error(err)
					return
				}
				if !slices.Equal(copied.Data().([]int64), shared.Data().([]int64)) {
					t.Errorf("part %d, turn %d: %v", k, i, copied)
				}
				fillWith(part.Raw, 0xFF)
				if err := e.Release(copied); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}
