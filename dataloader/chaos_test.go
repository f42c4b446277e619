package dataloader

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
)

// behaviour is what a sample's Read does.
type behaviour int

const (
	good behaviour = iota
	fails
	panics
	exits // runtime.Goexit
	slow
	hangs      // until its context is done
	stubbornly // hangs for a minute whatever its context says
	busy       // fails the first time, and says that it passes
)

// TestChaos runs loops over sets whose samples fail in every way, left in every way, with every
// configuration, in virtual time: each turn must be what the behaviour of its samples makes it, nothing may
// hang, and nothing may be left.
func TestChaos(t *testing.T) {
	newEngine(t) // checks for goroutines
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 25).Draw(rt, "samples")
		does := make([]behaviour, n)
		kinds := rapid.SampledFrom([][]behaviour{
			{good}, {good, good, busy}, {good, good, good, good, fails, slow}, {good, good, good, good, good, good, panics, exits}, {good, good, good, good, good, fails, busy, slow, hangs, stubbornly},
		}).Draw(rt, "kinds")
		for i := range does {
			does[i] = rapid.SampledFrom(kinds).Draw(rt, fmt.Sprintf("sample %d", i))
		}
		cfg := Config{
			BatchSize:   rapid.IntRange(1, 6).Draw(rt, "batch"),
			Workers:     rapid.IntRange(1, 4).Draw(rt, "workers"),
			Prefetch:    rapid.IntRange(0, 3).Draw(rt, "prefetch"),
			LastBatch:   LastBatch(rapid.IntRange(0, 2).Draw(rt, "last")),
			OnError:     ErrorPolicy(rapid.IntRange(0, 1).Draw(rt, "on error")),
			Unordered:   rapid.Bool().Draw(rt, "unordered"),
			Shuffle:     rapid.Bool().Draw(rt, "shuffle"),
			SingleEpoch: rapid.IntRange(0, 3).Draw(rt, "single epoch") == 0,
			Timeout:     time.Duration(rapid.IntRange(0, 1).Draw(rt, "timeout")) * 10 * time.Second,
		}
		s := scenario{
			does: does, cfg: cfg, batched: rapid.Bool().Draw(rt, "ReadBatch"), device: rapid.Bool().Draw(rt, "device"),
			end: rapid.SampledFrom([]string{"", "break", "cancel", "close", "panic"}).Draw(rt, "end"), at: rapid.IntRange(0, 6).Draw(rt, "end at turn"),
			keep:    rapid.Bool().Draw(rt, "keep"),
			between: rapid.SampledFrom([]string{"", "", "SetEpoch", "Restore", "wait"}).Draw(rt, "between loops"),
		}
		if err := s.run(t); err != nil {
			rt.Fatal(err)
		}
	})
}

type scenario struct {
	does            []behaviour
	cfg             Config
	batched, device bool
	end             string
	at              int
	keep            bool
	between         string
	asked           sync.Map // busy samples that have failed once
}

var errBad = errors.New("bad sample")

func (s *scenario) read(ctx context.Context, i int, row Row) error {
	write(i, row)
	switch s.does[i] {
	case fails:
		return errBad
	case panics:
		panic(errBad)
	case exits:
		runtime.Goexit()
	case busy:
		if _, again := s.asked.LoadOrStore(i, true); !again {
			return &RetryError{Err: errBad}
		}
	case slow:
		time.Sleep(time.Second)
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	case stubbornly:
		time.Sleep(time.Minute)
	}
	return nil
}

func (s *scenario) run(t *testing.T) (err error) {
	synctest.Test(t, func(t *testing.T) { err = s.inBubble(t) })
	return err
}

