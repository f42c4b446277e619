package main

// Tables of copies.

// raw is the driver's own copy from page-locked memory, with a wait for each.
func raw(q *query, direction string) func(string) value {
	return of(q, "asynccopy.Raw", "direction="+direction, mbS, 1e-3)
}

func torchCopy(q *query, direction, mem, call string) func(string) value {
	return of(q, "torch.copy", "direction="+direction+"/mem="+mem+"/call="+call, "GB/s", 1)
}

func hostToDevice(q *query) *table {
	return bySize(q, "Host to device, GB/s", "GB/s", false, figure, q.sizes("pin.ToDevice", "asynccopy.ToDevice"), []column{
		{"the driver", raw(q, "in")},
		{"pinned, `ToDeviceInto`", of(q, "asynccopy.ToDevice", "mem=pinned", mbS, 1e-3)},
		{"PyTorch, `copy_`", torchCopy(q, "in", "pinned", "copy_")},
		{"pinned, `ToDevice`", of(q, "pin.ToDevice", "mem=pinned", mbS, 1e-3)},
		{"PyTorch, `to`", torchCopy(q, "in", "pinned", "to")},
		{"pageable, `ToDevice`", of(q, "pin.ToDevice", "mem=pageable", mbS, 1e-3)},
		{"PyTorch, pageable, `to`", torchCopy(q, "in", "pageable", "to")},
		{"PyTorch, `pin_memory().to`", torchCopy(q, "in", "pageable", "pin_memory().to")},
	})
}

func deviceToHost(q *query) *table {
	return bySize(q, "Device to host, GB/s", "GB/s", false, figure, q.sizes("pin.ToHost", "asynccopy.ToHost"), []column{
		{"the driver", raw(q, "out")},
		{"pinned, `ToHostInto`", either(of(q, "pin.ToHost", "mem=pinned", mbS, 1e-3), of(q, "asynccopy.ToHost", "mem=pinned", mbS, 1e-3))},
		{"PyTorch, pinned, `copy_`", torchCopy(q, "out", "pinned", "copy_")},
		{"pageable, `ToHostInto`", either(of(q, "pin.ToHost", "mem=pageable", mbS, 1e-3), of(q, "asynccopy.ToHost", "mem=pageable", mbS, 1e-3))},
		{"PyTorch, pageable, `copy_`", torchCopy(q, "out", "pageable", "copy_")},
		{"PyTorch, `cpu`", torchCopy(q, "out", "pageable", "cpu")},
	})
}

// either is the first that was measured.
func either(all ...func(string) value) func(string) value {
	return func(size string) (v value) {
		for _, get := range all {
			if v = get(size); v.ok {
				return v
			}
		}
		return v
	}
}

func issueCost(q *query) *table {
	t := &table{title: "What a call that does not block takes, 4 KiB", header: []string{"call", "pinned", "pinned, in a loop", "pageable", "pageable, in a loop"}}
	for _, c := range []struct{ name, call string }{
		{"`ToDevice` and its event, and `Release`", "ToDevice"},
		{"`ToDeviceInto` and its event", "ToDeviceInto"},
		{"the driver's copy and event", "raw"},
	} {
		get := func(mem, form string) string {
			return duration(µs(q.get("asynccopy.Issue", "call="+c.call+"/size=4KiB/mem="+mem+"/form="+form, nsOp)))
		}
		t.rows = append(t.rows, []string{c.name, get("pinned", "burst"), get("pinned", "loop"), get("pageable", "burst"), get("pageable", "loop")})
	}
	for i, call := range []string{"to", "copy_"} {
		ours := []string{"ToDevice", "ToDeviceInto"}[i]
		for _, form := range []string{"burst", "loop"} {
			t.compare("`"+ours+"` and `"+call+"`, with an event, in a "+form, µs(q.get("asynccopy.Issue", "call="+ours+"/size=4KiB/mem=pinned/form="+form, nsOp)),
				q.get("torch.issue", "call="+call+"/event=true/form="+form, "us"), true, duration)
		}
	}
	for _, call := range []string{"to", "copy_"} {
		name := "PyTorch `" + call + "(non_blocking=True)`"
		for _, event := range []string{"false", "true"} {
			if event == "true" {
				name += " and an event"
			}
			get := func(form string) string {
				return duration(q.get("torch.issue", "call="+call+"/event="+event+"/form="+form, "us"))
			}
			t.rows = append(t.rows, []string{name, get("burst"), get("loop"), absent, absent})
		}
	}
	return t.compact(1)
}

