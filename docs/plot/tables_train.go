package main

// Tables of training.

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
			theirs := func(mode, feed string) value { return q.get("torch.train", params+"/mode="+mode+"/feed="+feed, "us") }
			row := []string{model, batch}
			tape := value{}
			if model == "mlp" { // BenchmarkStep's CNN is a smaller one
				tape = µs(q.get("devicevm.Step", params+"/vm=tape", nsOp))
			}
			for i, v := range []value{
				µs(q.get("pin.Train", params, nsOp)), theirs("graph", "pinned"), theirs("graph", "loader"), theirs("compile", "loader"), theirs("eager", "loader"), tape,
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

func kernels(q *query) *table {
	t := &table{title: "Kernels a step", header: []string{"network", "batch", "kernels"}}
	for _, bench := range []string{"pin.Train", "devicevm.Step"} {
		for _, model := range q.values(bench, "", "model") {
			for _, batch := range q.values(bench, "model="+model, "batch") {
				v := q.get(bench, "model="+model+"/batch="+batch, "kernels")
				if !v.ok {
					v = q.get(bench, "model="+model+"/batch="+batch+"/vm=device", "kernels")
				}
				t.rows = append(t.rows, []string{model, batch, figure(v)})
			}
		}
		if t := t.compact(2); t != nil {
			return t
		}
	}
	return nil
}

// curves has one row a name: the losses are for the plot.
func curves(q *query) *table {
	c := q.run.curve
	if c == nil {
		return nil
	}
	t := &table{title: "The loss, step by step", header: []string{"", "first loss", "last loss", "steps"},
		chart: &chart{xlabel: "step", ylabel: "loss"}}
	for i, name := range c.names {
		losses := c.losses[i]
		t.rows = append(t.rows, []string{name, figure(value{losses[0], true}), figure(value{losses[len(losses)-1], true}), thousands(int64(len(losses)))})
		line := series{name: name, thin: true}
		for k, x := range c.steps {
			line.add(x, value{losses[k], true})
		}
		t.chart.series = append(t.chart.series, line)
	}
	q.note(c.command)
	return t
}