func (s *scenario) inBubble(t *testing.T) error {
	e, err := pintensor.NewEngine()
	if err != nil {
		return err
	}
	cfg := s.cfg
	cfg.Pin = e
	var dev *asynccopy.Device
	if s.device {
		if dev, err = asynccopy.OpenDriver(soft.New(soft.Config{Late: true}), 0); err != nil {
			return err
		}
		if cfg.Stream, err = dev.NewStream(); err != nil {
			return err
		}
	}
	ds := FromFunc(len(s.does), countFields, s.read)
	if s.batched {
		ds = batchedFunc{ds, func(ctx context.Context, indices []int, rows Rows) error {
			for k, i := range indices {
				if err := s.read(ctx, i, rows.Row(k)); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	l, err := New(ds, cfg)
	if err != nil {
		return err
	}
	began, start := time.Now(), l.State()
	for range 3 {
		at := l.State()
		if at.Batch > 0 || len(at.Ahead) > 0 { // the last loop was left
			at.Epoch++
		}
		if err := s.epoch(l, at.Epoch); err != nil {
			return err
		}
		switch s.between {
		case "SetEpoch":
			l.SetEpoch(at.Epoch + s.at)
		case "Restore":
			if err := l.Restore(start); err != nil && !errors.Is(err, ErrClosed) {
				return err
			}
		case "wait":
			time.Sleep(time.Second)
		}
		if st := l.Stats(); st.PinnedBytes > st.PinnedLimit && st.Stuck == 0 {
			return fmt.Errorf("more memory than promised: %+v", st)
		}
	}
	closeErr := l.Close()
	if closeErr != nil && !errors.Is(closeErr, ErrTimeout) {
		return fmt.Errorf("Close: %w", closeErr)
	}
	// Three epochs of at most 25 samples: each a second slow, or until the timeout twice, or the grace.
	if took := time.Since(began); took > 10*time.Minute {
		return fmt.Errorf("it took %v", took)
	}
	time.Sleep(time.Hour) // stubborn readers have returned
	if st := l.Stats(); st.Slots != 0 || st.PinnedBytes != 0 || st.Stuck != 0 {
		return fmt.Errorf("left: %+v", st)
	}
	if dev != nil {
		if n := dev.Stats().Tensors; n != 0 {
			return fmt.Errorf("%d tensors left on the device", n)
		}
		if err := dev.Close(); err != nil {
			return err
		}
	}
	if lent := e.Stats().Lent.Current; lent != 0 {
		return fmt.Errorf("%d bytes left lent", lent)
	}
	return e.Close()
}

type bodyPanic struct{}

// epoch runs one loop and checks each turn.
func (s *scenario) epoch(l *Loader, number int) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Samples that hang end with this, where there is no timeout.
	time.AfterFunc(2*time.Minute, cancel)
	var kept []*Batch
	defer func() {
		for _, b := range kept {
			err = errors.Join(err, b.Release())
		}
	}()
	defer func() {
		switch p := recover().(type) {
		case nil, bodyPanic:
		case *PanicError:
			if p.Index >= 0 && s.does[p.Index] != panics && s.does[p.Index] != exits {
				err = fmt.Errorf("sample %d does not panic: %w", p.Index, p)
			}
		default:
			panic(p)
		}
	}()
	turn, seen, over := 0, make(map[int]bool), false
	for b, batchErr := range l.Batches(ctx) {
		if over {
			return errors.New("a turn after the loop's last")
		}
		if batchErr != nil {
			over, err = s.checkError(batchErr, ctx)
		} else {
			err = s.checkBatch(b, seen)
			if b.Epoch != number {
				err = fmt.Errorf("batch %d of epoch %d, want epoch %d", b.Index, b.Epoch, number)
			}
		}
		if err != nil {
			return err
		}
		if b != nil && s.keep && turn%2 == 1 {
			b.Keep()
			kept = append(kept, b)
		}
		if turn == s.at {
			switch s.end {
			case "break":
				return nil
			case "cancel":
				cancel()
			case "close":
				if err := l.Close(); err != nil && !errors.Is(err, ErrTimeout) {
					return err
				}
			case "panic":
				panic(bodyPanic{})
			}
		}
		turn++
	}
	return nil
}

func (s *scenario) checkBatch(b *Batch, seen map[int]bool) error {
	rows := b.Len()
	if s.cfg.LastBatch == PadLast {
		rows = s.cfg.BatchSize
	}
	for _, i := range b.Indices {
		if d := s.does[i]; seen[i] || d == fails || d == panics || d == exits {
			return fmt.Errorf("sample %d, which does %d, was delivered (before: %v)", i, d, seen[i])
		}
		seen[i] = true
	}
	for _, skipped := range b.Skipped {
		if s.cfg.OnError != SkipErrors || s.does[skipped.Index] != fails {
			return fmt.Errorf("skipped: %w", skipped)
		}
	}
	if s.device {
		if err := b.Device(0).Wait(context.Background()); err != nil {
			return err
		}
	}
	return verify(b, rows)
}

// checkError returns whether err is one that ends a loop, and an error if it has no reason.
func (s *scenario) checkError(err error, ctx context.Context) (over bool, wrong error) {
	var sample *SampleError
	switch {
	case errors.Is(err, ErrTimeout):
		if s.cfg.Timeout == 0 {
			return true, err
		}
		return true, nil
	case errors.Is(err, ErrClosed):
		if s.end != "close" {
			return true, err
		}
		return true, nil
	case errors.Is(err, context.Canceled):
		if ctx.Err() == nil {
			return true, err
		}
		return true, nil
	case errors.As(err, &sample) && errors.Is(err, errBad) && s.cfg.OnError == StopOnError:
		return false, nil
	}
	return true, fmt.Errorf("unexpected: %w", err)
}
