// The program: data, loader, network, and the loop over epochs and batches.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// run is main without its globals: it can be tested, and nothing is left running when it returns. Results
// are written to stdout, the progress bar to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg, err := parseFlags(args, stdout)
	if err != nil {
		return err
	}
	saved, err := savedBy(cfg)
	if err != nil {
		return err
	}
	dir, err := locate(ctx, cfg.data)
	if err != nil {
		return explain(ctx, err, "looking for the MNIST files", nil)
	}
	trainImages, testImages, err := load(dir)
	if err == nil {
		err = explain(ctx, ctx.Err(), "reading the MNIST files", nil)
	}
	if err != nil {
		return err
	}
	if cfg.batch > trainImages.count() {
		return badFlag("batch", cfg.batch, fmt.Sprintf("at most the %d training images", trainImages.count()))
	}
	show := newDisplay(stdout, stderr)
	show.printf("%d training and %d test images from %s\n", trainImages.count(), testImages.count(), dir)
	if cfg.dtype == "float64" {
		err = fit[float64](ctx, cfg, saved, trainImages, testImages, show)
	} else {
		err = fit[float32](ctx, cfg, saved, trainImages, testImages, show)
	}
	if err == nil {
		show.printf("%s\n", pinned(pintensor.Default().Stats()))
	}
	return errors.Join(err, show.err)
}

// session is a network in training, and where its data comes from.
type session[T float] struct {
	net         *network[T]
	train, test *dataloader.Loader
	answers     []byte // the labels of the test images
	interval    int    // steps from one look at the loss to the next
	curve       curve
	show        *display
	bar         *progress // of the epoch that is trained
}

// fit trains a network and tests it after each epoch. It goes on from what was saved, if that is not nil.
func fit[T float](ctx context.Context, cfg config, saved *checkpoint, trainImages, testImages images, show *display) (err error) {
	m := modelNamed[T](cfg.model)
	begin := time.Now()
	net, dev, err := openNetwork(m, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.close(), dev.Close()) }()
	show.printf("%s, %d parameters, %s, on %v, ready in %.2fs\n", m.text, net.parameters(), cfg.dtype, dev, time.Since(begin).Seconds())

	copies, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, copies.Close()) }()
	s := &session[T]{net: net, answers: testImages.labels, interval: cfg.interval, show: show}
	train, err := newLoader[T](cfg, trainImages, m.input, copies, true, s.progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, train.Close()) }()
	test, err := newLoader[T](cfg, testImages, m.input, copies, false, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, test.Close()) }()

	s.train, s.test = train, test
	done := 0
	if saved != nil {
		if err := s.resume(cfg.resume, saved); err != nil {
			return err
		}
		done = saved.Epochs
		show.printf("resumed after epoch %d\n", done)
		if done >= cfg.epochs {
			show.printf("nothing is left to train: -epochs is %d\n", cfg.epochs)
		}
	}
	for epoch := done + 1; epoch <= cfg.epochs && err == nil; epoch++ {
		err = s.epoch(ctx, cfg, epoch)
	}
	if cfg.plot != "" && len(s.curve.losses) > 0 { // also of a run that was interrupted
		err = errors.Join(err, s.curve.save(cfg.plot))
	}
	return err
}

// newLoader returns a loader of batches of the images, each image of the given shape. Its batches are copied to
// the device of the stream, by it, while the network computes. progress is told of each that was used.
func newLoader[T float](cfg config, m images, shape tensor.Shape, copies *asynccopy.Stream, shuffle bool,
	progress func(dataloader.Progress)) (*dataloader.Loader, error) {

	return dataloader.New(newDataset[T](m, shape), dataloader.Config{
		BatchSize: cfg.batch,
		Shuffle:   shuffle,
		Seed:      cfg.seed,
		Workers:   cfg.workers,
		Stream:    copies,
		// The network takes exactly BatchSize images at a time, so the last batch is filled up with images
		// of its own. In training these count a little more than others; in testing only the first Len()
		// are looked at.
		LastBatch: dataloader.PadLast,
		Progress:  progress,
	})
}

// progress is told of each batch that was trained on.
func (s *session[T]) progress(p dataloader.Progress) { s.bar.step(p.Samples, s.curve.smoothed()) }

// epoch trains on all training images once, saves that, and then tests.
func (s *session[T]) epoch(ctx context.Context, cfg config, epoch int) error {
	name := fmt.Sprintf("epoch %d/%d", epoch, cfg.epochs)
	if err := s.trainOnce(ctx, name); err != nil {
		return explain(ctx, err, "training, "+name, s.curve.tests)
	}
	if cfg.save != "" {
		c, err := s.checkpoint(cfg, epoch)
		if err == nil {
			err = c.save(cfg.save)
		}
		if err != nil {
			return err
		}
	}
	return explain(ctx, s.testOnce(ctx), "testing, "+name, s.curve.tests)
}

func (s *session[T]) trainOnce(ctx context.Context, name string) error {
	s.bar = s.show.start(name, s.train.Len())
	defer s.bar.stop()
	var sum float64 // of the losses that were looked at
	var looks, seen int
	var waited time.Duration
	begin := time.Now()
	ready := begin // when the network was ready for the next batch
	for b, err := range s.train.Batches(ctx) {
		if err != nil {
			return err
		}
		waited += time.Since(ready)

		// b and its tensors are ours until the next turn of the loop; then their memory gets another batch.
		if err := s.net.train(b.Device(fieldImage), b.Device(fieldLabel)); err != nil {
			return err
		}
		s.curve.steps++
		if s.curve.steps%s.interval == 0 || b.Index == s.train.Len()-1 {
			loss, err := s.net.loss()
			if err != nil {
				return err
			}
			if math.IsNaN(loss) || math.IsInf(loss, 0) {
				return fmt.Errorf("%s: the loss is %v at batch %d: a smaller -lr may help", name, loss, b.Index)
			}
			sum += loss
			looks++
			s.curve.add(loss)
		}
		seen += b.Len()
		ready = time.Now()
	}
	s.bar.stop()
	took := time.Since(begin)
	s.show.printf("%s in %.3fs: loss %.4f, %.0f images/s, %.1f µs a step, %.1f%% of the time waiting for data\n", name,
		took.Seconds(), sum/float64(looks), float64(seen)/took.Seconds(), 1e6*took.Seconds()/float64(s.train.Len()), 100*waited.Seconds()/took.Seconds())
	return nil
}

func (s *session[T]) testOnce(ctx context.Context) error {
	right := 0
	for b, err := range s.test.Batches(ctx) {
		if err != nil {
			return err
		}
		predicted, err := s.net.predict(b.Device(fieldImage))
		if err != nil {
			return err
		}
		for k, index := range b.Indices { // what fills a short batch up has no index
			if predicted[k] == int(s.answers[index]) {
				right++
			}
		}
	}
	accuracy := 100 * float64(right) / float64(len(s.answers))
	s.curve.endEpoch(accuracy)
	s.show.printf("test accuracy %.2f%%\n", accuracy)
	return nil
}
