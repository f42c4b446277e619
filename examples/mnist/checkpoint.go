// Checkpoints: training that was interrupted goes on as if it had not been.

package main

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/devicevm"
)

// checkpoint is all that the rest of a training depends on, beside the data and the flags.
type checkpoint struct {
	Model, Dtype, Solver string
	Epochs               int // done
	Network              devicevm.State
	Loader               dataloader.State
}

// save writes a checkpoint. A file that was there before is replaced only when the new one is whole.
func (c *checkpoint) save(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	err = errors.Join(gob.NewEncoder(f).Encode(c), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("checkpoint: %w", err), ignoreMissing(os.Remove(f.Name())))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readCheckpoint reads what save has written.
func readCheckpoint(path string) (*checkpoint, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	defer f.Close()
	c := new(checkpoint)
	if err := gob.NewDecoder(f).Decode(c); err != nil {
		return nil, fmt.Errorf("checkpoint %s: not what -save writes, or cut off: %w", path, err)
	}
	return c, nil
}

// checkpoint returns what the session is at.
func (s *session[T]) checkpoint(cfg config, epochs int) (*checkpoint, error) {
	state, err := s.net.trainer.State()
	if err != nil {
		return nil, err
	}
	return &checkpoint{Model: cfg.model, Dtype: cfg.dtype, Solver: cfg.solver, Epochs: epochs, Network: state, Loader: s.train.State()}, nil
}

// savedBy reads the checkpoint that -resume names, which has to fit the other flags. Without the flag it is nil.
func savedBy(cfg config) (*checkpoint, error) {
	if cfg.resume == "" {
		return nil, nil
	}
	c, err := readCheckpoint(cfg.resume)
	if err != nil {
		return nil, err
	}
	if c.Model != cfg.model || c.Dtype != cfg.dtype || c.Solver != cfg.solver {
		return nil, fmt.Errorf("checkpoint %s: of -model %s -dtype %s -solver %s, not of -model %s -dtype %s -solver %s",
			cfg.resume, c.Model, c.Dtype, c.Solver, cfg.model, cfg.dtype, cfg.solver)
	}
	return c, nil
}

// resume makes a session go on from a checkpoint, which was read from a file.
func (s *session[T]) resume(file string, c *checkpoint) error {
	if err := errors.Join(s.net.trainer.Restore(c.Network), s.train.Restore(c.Loader)); err != nil {
		return fmt.Errorf("checkpoint %s: %w", file, err)
	}
	return nil
}
