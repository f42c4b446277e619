package main

// Tables of training.

import (
	"math"
	"strconv"
)

func training(q *query) *table {
	t := &table{title: "A step of training, loader and copies included", header: []string{"network", "batch", "`devicevm`",
		"PyTorch, graph, no loader", "PyTorch, graph", "PyTorch, compiled", "PyTorch, eager", "tapeMachine, on the CPU, no loader"},
		chart: &chart{ylabel: "µs a step", bars: true, logY: true}}
	for _, n := range t.header[2:] {
		t.chart.series = append(t.chart.series, series{name: n})
	}
	for _, model := range q.values("pin.Train", "", "model") {
		for _, batch := range q.values("pin.Train", "model="+model, "batch") {
			params := "model=" + model + "/batch=" + batch
			theirs := func(mode, feed string) value { return torchStep(q, params+"/mode="+mode+"/feed="+feed) }
			row := []string{model, batch}
			tape := µs(q.get("devicevm.Step", "model="+stepModel[model]+"/batch="+batch+"/vm=tape", nsOp))
			ours := µs(q.get("pin.Train", params, nsOp))
			for _, mode := range []string{"graph", "compile", "eager"} {
				t.compare(model+", batch "+batch+", "+mode, ours, theirs(mode, "loader"), true, duration)
			}
			t.compare(model+", batch "+batch+", a graph without a loader, where ours has one", ours, theirs("graph", "pinned"), true, duration)
			for i, v := range []value{
				ours, theirs("graph", "pinned"), theirs("graph", "loader"), theirs("compile", "loader"), theirs("eager", "loader"), tape,
			} {
				row = append(row, duration(v))
				t.chart.series[i].add(float64(len(t.rows)), v)
			}
			t.chart.categories = append(t.chart.categories, model+", "+batch)
			t.rows = append(t.rows, row)
		}
	}
	return t.compact(2)
}

// example is what examples/mnist says of itself.
func example(q *query) *table {
	const bench = "mnist.Train"
	t := &table{title: "examples/mnist, 3 epochs", header: []string{"network", "batch", "from the start to ready", "a step", "test accuracy"}}
	for _, model := range q.values(bench, "", "model") {
		for _, batch := range q.values(bench, "model="+model, "batch") {
			get := func(unit string) value { return q.get(bench, "model="+model+"/batch="+batch, unit) }
			t.rows = append(t.rows, []string{model, batch, duration(get("s").times(1e6)), duration(get("us")), accuracy(get("%-accuracy"))})
		}
	}
	return t.compact(2)
}

func accuracy(v value) string {
	if !v.ok {
		return absent
	}
	return strconv.FormatFloat(v.v, 'f', 2, 64) + " %"
}

// torchStep is the time of PyTorch's step with the faster of its forms of gradient descent.
func torchStep(q *query, params string) value {
	var all []value
	for _, sgd := range q.values("torch.train", params, "sgd") {
		all = append(all, q.get("torch.train", params+"/sgd="+sgd, "us"))
	}
	return least(all...)
}

// stepModel is what devicevm's benchmarks call BenchmarkTrain's networks.
var stepModel = map[string]string{"mlp": "mlp", "cnn": "convnet"}

func kernels(q *query) *table {
	t := &table{title: "Kernels a step", header: []string{"network", "batch", "kernels, copies and clearings a step"}}
	for _, model := range []string{"mlp", "cnn"} {
		for _, batch := range q.values("devicevm.Step", "model="+stepModel[model], "batch") {
			v := q.get("devicevm.Step", "model="+stepModel[model]+"/batch="+batch+"/vm=device/feed=batch/read=100", "launches")
			t.rows = append(t.rows, []string{model, batch, figure(v)})
		}
	}
	return t.compact(2)
}

// curves returns the table of a network's losses, one row for each that trained it: the losses are for the plot.
func curves(name, title string) func(q *query) *table {
	return func(q *query) *table {
		c := q.run.curves[name]
		if c == nil {
			return nil
		}
		t := &table{title: title, header: []string{"", "first loss", "last loss", "steps", "largest distance to the first row's"}, chart: &chart{xlabel: "step", ylabel: "loss"}}
		for i, name := range c.names {
			losses, apart := c.losses[i], 0.0
			line := series{name: name, thin: true}
			for k, x := range c.steps {
				line.add(x, value{losses[k], true})
				apart = max(apart, math.Abs(losses[k]-c.losses[0][k]))
			}
			t.chart.series = append(t.chart.series, line)
			t.rows = append(t.rows, []string{name, figure(value{losses[0], true}), figure(value{losses[len(losses)-1], true}),
				thousands(int64(len(losses))), strconv.FormatFloat(apart, 'g', 2, 64)})
		}
		q.note(c.command)
		return t
	}
}
