package main

// What this module is meant to reach on an H200, and what it does.

import "fmt"

// A target is reached by a figure that is at most, or at least, a bound.
type target struct {
	what    string
	bound   float64
	atLeast bool
	format  func(value) string
	ours    func(q *query) value
	torch   func(q *query) value // the same of PyTorch; nil: there is nothing like it
}

func targets() []target {
	get := func(bench, params, unit string, factor float64) func(*query) value {
		return func(q *query) value { return q.get(bench, params, unit).times(factor) }
	}
	mostOf := func(bench, params, over, unit string, factor float64) func(*query) value {
		return func(q *query) value {
			v, _ := q.best(bench, params, over, unit)
			return v.times(factor)
		}
	}
	ofRaw := func(ours, size, direction string) func(*query) value {
		return func(q *query) value {
			params := "size=" + size
			if v := q.get("asynccopy.OfRaw", params+"/direction="+direction, "of-raw"); v.ok {
				return v // both in turn, which is more exact
			}
			return q.get(ours, params+"/mem=pinned", mbS).over(q.get("asynccopy.Raw", params+"/direction="+direction, mbS))
		}
	}
	gbs := func(v value) string {
		if !v.ok {
			return absent
		}
		return figure(v) + " GB/s"
	}
	all := []target{
		{"pinning 1 GiB for the first time", 80e3, false, duration,
			func(q *query) value {
				return least(q.get("pin.Empty", "cache=cold/size=1GiB", nsOp), q.get("pin.New", "cache=cold/size=1GiB", nsOp)).times(1e-3)
			},
			func(q *query) value {
				var all []value
				for _, conf := range q.values("torch.pin_cold", "", "conf") {
					all = append(all, q.get("torch.pin_cold", "size=1GiB/call=empty/conf="+conf, "us"))
				}
				return least(all...)
			}},
		{"`New` and `Release` from the cache, 1 goroutine", 0.5, false, duration,
			get("pintensor.NewReleaseParallel", "goroutines=1", nsOp, 1e-3), get("torch.pin_threads", "threads=1", "ns", 1e-3)},
		{"`New` and `Release` a second, 16 goroutines", 4e6, true, rate,
			func(q *query) value {
				return q.get("pintensor.NewReleaseParallel", "goroutines=16", nsOp).times(1e-9).inverse()
			},
			func(q *query) value { return q.get("torch.pin_threads", "threads=16", "ns").times(1e-9).inverse() }},
		{"pinned memory lent beyond what was asked, at most", 0.125, false, percent,
			func(q *query) (most value) {
				for _, l := range q.values("pintensor.Waste", "", "list") {
					if v := q.get("pintensor.Waste", "list="+l, "%waste").times(0.01); v.ok && (!most.ok || v.v > most.v) {
						most = v
					}
				}
				return most
			}, nil},
		{"`Pin`, 256 MiB", 30, true, gbs,
			func(q *query) value {
				v, _ := q.best("pintensor.Pin", "size=256MiB", "threads", mbS)
				return v.times(1e-3)
			},
			func(q *query) value {
				return q.get("torch.pin_warm", "size=256MiB/call=pin_memory", "us").times(1e-6).inverse().times(float64(256<<20) / 1e9)
			}},
	}
	for _, d := range []struct{ call, bench, direction, torch string }{
		{"ToDevice", "asynccopy.ToDevice", "in", "direction=in/mem=pinned/call=copy_"},
		{"ToHost", "asynccopy.ToHost", "out", "direction=out/mem=pinned/call=copy_"},
	} {
		for _, s := range []struct {
			size  string
			bound float64
		}{{"1MiB", 0.9}, {"16MiB", 0.98}} {
			all = append(all, target{fmt.Sprintf("`%s`, pinned, %s, of the driver's own call", d.call, sizeText(s.size)), s.bound, true, percent,
				ofRaw(d.bench, s.size, d.direction),
				func(q *query) value {
					return q.get("torch.copy", "size="+s.size+"/"+d.torch, "GB/s").times(1e3).over(q.get("asynccopy.Raw", "size="+s.size+"/direction="+d.direction, mbS))
				}})
		}
	}
	all = append(all,
		target{"`ToDevice`, non-blocking, 4 KiB pinned, with its event", 4, false, duration,
			get("asynccopy.Issue", "call=ToDevice/size=4KiB/mem=pinned/form=burst", nsOp, 1e-3), get("torch.issue", "call=to/event=true/form=burst", "us", 1)},
		target{"`ToDevice`, pageable, 256 MiB", 40, true, gbs,
			get("pin.ToDevice", "size=256MiB/mem=pageable", mbS, 1e-3), get("torch.copy", "size=256MiB/direction=in/mem=pageable/call=to", "GB/s", 1)},
		target{"`ToHost`, pageable, 256 MiB", 40, true, gbs,
			get("pin.ToHost", "size=256MiB/mem=pageable", mbS, 1e-3), get("torch.copy", "size=256MiB/direction=out/mem=pageable/call=copy_", "GB/s", 1)},
		target{"copy in, kernel and copy out, 16 MiB, of the longest", 1.1, false, figure,
			get("asynccopy.Overlap", "size=16MiB/kernel=1x", "x-longest", 1), get("torch.overlap", "size=16MiB/kernel=1x/batches=4", "x-longest", 1)},
		target{"1,000 tensors of 4 KiB to the device", 1000, false, duration,
			get("asynccopy.Batch", "mem=pinned/call=ToDeviceBatch", nsOp, 1e-3),
			func(q *query) value {
				return least(q.get("torch.many", "mem=pinned/call=each", "us"), q.get("torch.many", "mem=pinned/call=stack", "us"))
			}},
	)
	for _, b := range []struct {
		batch string
		bound float64
	}{{"64", 4e6}, {"256", 9e6}, {"1024", 10e6}} {
		all = append(all, target{"MNIST float32 to the device, batch " + b.batch + ", samples a second", b.bound, true, rate,
			mostOf("dataloader.LoaderToDevice", "batch="+b.batch, "workers", samplesS, 1),
			func(q *query) value {
				v, _ := q.best("torch.load", "batch="+b.batch+"/kind=batch-float32", "workers", samplesS)
				return v
			}})
		all = append(all, target{"MNIST's bytes, normalised on the way, batch " + b.batch + ", samples a second", b.bound, true, rate,
			mostOf("pin.Loader", "batch="+b.batch+"/dest=device", "workers", samplesS, 1),
			func(q *query) value {
				v, _ := q.best("torch.load", "batch="+b.batch+"/kind=batch", "workers", samplesS)
				return v
			}})
	}
	all = append(all,
		target{"handing a batch over: a turn of a loop whose batch is ready", 1, false, duration, get("dataloader.Turn", "", "ns/turn", 1e-3), nil},
	)
	for _, b := range []string{"16", "64", "256", "1024"} {
		all = append(all, target{"the loader, 1 worker, of a gather loop by hand, host, batch " + b, 0.9, true, percent,
			func(q *query) value {
				return q.get("dataloader.BesideGather", "batch="+b, "x-gather").inverse()
			}, nil})
	}
	for _, s := range []struct {
		name, model, batch string
		bound              float64
	}{{"MLP", "mlp", "64", 70}, {"MLP", "mlp", "256", 85}, {"CNN", "cnn", "64", 400}, {"CNN", "cnn", "256", 800}} {
		all = append(all, target{s.name + ", a step with loader and copies, batch " + s.batch, s.bound, false, duration,
			get("pin.Train", "model="+s.model+"/batch="+s.batch, nsOp, 1e-3),
			func(q *query) value {
				params := "model=" + s.model + "/batch=" + s.batch
				return least(torchStep(q, params+"/mode=graph/feed=loader"), torchStep(q, params+"/mode=compile/feed=loader"), torchStep(q, params+"/mode=eager/feed=loader"))
			}})
	}
	for _, s := range []struct {
		name, model string
		bound       float64
	}{{"MLP", "mlp", 97}, {"CNN", "convnet", 98.5}} {
		all = append(all, target{s.name + " on MNIST, test accuracy after 3 epochs", s.bound, true, accuracy,
			get("mnist.Train", "model="+s.model+"/batch=64", "%-accuracy", 1), nil})
	}
	for _, s := range []struct{ name, model string }{{"MLP", "mlp"}, {"CNN", "convnet"}} {
		all = append(all, target{s.name + ", from the start to the end of the first step, with no kernel in the driver's cache", 2e6, false, duration,
			get("devicevm.Start", "model="+s.model, nsOp, 1e-3), nil})
	}
	return all
}

