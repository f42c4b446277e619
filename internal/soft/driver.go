package soft

// This file has the driver: its configuration, and the devices that are open.

import (
	"fmt"
	"sync"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

// DefaultMemory is the memory of a device whose [Config] does not say, in bytes.
const DefaultMemory = 1 << 30

// Config says what devices a [Driver] has, and how they misbehave. Its zero value is one
// well-behaved device with [DefaultMemory] bytes.
type Config struct {
	// Devices is the number of devices. 0 means 1.
	Devices int

	// Memory is the size of each device's memory in bytes, which is Go memory allocated as needed.
	// 0 means DefaultMemory.
	Memory int64

	// Late makes an operation run only when somebody must see its effect: in SyncStream or SyncEvent, in
	// the fourth Query of an event in a row, when another stream's operation that must run waits for it, or
	// in Close. It then runs in that caller's goroutine. Fresh device memory is filled with 0xFF (NaN).
	Late bool

	// Apart makes the devices unable to reach each other's memory: Share reports false.
	Apart bool

	// Delay, if not nil, says how long to wait before an operation runs.
	Delay func(Op) time.Duration

	// Fail, if not nil, is called before an operation runs. An error it returns is the result of the
	// operation, which is not carried out: from then on every call on the device fails with it. It is
	// wrapped as a CUDA launch failure unless it is a *driver.Error.
	Fail func(Op) error

	// Host page-locks memory. Nil means [Host]().
	Host driver.Host
}

// Op is an operation in a stream, as the hooks of [Config] see it.
type Op struct {
	Call   string        // the method that issued it, such as "CopyHtoD"
	Device int           // ordinal
	Stream driver.Stream // where it was issued
	Kernel string        // the name of what Launch runs
	Bytes  int64         // how much it copies, fills or frees; 0 for WaitEvent and Launch
	N      int64         // its number among the operations issued to the device, from 1
}

// Driver is a driver.Driver of software devices. Different Drivers share nothing but the host's
// memory.
type Driver struct {
	config Config

	mu   sync.Mutex
	open map[int]*core // the devices that are open, by ordinal
}

// New returns a driver. It starts nothing and reserves nothing. Negative numbers in config are
// reported by Open and Devices.
func New(config Config) *Driver {
	if config.Devices == 0 {
		config.Devices = 1
	}
	if config.Memory == 0 {
		config.Memory = DefaultMemory
	}
	if config.Host == nil {
		config.Host = Host()
	}
	return &Driver{config: config, open: make(map[int]*core)}
}

// Host returns the host that [Config] names.
func (d *Driver) Host() driver.Host { return d.config.Host }

// Devices returns the number of devices that [Config] names.
func (d *Driver) Devices() (int, error) {
	if d.config.Devices < 0 {
		return 0, fmt.Errorf("soft: Config.Devices is %d, must not be negative", d.config.Devices)
	}
	if d.config.Memory < 0 {
		return 0, fmt.Errorf("soft: Config.Memory is %d, must not be negative", d.config.Memory)
	}
	return d.config.Devices, nil
}

// Open returns a device. It blocks for nothing.
func (d *Driver) Open(ordinal int) (driver.Device, error) {
	n, err := d.Devices()
	if err != nil {
		return nil, err
	}
	if ordinal < 0 || ordinal >= n {
		return nil, failure("Open", driver.CodeInvalidDevice, "no device %d, there are %d", ordinal, n)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.open[ordinal]
	if c == nil {
		c = newCore(&d.config, ordinal)
		d.open[ordinal] = c
	}
	c.users++
	return &device{core: c, driver: d}, nil
}

// leave takes one user from c, and reports whether it was the last.
func (d *Driver) leave(c *core) (last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.users--; c.users > 0 {
		return false
	}
	delete(d.open, c.ordinal)
	return true
}
