package imagefolder

// From the bytes of a file to a field of a sample.

import (
	"fmt"
	"slices"
	"sync"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
)

// Decoder makes fields of JPEG and PNG files that come from elsewhere, as a [Set] does of those in a folder:
// from a tar shard, or a data base. It is safe for concurrent use.
type Decoder struct {
	cfg      Config
	tables   []*[256]float32 // by channel
	resizers sync.Pool       // of *resizer
}

// NewDecoder returns a Decoder. Values in cfg that make no sense are errors that name them.
func NewDecoder(cfg Config) (*Decoder, error) {
	d := &Decoder{cfg: cfg}
	if err := d.cfg.check(); err != nil {
		return nil, err
	}
	if d.cfg.Dtype == tensor.Float32 {
		for c := range d.cfg.channels() {
			d.tables = append(d.tables, d.cfg.table(c))
		}
	}
	d.resizers.New = func() any { return &resizer{} }
	return d, nil
}

// Field returns the field that images become, with the given name.
func (d *Decoder) Field(name string) dataloader.Field {
	c := &d.cfg
	shape := tensor.Shape{c.channels(), c.Height, c.Width}
	if c.HWC {
		shape = tensor.Shape{c.Height, c.Width, c.channels()}
	}
	return dataloader.Field{Name: name, Dtype: c.Dtype, Shape: shape}
}

// Decode writes the image that is in the file data to a field of row, which must be as Field says. Chance comes from
// row.Rand. Errors are [ErrFormat]; or a [dataloader.FatalError], where Config.DecodeJPEG returns one, or no image of the file's
// size.
func (d *Decoder) Decode(data []byte, row dataloader.Row, field int) error {
	if err := d.decode(data, row, field); err != nil {
		return fmt.Errorf("imagefolder: %w", err)
	}
	return nil
}

func (d *Decoder) decode(data []byte, row dataloader.Row, field int) error {
	z := d.resizers.Get().(*resizer)
	defer d.resizers.Put(z)
	m, again, err := d.cfg.decode(data, z.decoded)
	if err != nil {
		return err
	}
	if again {
		z.decoded = m
	}
	g := d.cfg.geometry(m.Bounds(), row.Rand)
	flip := d.cfg.Flip > 0 && row.Rand().Float64() < d.cfg.Flip
	pixels := z.resize(m, g, d.cfg.Gray)
	if flip {
		mirror(pixels, d.cfg.Width, d.cfg.channels())
	}
	d.store(row, field, pixels)
	return nil
}

// mirror turns rows of pixels left to right.
func mirror(pixels []byte, width, channels int) {
	for line := range slices.Chunk(pixels, width*channels) {
		for a, b := 0, width-1; a < b; a, b = a+1, b-1 {
			for c := range channels {
				p, q := &line[a*channels+c], &line[b*channels+c]
				*p, *q = *q, *p
			}
		}
	}
}

// store writes the pixels, whose channels are last, as the field wants them.
func (d *Decoder) store(row dataloader.Row, field int, pixels []byte) {
	channels := d.cfg.channels()
	bytes := d.cfg.Dtype == tensor.Uint8
	switch {
	case bytes && (d.cfg.HWC || channels == 1):
		copy(dataloader.Values[uint8](row, field), pixels)
	case bytes:
		dst := dataloader.Values[uint8](row, field)
		n := len(dst) / 3
		for k := range n {
			p := pixels[3*k : 3*k+3 : 3*k+3]
			dst[k], dst[n+k], dst[2*n+k] = p[0], p[1], p[2]
		}
	case channels == 1:
		dst, table := dataloader.Values[float32](row, field), d.tables[0]
		for k, v := range pixels {
			dst[k] = table[v]
		}
	case d.cfg.HWC:
		dst := dataloader.Values[float32](row, field)
		red, green, blue := d.tables[0], d.tables[1], d.tables[2]
		for k := 0; k+3 <= len(dst); k += 3 {
			p, q := pixels[k:k+3:k+3], dst[k:k+3:k+3]
			q[0], q[1], q[2] = red[p[0]], green[p[1]], blue[p[2]]
		}
	default:
		dst := dataloader.Values[float32](row, field)
		n := len(dst) / 3
		r, g, b := dst[:n], dst[n:2*n], dst[2*n:]
		red, green, blue := d.tables[0], d.tables[1], d.tables[2]
		for k := range r {
			p := pixels[3*k : 3*k+3 : 3*k+3]
			r[k], g[k], b[k] = red[p[0]], green[p[1]], blue[p[2]]
		}
	}
}
