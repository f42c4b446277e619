package drivertest

import (
	"errors"
	"reflect"
	"testing"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
)

// TestEveryCallCanFail calls every method that returns an error, so that one which isn't counted is found.
func TestEveryCallCanFail(t *testing.T) {
	leak.Check(t)
	f := NewFaulty(soft.New(soft.Config{Host: unlocked{}}))
	d, err := f.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]any{"Driver": f, "Host": f.Host(), "Device": d}
	interfaces := map[string]reflect.Type{
		"Driver": reflect.TypeFor[driver.Driver](), "Host": reflect.TypeFor[driver.Host](), "Device": reflect.TypeFor[driver.Device](),
	}
	f.FailAll("")
	tried := 0
	for kind, target := range targets {
		for i := range interfaces[kind].NumMethod() {
			name := interfaces[kind].Method(i).Name
			m := reflect.ValueOf(target).MethodByName(name)
			results := m.Type().NumOut()
			if m.Type().Out(results-1) != reflect.TypeFor[error]() {
				continue
			}
			tried++
			before := f.Calls(name)
			args := make([]reflect.Value, m.Type().NumIn())
			for i := range args {
				args[i] = reflect.Zero(m.Type().In(i))
			}
			if got := m.Call(args)[results-1].Interface(); got != ErrInjected {
				t.Errorf("%s.%s returned %v, want ErrInjected", kind, name, got)
			}
			if f.Calls(name) != before+1 {
				t.Errorf("%s.%s was not counted", kind, name)
			}
		}
	}
	if want := f.Calls("") - 1; tried != want || tried < 34 {
		t.Errorf("tried %d calls, counted %d", tried, want)
	}
	f.Heal()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestFailNth(t *testing.T) {
	leak.Check(t)
	own := errors.New("own")
	f := NewFaulty(soft.New(soft.Config{}))
	d, err := f.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	alloc := func() error {
		p, err := d.Alloc(8)
		if err == nil {
			err = d.Free(p)
		}
		return err
	}
	f.FailNth("Alloc", 2, own)
	f.FailNth("Free", 3, nil)
	// The call that failed made no Free: the third one is in the fourth round.
	for i, want := range []error{nil, own, nil, ErrInjected, nil} {
		if got := alloc(); got != want {
			t.Errorf("round %d: %v, want %v", i+1, got, want)
		}
	}
	if f.Calls("Alloc") != 5 || f.Calls("Free") != 4 || f.Calls("") != 10 {
		t.Errorf("counted Alloc %d, Free %d, all %d; want 5, 4, 10", f.Calls("Alloc"), f.Calls("Free"), f.Calls(""))
	}
	f.FailNth("", 2, own)
	if got := alloc(); got != own {
		t.Errorf("any call, the second: %v, want %v", got, own)
	}
	if got := alloc(); got != nil {
		t.Errorf("after it: %v", got)
	}
}