func bothWays(q *query) *table {
	return bySize(q, "Both ways at once, GB/s together", "GB/s", false, figure, q.sizes("asynccopy.BothWays"), []column{
		{"pinned", of(q, "asynccopy.BothWays", "mem=pinned", mbS, 1e-3)},
		{"PyTorch, pinned", of(q, "torch.both_ways", "mem=pinned", "GB/s", 1)},
		{"pageable", of(q, "asynccopy.BothWays", "mem=pageable", mbS, 1e-3)},
		{"PyTorch, pageable", of(q, "torch.both_ways", "mem=pageable", "GB/s", 1)},
	})
}

func manySmall(q *query) *table {
	t := &table{title: "1,000 tensors of 4 KiB to the device", header: []string{"memory", "`ToDeviceBatch`", "`ToDevice` of each", "PyTorch, `stack` and `to`", "PyTorch, `to` of each"}}
	for _, mem := range []string{"pinned", "pageable"} {
		ours := func(call string) value { return µs(q.get("asynccopy.Batch", "mem="+mem+"/call="+call, nsOp)) }
		theirs := func(call string) value { return q.get("torch.many", "mem="+mem+"/call="+call, "us") }
		t.compare(mem, ours("ToDeviceBatch"), least(theirs("stack"), theirs("each")), true, duration)
		t.rows = append(t.rows, []string{mem, duration(ours("ToDeviceBatch")), duration(ours("ToDevice")), duration(theirs("stack")), duration(theirs("each"))})
	}
	return t.compact(1)
}

func overlapped(q *query) *table {
	const bench, unit = "asynccopy.Overlap", "x-longest"
	t := &table{title: "Copy in, kernel, copy out: the whole over the longest of the three",
		header: []string{"batch", "the kernel takes, of a copy's time", "the whole", "PyTorch", "over the longest with both copies at once"}}
	for _, size := range q.sizes(bench) {
		for _, kernel := range q.values(bench, "size="+size, "kernel") {
			params := "size=" + size + "/kernel=" + kernel
			theirs := q.get("torch.overlap", params+"/batches=4", unit) // four are on the device at a time in ours
			t.compare("batches of "+sizeText(size)+", kernel "+kernel, q.get(bench, params, unit), theirs, true, figure)
			t.rows = append(t.rows, []string{sizeText(size), kernel,
				figure(q.get(bench, params, unit)), figure(theirs), figure(q.get(bench, params, "x-limit"))})
		}
	}
	return t.compact(2)
}

func peerCopies(q *query) *table {
	if number(q.run.facts["gpus"]) < 2 {
		return nil
	}
	return bySize(q, "From one GPU to another, GB/s", "GB/s", false, figure, q.sizes("asynccopy.Peer"), []column{
		{"`CopyInto`", of(q, "asynccopy.Peer", "", mbS, 1e-3)},
		{"PyTorch `copy_`", of(q, "torch.peer", "", "GB/s", 1)},
	})
}

func bothDevices(q *query) *table {
	if number(q.run.facts["gpus"]) < 2 {
		return nil
	}
	const bench = "asynccopy.Devices"
	t := &table{title: "Feeding two GPUs at once, GB/s", header: []string{"memory", "one GPU", "two GPUs"}}
	for _, mem := range q.values(bench, "", "mem") {
		t.rows = append(t.rows, []string{mem, figure(q.get(bench, "mem="+mem+"/devices=1", mbS).times(1e-3)), figure(q.get(bench, "mem="+mem+"/devices=2", mbS).times(1e-3))})
	}
	return t.compact(1)
}

// whenToPin are ways to bring a batch that is in ordinary memory to the device, PyTorch's below ours.
func whenToPin(q *query) *table {
	const bench, torch = "pin.Pattern", "torch.pattern"
	sizes := q.sizes(bench)
	t := &table{title: "Ways to the device, GB/s", header: []string{"pattern"}, chart: &chart{xlabel: "size", ylabel: "GB/s", logX: true}}
	for _, s := range sizes {
		t.header = append(t.header, sizeText(s))
	}
	for _, pattern := range q.values(bench, "", "pattern") {
		for _, s := range sizes {
			t.compare(pattern+", "+sizeText(s), of(q, bench, "pattern="+pattern, mbS, 1e-3)(s), of(q, torch, "pattern="+pattern, "GB/s", 1)(s), false, figure)
		}
		for _, side := range []struct {
			name string
			get  func(size string) value
		}{
			{pattern, of(q, bench, "pattern="+pattern, mbS, 1e-3)},
			{"PyTorch, " + pattern, of(q, torch, "pattern="+pattern, "GB/s", 1)},
		} {
			row, line := []string{side.name}, series{name: side.name}
			for _, s := range sizes {
				v := side.get(s)
				row = append(row, figure(v))
				line.add(sizeBytes(s), v)
			}
			t.rows = append(t.rows, row)
			t.chart.series = append(t.chart.series, line)
		}
	}
	return t.compact(1)
}
