package main

// This file tests the reading of logs.

import (
	"maps"
	"strings"
	"testing"
)

const benchLog = `# go test -run '^$' -bench 'Waste' ./pintensor
goos: linux
pkg: github.com/pintensor/pin/pintensor
cpu: Intel(R) Xeon(R) Processor
BenchmarkWaste/list=ResNet-50-16         	    1123	    192492 ns/op	         0.2883 %beyond-registered	        97.49 MiB-requested
BenchmarkCold/size=256MiB-16             	      52	   4313364 ns/op	62233.43 MB/s	268443022 B/op	      82 allocs/op
--- BENCH: BenchmarkCold/size=256MiB-16
    bench_test.go:1: Benchmark of a device: 1 2 3
BenchmarkSkipped/size=1MiB-16
PASS
# go test -run '^$' -bench 'ToDevice' .
pkg: github.com/pintensor/pin
BenchmarkToDevice/size=4KiB/mem=pinned-16  	   45956	      5112 ns/op
`

func TestParseBench(t *testing.T) {
	samples, err := parseBench(strings.NewReader(benchLog))
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) != 3 {
		t.Fatalf("%d samples, want 3: %v", len(samples), samples)
	}
	waste, cold, to := samples[0], samples[1], samples[2]
	if waste.bench != "pintensor.Waste" || waste.params["list"] != "ResNet-50" || waste.metrics["%beyond-registered"] != 0.2883 {
		t.Errorf("got %v, want pintensor.Waste of ResNet-50 with 0.2883 %%beyond-registered", waste)
	}
	if waste.command != "go test -run '^$' -bench 'Waste' ./pintensor" || to.command != "go test -run '^$' -bench 'ToDevice' ." {
		t.Errorf("commands %q and %q are not those above the lines", waste.command, to.command)
	}
	if want := map[string]float64{"ns/op": 4313364, "MB/s": 62233.43, "B/op": 268443022, "allocs/op": 82}; !maps.Equal(cold.metrics, want) {
		t.Errorf("metrics %v, want %v", cold.metrics, want)
	}
	if want := map[string]string{"size": "4KiB", "mem": "pinned"}; to.bench != "pin.ToDevice" || !maps.Equal(to.params, want) {
		t.Errorf("got %v, want pin.ToDevice with %v", to, want)
	}
}

// With GOMAXPROCS=1 there is no suffix, and what looks like one belongs to the name.
func TestParseBenchOnOneCore(t *testing.T) {
	samples, err := parseBench(strings.NewReader(`pkg: github.com/pintensor/pin/pintensor
BenchmarkWaste/list=ResNet-50 1 2 ns/op
BenchmarkWaste/list=MNIST-MLP 1 2 ns/op
BenchmarkWaste/list=GPT-2 1 2 ns/op
BenchmarkWaste/list=MNIST 1 2 ns/op
`))
	if err != nil || len(samples) != 4 || samples[0].params["list"] != "ResNet-50" {
		t.Errorf("got %v, %v, want ResNet-50 first", samples, err)
	}
}

func TestParseJSON(t *testing.T) {
	samples, err := parseJSON(strings.NewReader(`a warning of some library
{"peer": "torch 2.11.0", "bench": "issue", "call": "to", "event": true, "bytes": 4096, "value": 8.9, "unit": "us"}
{"bench": "copy", "mem": "pinned", "bytes": 1073741824, "value": 55, "unit": "GB/s"}
`), "copy")
	if err != nil {
		t.Fatal(err)
	}
	q := &query{run: &run{samples: samples}}
	if v := q.get("torch.issue", "call=to/event=true/size=4KiB", "us"); v != (value{8.9, true}) {
		t.Errorf("got %v, want 8.9", v)
	}
	if v := q.get("torch.copy", "size=1GiB", "GB/s"); v != (value{55, true}) {
		t.Errorf("got %v, want 55", v)
	}
	for _, bad := range []string{`{"bench": `, `{"bench": "copy", "unit": "us"}`, `{"value": 1, "unit": "us"}`, `{"bench": "copy", "value": 1}`} {
		if _, err := parseJSON(strings.NewReader(bad), "copy"); err == nil {
			t.Errorf("%s is no error", bad)
		}
	}
}

func TestParseCurve(t *testing.T) {
	c, err := parseCurve(strings.NewReader("# go test\nstep,device,tape\n1,2.5,2.25\n2,2,1.75\n"))
	if err != nil || len(c.names) != 2 || c.names[1] != "tape" || c.command != "go test" || c.losses[1][1] != 1.75 || c.steps[1] != 2 {
		t.Errorf("got %v, %v", c, err)
	}
	for _, bad := range []string{"", "step,loss\n", "step\n1\n", "step,loss\n1,high\n", "step,loss\n1\n"} {
		if _, err := parseCurve(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}

func TestParseExample(t *testing.T) {
	samples, err := parseExample(strings.NewReader(`# go run ./examples/mnist -model mlp -batch 64 -epochs 3
mlp 784-300-100-10, 266610 parameters, float32, on NVIDIA H200, ready in 0.21s
epoch 1/3 in 0.130s: loss 0.2, 469000 images/s, 131.0 µs a step, 2.7% of the time waiting for data
test accuracy 96.10%
epoch 3/3 in 0.120s: loss 0.1, 489268 images/s, 129.5 µs a step, 2.7% of the time waiting for data
test accuracy 97.58%
# go run ./examples/mnist -model cnn -batch 64 -epochs 3
epoch 1/3 in 0.130s: loss 0.2, 469000 images/s, 131.0 µs a step, 2.7% of the time waiting for data
test accuracy 96.10%
`))
	if err != nil || len(samples) != 2 {
		t.Fatalf("%v, %v, want two samples", samples, err)
	}
	if want := map[string]float64{"s": 0.21, "us": 129.5, "%-accuracy": 97.58}; !maps.Equal(samples[0].metrics, want) || samples[0].params["model"] != "mlp" {
		t.Errorf("got %v, want %v of the MLP", samples[0], want)
	}
	if len(samples[1].metrics) != 0 || samples[1].params["model"] != "cnn" {
		t.Errorf("got %v, want no figure of the CNN, which did not end", samples[1])
	}
}

func TestSizes(t *testing.T) {
	for name, bytes := range map[string]int{"4KiB": 4 << 10, "1MiB": 1 << 20, "256MiB": 256 << 20, "1GiB": 1 << 30} {
		if sizeName(bytes) != name || sizeBytes(name) != float64(bytes) {
			t.Errorf("%d is %s, and %s is %v", bytes, sizeName(bytes), name, sizeBytes(name))
		}
	}
	if sizeBytes("large") != 0 || sizeText("16MiB") != "16 MiB" {
		t.Error("a name that is no size, or one with a space, is wrong")
	}
}
