package tokens

// What a Set can be told, and what is refused.

import (
	"errors"
	"fmt"
	"math"

	"gorgonia.org/tensor"
)

// ErrFormat is in the chain of every error about the contents of a file, as opposed to errors of opening
// and reading it.
var ErrFormat = errors.New("not a readable file of tokens")

// Config is what a [Set] is told. Only Window has no default.
type Config struct {
	// Window is the number of tokens in an input, and in a target, > 0; GPT's block_size.
	Window int

	// Samples is how many windows an epoch has, at random places. 0: windows side by side, as many as fit.
	Samples int

	// Stride is the distance in tokens from one window's start to the next one's. 0: Window, so that they do not
	// overlap. With Samples it must be 0.
	Stride int

	// TokenBytes is the size of a token in the file: 2 for uint16, 4 for uint32. 0: 2.
	TokenBytes int

	// Skip is how many bytes at the start of the file are no tokens.
	Skip int64

	// Vocab is the number of different tokens: a larger one in a file is an error, where an embedding on a device
	// would fail without saying why, or not at all. 0: not checked.
	Vocab int

	// Dtype is the type of the fields: tensor.Int64, which is the default, or tensor.Int32.
	Dtype tensor.Dtype
}

// check fills in defaults, and returns an error that names the first field with a value that makes no sense.
func (c *Config) check() error {
	if c.TokenBytes == 0 {
		c.TokenBytes = 2
	}
	if c.Dtype.Type == nil {
		c.Dtype = tensor.Int64
	}
	switch {
	case c.Window <= 0:
		return fmt.Errorf("tokens: Config.Window = %d: want > 0", c.Window)
	case c.Samples < 0:
		return fmt.Errorf("tokens: Config.Samples = %d: want >= 0", c.Samples)
	case c.Stride < 0:
		return fmt.Errorf("tokens: Config.Stride = %d: want >= 0", c.Stride)
	case c.Samples > 0 && c.Stride != 0:
		return fmt.Errorf("tokens: Config.Stride = %d: want 0 with Samples, which are at random places", c.Stride)
	case c.TokenBytes != 2 && c.TokenBytes != 4:
		return fmt.Errorf("tokens: Config.TokenBytes = %d: want 2 or 4", c.TokenBytes)
	case c.Skip < 0:
		return fmt.Errorf("tokens: Config.Skip = %d: want >= 0", c.Skip)
	case c.Vocab < 0 || int64(c.Vocab) > math.MaxUint32:
		return fmt.Errorf("tokens: Config.Vocab = %d: want 0 to %d", c.Vocab, uint32(math.MaxUint32))
	case c.Dtype != tensor.Int64 && c.Dtype != tensor.Int32:
		return fmt.Errorf("tokens: Config.Dtype = %v: want tensor.Int64 or tensor.Int32", c.Dtype)
	}
	if c.Stride == 0 {
		c.Stride = c.Window
	}
	return nil
}

// limit is the first token that is too large.
func (c *Config) limit() uint32 {
	switch {
	case c.Vocab > 0:
		return uint32(c.Vocab)
	case c.Dtype == tensor.Int32:
		return 1 << 31
	}
	return math.MaxUint32 // which no vocabulary has
}

func badf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}