// verdict says whether a target is met, and if not how much of it is missing.
func (t target) verdict(v value) string {
	bound := value{t.bound, true}
	switch {
	case !v.ok:
		return "not measured"
	case t.atLeast && v.v >= t.bound, !t.atLeast && v.v <= t.bound:
		return "met"
	case t.atLeast:
		return fmt.Sprintf("%.0f %% short", 100*(1-v.over(bound).v))
	}
	return fmt.Sprintf("%.0f %% over", 100*(v.over(bound).v-1))
}

// limit writes the bound.
func (t target) limit() string {
	sign := "≤ "
	if t.atLeast {
		sign = "≥ "
	}
	return sign + t.format(value{t.bound, true})
}

// targetTable has a row for each target, also for those that were not measured.
func targetTable(q *query) *table {
	t := &table{title: "Targets", header: []string{"", "target", "measured", "", "PyTorch, at its best"}}
	measured := false
	for _, target := range targets() {
		v, theirs := target.ours(q), absent
		measured = measured || v.ok
		if target.torch != nil {
			theirs = target.format(target.torch(q))
		}
		t.rows = append(t.rows, []string{target.what, target.limit(), target.format(v), target.verdict(v), theirs})
	}
	if !measured {
		return nil
	}
	q.commands = []string{"docs/benchmarks/run.sh OUT"}
	return t
}

// summary is for the README.
func summary(q *query) *table {
	t := &table{title: "Summary", header: []string{"", "here", "PyTorch, at its best"}}
	all := map[string]target{}
	for _, target := range targets() {
		all[target.what] = target
	}
	for _, row := range []struct{ what, target string }{
		{"pin 1 GiB for the first time", "pinning 1 GiB for the first time"},
		{"256 MiB from ordinary memory to the GPU", "`ToDevice`, pageable, 256 MiB"},
		{"issue a copy of 4 KiB, with an event", "`ToDevice`, non-blocking, 4 KiB pinned, with its event"},
		{"MNIST to the GPU, batches of 256, samples a second", "MNIST float32 to the device, batch 256, samples a second"},
		{"train an MLP, a step of 64, loader included", "MLP, a step with loader and copies, batch 64"},
		{"train a CNN, a step of 64, loader included", "CNN, a step with loader and copies, batch 64"},
	} {
		target, ok := all[row.target]
		if !ok {
			continue
		}
		theirs := absent
		if target.torch != nil {
			theirs = target.format(target.torch(q))
		}
		t.rows = append(t.rows, []string{row.what, target.format(target.ours(q)), theirs})
	}
	q.commands = []string{"docs/benchmarks/run.sh OUT"}
	return t.compact(1)
}
