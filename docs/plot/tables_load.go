package main

// Tables of the loader.

import "strings"

const samplesS = "samples/s"

// workersOf are the settings that were measured, without the one that the loader finds.
func workersOf(q *query, bench, params string) []string {
	var all []string
	for _, w := range q.values(bench, params, "workers") {
		if w != "0" && w != "auto" {
			all = append(all, w)
		}
	}
	return all
}

// automatic is the figure of the setting that the loader finds.
func automatic(q *query, bench, params, unit string) value {
	if v := q.get(bench, params+"/workers=0", unit); v.ok {
		return v
	}
	return q.get(bench, params+"/workers=auto", unit)
}

func loadWorkers(q *query) *table {
	t := &table{title: "MNIST to the device by workers, samples a second", header: []string{"batch", "data in memory"},
		chart: &chart{xlabel: "workers", ylabel: "million samples a second"}}
	workers := workersOf(q, "pin.Loader", "dest=device")
	t.header = append(append(t.header, workers...), "as the loader finds")
	for _, batch := range q.values("pin.Loader", "", "batch") {
		for _, kind := range []struct{ name, bench, params string }{
			{"uint8, normalised on the way", "pin.Loader", "batch=" + batch + "/dest=device"},
			{"float32", "dataloader.LoaderToDevice", "batch=" + batch},
		} {
			row, line := []string{batch, kind.name}, series{name: batch + ", " + strings.Split(kind.name, ",")[0]}
			for _, w := range workers {
				v := q.get(kind.bench, kind.params+"/workers="+w, samplesS)
				row = append(row, rate(v))
				line.add(number(w), v.times(1e-6))
			}
			t.rows = append(t.rows, append(row, rate(automatic(q, kind.bench, kind.params, samplesS))))
			t.chart.series = append(t.chart.series, line)
		}
	}
	return t.compact(2)
}

// loadPeers sets the best of either side beside each other, whatever the number of workers.
func loadPeers(q *query) *table {
	t := &table{title: "MNIST to the device, the best number of workers", header: []string{"batch",
		"uint8", "PyTorch uint8, a batch a call", "PyTorch uint8, a sample a call", "float32", "PyTorch float32, a batch a call"},
		chart: &chart{ylabel: "million samples a second", bars: true}}
	names := []string{"uint8", "PyTorch, uint8, a batch a call", "PyTorch, uint8, a sample a call", "float32", "PyTorch, float32, a batch a call"}
	for _, n := range names {
		t.chart.series = append(t.chart.series, series{name: n})
	}
	for _, batch := range q.values("pin.Loader", "", "batch") {
		row := []string{batch}
		t.chart.categories = append(t.chart.categories, "batch "+batch)
		var ours value
		for i, side := range []struct{ bench, params string }{
			{"pin.Loader", "dest=device"},
			{"torch.load", "kind=batch"},
			{"torch.load", "kind=sample"},
			{"dataloader.LoaderToDevice", ""},
			{"torch.load", "kind=batch-float32"},
		} {
			v, workers := q.best(side.bench, "batch="+batch+"/"+side.params, "workers", samplesS)
			if side.bench != "torch.load" {
				ours = v
				if workers == "0" {
					workers = "auto"
				}
			} else {
				t.compare("batch "+batch+", "+names[i], ours, v, false, rate)
			}
			row = append(row, at(rate(v), workers, ""))
			t.chart.series[i].add(float64(len(t.rows)), v.times(1e-6))
		}
		t.rows = append(t.rows, row)
	}
	return t.compact(1)
}

func loadHost(q *query) *table {
	t := &table{title: "The loader beside a loop that gathers by hand, on the host, samples a second",
		header: []string{"batch", "data in memory", "a loop by hand", "loader, 1 worker", "loader, best"}}
	for _, kind := range []struct{ name, gather, loader, gatherParams, loaderParams string }{
		{"uint8, normalised on the way", "pin.GatherLoop", "pin.Loader", "", "dest=host"},
		{"float32", "dataloader.Loader", "dataloader.Loader", "mode=gather", "mode=loader"},
	} {
		for _, batch := range q.values(kind.loader, kind.loaderParams, "batch") {
			loop := q.get(kind.gather, "batch="+batch+"/"+kind.gatherParams, samplesS)
			one := q.get(kind.loader, "batch="+batch+"/"+kind.loaderParams+"/workers=1", samplesS)
			best, workers := q.best(kind.loader, "batch="+batch+"/"+kind.loaderParams, "workers", samplesS)
			if workers == "0" {
				workers = "auto"
			}
			t.rows = append(t.rows, []string{batch, kind.name, rate(loop), rate(one), at(rate(best), workers, "")})
		}
	}
	return t.compact(2)
}

// loadGather sets the loader beside the loop by hand where both were measured in turn.
func loadGather(q *query) *table {
	t := &table{title: "The loader with one worker beside a loop that gathers by hand, on the host, in turn, samples a second",
		header: []string{"batch", "data in memory", "a loop by hand", "loader, 1 worker", "of the loop"}}
	if len(q.values("pin.BesideGather", "", "batch")) == 0 {
		return nil // a run of before there was one
	}
	for _, kind := range []struct{ name, bench, params string }{
		{"uint8, normalised by `Read`", "pin.BesideGather", "read=sample"},
		{"uint8, normalised by `ReadBatch`", "pin.BesideGather", "read=batch"},
		{"uint8, normalised by a `Map` over tensors", "pin.BesideGather", "read=map"},
		{"float32", "dataloader.BesideGather", ""},
	} {
		for _, batch := range q.values(kind.bench, kind.params, "batch") {
			params := "batch=" + batch + "/" + kind.params
			loader, times := q.get(kind.bench, params, samplesS), q.get(kind.bench, params, "x-gather")
			t.rows = append(t.rows, []string{batch, kind.name, rate(loader.over(times.inverse())), rate(loader), percent(times.inverse())})
		}
	}
	return t.compact(2)
}

// loadCPU is the loader by workers where there is no GPU.
func loadCPU(q *query) *table {
	t := &table{title: "The loader on the host by workers, samples a second", header: []string{"batch", "data in memory"}}
	workers := workersOf(q, "dataloader.Loader", "mode=loader")
	t.header = append(append(t.header, workers...), "as the loader finds", "a loop by hand")
	for _, kind := range []struct{ name, bench, params, gather, gatherParams string }{
		{"uint8, normalised on the way", "pin.Loader", "dest=host", "pin.GatherLoop", ""},
		{"float32", "dataloader.Loader", "mode=loader", "dataloader.Loader", "mode=gather"},
	} {
		for _, batch := range q.values(kind.bench, kind.params, "batch") {
			params := "batch=" + batch + "/" + kind.params
			row := []string{batch, kind.name}
			for _, w := range workers {
				row = append(row, rate(q.get(kind.bench, params+"/workers="+w, samplesS)))
			}
			t.rows = append(t.rows, append(row, rate(automatic(q, kind.bench, params, samplesS)),
				rate(q.get(kind.gather, "batch="+batch+"/"+kind.gatherParams, samplesS))))
		}
	}
	return t.compact(2)
}

func images(q *query) *table {
	const bench, unit = "dataloader/imagefolder.Loader", "images/s"
	t := &table{title: "A folder of JPEGs, decoded, cropped, resized and normalised, images a second",
		header: []string{"workers", "`imagefolder`", "with libjpeg-turbo", "torchvision"}, chart: &chart{xlabel: "workers", ylabel: "images a second"}}
	ours, turbo, theirs := series{name: "imagefolder"}, series{name: "imagefolder, libjpeg-turbo"}, series{name: "torchvision"}
	for _, w := range q.values(bench, "", "workers") {
		v, u, p := q.get(bench, "workers="+w, unit), q.get(bench, "workers="+w+"/jpeg=turbo", unit), q.get("torch.images", "workers="+w, unit)
		t.compare(w+" workers", v, p, false, figure)
		t.compare(w+" workers, libjpeg-turbo", u, p, false, figure)
		t.rows = append(t.rows, []string{w, figure(v), figure(u), figure(p)})
		ours.add(number(w), v)
		turbo.add(number(w), u)
		theirs.add(number(w), p)
	}
	t.chart.series = []series{ours, theirs}
	if len(turbo.x) > 0 {
		t.chart.series = []series{ours, turbo, theirs}
	}
	return t.compact(1)
}

func tuning(q *query) *table {
	const bench = "dataloader.Tuning"
	t := &table{title: "What the loader finds by itself, samples a second", header: []string{"load"}}
	workers := workersOf(q, bench, "")
	for _, w := range workers {
		t.header = append(t.header, w+" workers")
	}
	t.header = append(t.header, "found by itself", "of the best")
	for _, load := range q.values(bench, "", "load") {
		row := []string{strings.ReplaceAll(load, "-", " ")}
		var best value
		for _, w := range workers {
			v := q.get(bench, "load="+load+"/workers="+w, samplesS)
			row = append(row, rate(v))
			if v.ok && (!best.ok || v.v > best.v) {
				best = v
			}
		}
		found := automatic(q, bench, "load="+load, samplesS)
		with := q.get(bench, "load="+load+"/workers=auto", "workers")
		t.rows = append(t.rows, append(row, at(rate(found), figure0(with), " workers"), percent(found.over(best))))
	}
	return t.compact(1)
}

// figure0 writes a whole number.
func figure0(v value) string {
	if !v.ok {
		return ""
	}
	return thousands(int64(v.v + 0.5))
}
