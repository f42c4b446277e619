"""What PyTorch takes for the work that this module's benchmarks do, on the machine that they run on.

    python3 torch_baseline.py pin|cold|copy|peer|load|train|compile...

prints one JSON object a line: "bench" says what was measured, "value" and "unit" the figure, everything else under
which conditions. PyTorch's defaults stay as they are unless a line says otherwise; where there are several ways to
do something, the faster ones are measured too. Data is made up, in MNIST's size and shape: what is in it does not
matter here. Needs a GPU, torch and numpy.
"""

import json
import os
import statistics
import sys
import threading
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
GPU = torch.device("cuda")


def report(bench, value, unit, **conditions):
    print(json.dumps({"peer": f"torch {torch.__version__}", "bench": bench, **conditions, "value": value, "unit": unit}), flush=True)


def seconds(work, repeat, before=None, warm_up=2):
    """The median time of work, after warm_up runs that don't count; before is run ahead of each, and not timed."""
    times = []
    for i in range(warm_up + repeat):
        if before:
            before()
        start = time.perf_counter()
        work()
        if i >= warm_up:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def finished(work):
    """work, and a wait for all that it left the GPU to do."""

    def run():
        work()
        torch.cuda.synchronize()

    return run


def times_for(size):
    """How often to repeat what takes longer the larger size is."""
    return 300 if size <= MiB else 30 if size <= 16 * MiB else 7


def filled(size):
    return torch.arange(size, dtype=torch.uint8)


# Pinned memory


def cold():
    """Memory that PyTorch's cache does not have. Once with its defaults, and again as a process of its own with
    PYTORCH_CUDA_ALLOC_CONF, see run.sh: "conf" says which."""
    conf = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "default")
    empty_cache = getattr(torch._C, "_host_emptyCache", None)  # all that there is to give pinned memory back
    torch.empty(1, pin_memory=True)
    for size in (4 * KiB, 64 * KiB, MiB, 16 * MiB, 256 * MiB, GiB):
        src = filled(size)
        # With no way to empty the cache only the first of each size is cold.
        repeat = 1 if empty_cache is None else 15 if size <= 16 * MiB else 3
        for call, work in (("empty", lambda: torch.empty(size, dtype=torch.uint8, pin_memory=True)), ("pin_memory", src.pin_memory)):
            if empty_cache is None and call == "empty":
                continue
            report("pin_cold", seconds(work, repeat, before=empty_cache, warm_up=0) * 1e6, "us", call=call, bytes=size, conf=conf)


def pin():
    for size in (KiB, 4 * KiB, 64 * KiB, MiB, 16 * MiB, 256 * MiB):
        src = filled(size)
        for call, work in (
            ("empty", lambda: torch.empty(size, dtype=torch.uint8, pin_memory=True)),
            ("zeros", lambda: torch.zeros(size, dtype=torch.uint8, pin_memory=True)),
            ("pin_memory", src.pin_memory),
        ):
            report("pin_warm", seconds(work, times_for(size)) * 1e6, "us", call=call, bytes=size)
    # From Python threads, which take turns: there is no other way to call it from a program.
    for threads in (1, 4, 16):
        each = 40000 // threads
        ready = threading.Barrier(threads + 1)

        def lend():
            ready.wait()
            for _ in range(each):
                torch.empty(16, 16, pin_memory=True)

        pool = [threading.Thread(target=lend) for _ in range(threads)]
        for t in pool:
            t.start()
        ready.wait()
        start = time.perf_counter()
        for t in pool:
            t.join()
        report("pin_threads", (time.perf_counter() - start) / (each * threads) * 1e9, "ns", threads=threads, bytes=KiB)


# Copies


def bandwidth():
    for size in (4 * KiB, 64 * KiB, MiB, 16 * MiB, 128 * MiB, 256 * MiB):
        pageable, pinned = filled(size), filled(size).pin_memory()
        device = pageable.to(GPU)
        for direction, mem, call, work in (
            ("in", "pinned", "to", lambda: pinned.to(GPU, non_blocking=True)),
            ("in", "pinned", "copy_", lambda: device.copy_(pinned, non_blocking=True)),
            ("in", "pageable", "to", lambda: pageable.to(GPU)),
            ("in", "pageable", "copy_", lambda: device.copy_(pageable)),
            ("in", "pageable", "pin_memory().to", lambda: pageable.pin_memory().to(GPU)),
            ("out", "pinned", "copy_", lambda: pinned.copy_(device, non_blocking=True)),
            ("out", "pageable", "cpu", lambda: device.cpu()),
            ("out", "pageable", "copy_", lambda: pageable.copy_(device)),
        ):
            took = seconds(finished(work), times_for(size))
            report("copy", size / 1e9 / took, "GB/s", direction=direction, mem=mem, call=call, bytes=size)
        del pageable, pinned, device


def patterns():
    """Batch after batch from ordinary memory to the GPU, as training loops do it. Where a copy does not block, the one
    before is waited for: two are under way at a time."""
    for size in (4 * KiB, 64 * KiB, MiB, 16 * MiB, 256 * MiB):
        batch, pinned = filled(size), filled(size).pin_memory()
        buffers = [filled(size).pin_memory() for _ in range(2)]
        for pattern, blocking, bring in (
            ("pageable", True, lambda i: batch.to(GPU)),
            ("pageable-nonblocking", False, lambda i: batch.to(GPU, non_blocking=True)),
            ("pin-each", True, lambda i: batch.pin_memory().to(GPU)),
            ("pin-each-nonblocking", False, lambda i: batch.pin_memory().to(GPU, non_blocking=True)),
            ("pinned-buffer", True, lambda i: buffers[0].copy_(batch).to(GPU)),
            ("pinned-buffer-nonblocking", False, lambda i: buffers[i % 2].copy_(batch).to(GPU, non_blocking=True)),
            ("pinned", True, lambda i: pinned.to(GPU)),
            ("pinned-nonblocking", False, lambda i: pinned.to(GPU, non_blocking=True)),
        ):

            def loop(count):
                before = None
                for i in range(count):
                    x = bring(i)
                    if not blocking:
                        copied = torch.cuda.current_stream().record_event()
                        if before:
                            before.synchronize()
                        before = copied
                torch.cuda.synchronize()

            count = times_for(size)
            report("pattern", count * size / 1e9 / seconds(lambda: loop(count), 1, warm_up=1), "GB/s", pattern=pattern, bytes=size)


def issue():
    """What a call takes that does not block. burst: 64 calls on an idle stream are timed, the wait for them is not. loop:
    20,000 calls, and the one wait at their end."""
    stream = torch.cuda.Stream()
    small, into = torch.ones(1024).pin_memory(), torch.empty(1024, device=GPU)
    for call, work in (("to", lambda: small.to(GPU, non_blocking=True)), ("copy_", lambda: into.copy_(small, non_blocking=True))):
        for event in (False, True):

            def calls(count):
                with torch.cuda.stream(stream):
                    for _ in range(count):
                        work()
                        if event:
                            stream.record_event()

            loop = seconds(finished(lambda: calls(20000)), 2, warm_up=1) / 20000
            report("issue", loop * 1e6, "us", call=call, event=event, form="loop", bytes=4 * KiB)
            burst = seconds(lambda: calls(64), 100, before=torch.cuda.synchronize) / 64
            report("issue", burst * 1e6, "us", call=call, event=event, form="burst", bytes=4 * KiB)
    torch.cuda.synchronize()


def both_ways():
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    for size in (MiB, 16 * MiB, 128 * MiB):
        for mem in ("pinned", "pageable"):
            src, dst = filled(size), filled(size)
            if mem == "pinned":
                src, dst = src.pin_memory(), dst.pin_memory()
            x, y = src.to(GPU), src.to(GPU)

            def work():
                with torch.cuda.stream(one):
                    x.copy_(src, non_blocking=True)
                with torch.cuda.stream(other):
                    dst.copy_(y, non_blocking=True)

            report("both_ways", 2 * size / 1e9 / seconds(finished(work), times_for(size)), "GB/s", mem=mem, bytes=size)


def many():
    """1,000 tensors of 4 KiB: each by itself, and stacked in one."""
    for mem in ("pinned", "pageable"):
        all = [filled(4 * KiB) for _ in range(1000)]
        buffer = torch.empty(1000, 4 * KiB, dtype=torch.uint8, pin_memory=True)
        if mem == "pinned":
            all = [t.pin_memory() for t in all]
        for call, work in (
            ("each", lambda: [t.to(GPU, non_blocking=True) for t in all]),
            ("stack", lambda: torch.stack(all, out=buffer).to(GPU, non_blocking=True).unbind()),
        ):
            report("many", seconds(finished(work), 20) * 1e6, "us", mem=mem, call=call, tensors=1000, bytes=4 * KiB)


def overlap():
    """100 batches copied in, worked on by a kernel that waits for some part of what a copy takes, and copied out, on three
    streams, with four batches on the GPU at a time. The figure is the whole over the longest of the three alone."""
    batches, slots = 100, 4
    into, compute, out = (torch.cuda.Stream() for _ in range(3))
    clock = 1.7e9  # cycles a second, about: what the kernel really takes is measured
    for size in (MiB, 16 * MiB):
        src, dst = filled(size).pin_memory(), filled(size).pin_memory()
        x, y = [src.to(GPU) for _ in range(slots)], [src.to(GPU) for _ in range(slots)]

        def alone(stream, work):
            def run():
                with torch.cuda.stream(stream):
                    for i in range(batches):
                        work(i % slots)

            return seconds(finished(run), 3, warm_up=1)

        copies = max(
            alone(into, lambda i: x[i].copy_(src, non_blocking=True)), alone(out, lambda i: dst.copy_(y[i], non_blocking=True))
        )
        for kernel in (0.5, 1, 1.5):
            cycles = int(kernel * copies / batches * clock)
            longest = max(copies, alone(compute, lambda i: torch.cuda._sleep(cycles)))

            def pipeline():
                computed, copied = [None] * slots, [None] * slots
                for i in range(batches):
                    k = i % slots
                    if computed[k]:
                        into.wait_event(computed[k])
                        compute.wait_event(copied[k])
                    with torch.cuda.stream(into):
                        x[k].copy_(src, non_blocking=True)
                    compute.wait_stream(into)
                    with torch.cuda.stream(compute):
                        torch.cuda._sleep(cycles)
                    computed[k] = compute.record_event()
                    out.wait_event(computed[k])
                    with torch.cuda.stream(out):
                        dst.copy_(y[k], non_blocking=True)
                    copied[k] = out.record_event()

            whole = seconds(finished(pipeline), 3, warm_up=1)
            report("overlap", whole / longest, "x-longest", kernel=f"{kernel}x", batches=slots, bytes=size)


def peer():
    """From one GPU's memory to another's."""
    for size in (4 * KiB, 64 * KiB, MiB, 16 * MiB, 128 * MiB):
        x = filled(size).to("cuda:0")
        y = torch.empty_like(x, device="cuda:1")

        def work():
            y.copy_(x, non_blocking=True)
            torch.cuda.synchronize("cuda:0")
            torch.cuda.synchronize("cuda:1")

        report("peer", size / 1e9 / seconds(work, times_for(size)), "GB/s", bytes=size)


# The loader


class Digits(Dataset):
    """60,000 images of 28 x 28 bytes, normalised when they are read. One sample a call: what nearly every set does."""

    def __init__(self):
        self.x = torch.randint(0, 256, (60000, 28, 28), dtype=torch.uint8)
        self.y = torch.randint(0, 10, (60000,))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i].float().div_(255).sub_(0.1307).div_(0.3081).unsqueeze(0), self.y[i]


class DigitBatches(Digits):
    """The same, a whole batch a call: the fastest that PyTorch offers for an array in memory."""

    def __getitems__(self, indices):
        indices = torch.as_tensor(indices)
        return self.x[indices].float().div_(255).sub_(0.1307).div_(0.3081).unsqueeze(1), self.y[indices]


class FloatBatches(Digits):
    """As DigitBatches, of images that are normalised already, and four times as large in memory."""

    def __init__(self):
        super().__init__()
        self.x = self.x.float().div_(255).sub_(0.1307).div_(0.3081).unsqueeze(1)

    def __getitems__(self, indices):
        indices = torch.as_tensor(indices)
        return self.x[indices], self.y[indices]


def as_it_is(batch):
    return batch


def loader_of(data, batch, workers):
    collate = as_it_is if hasattr(data, "__getitems__") else None
    return DataLoader(
        data, batch_size=batch, shuffle=True, num_workers=workers, pin_memory=True, persistent_workers=workers > 0, collate_fn=collate
    )


def load():
    for kind, data, all_workers in (
        ("batch", DigitBatches(), (0, 2, 4, 16)),
        ("batch-float32", FloatBatches(), (0, 16)),
        ("sample", Digits(), (0, 16)),
    ):
        for batch in (64, 256, 1024):
            best = 0
            for workers in all_workers:
                if workers > os.cpu_count():
                    continue
                loader, rates = loader_of(data, batch, workers), []
                for _ in range(2 if workers else 3):  # the best epoch: the first starts the workers
                    start = time.perf_counter()
                    for x, y in loader:
                        x, y = x.to(GPU, non_blocking=True), y.to(GPU, non_blocking=True)
                    torch.cuda.synchronize()
                    rates.append(len(data) / (time.perf_counter() - start))
                    if rates[-1] < best / 3:  # no second epoch makes this the best
                        break
                best = max(best, *rates)
                report("load", max(rates), "samples/s", kind=kind, batch=batch, workers=workers)
                del loader


# Training


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10))


def cnn():
    layers, channels = [], 1
    for out in (32, 64, 128):
        layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        channels = out
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 3 * 3, 625), nn.ReLU(), nn.Linear(625, 10))


def trained(make, sgd):
    """A model on the GPU, and one step of plain gradient descent on a batch, in the form of sgd."""
    model, loss = make().to(GPU), nn.CrossEntropyLoss()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, **{sgd: True})

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        value = loss(model(x), y)
        value.backward()
        opt.step()
        return value

    return step


def epochs_of(loader, step, at_most):
    """Seconds a step, loader and copies included: the faster of two rounds of at_most steps."""
    best = float("inf")
    for _ in range(2):
        count, start = 0, time.perf_counter()
        for x, y in loader:
            if len(x) < loader.batch_size:
                break
            step(x, y)
            if (count := count + 1) == at_most:
                break
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def train():
    data = DigitBatches()
    for name, make in (("mlp", mlp), ("cnn", cnn)):
        for batch in (64, 256):
            for sgd in ("foreach", "fused"):  # now one is faster, now the other
                train_one(data, name, make, batch, sgd)


def train_one(data, name, make, batch, sgd):
    def result(value, mode, feed):
        report("train", value * 1e6, "us", model=name, batch=batch, mode=mode, feed=feed, sgd=sgd)

    loader = loader_of(data, batch, 0)  # with workers it is slower: see load
    step = trained(make, sgd)
    eager = epochs_of(loader, lambda x, y: step(x.to(GPU, non_blocking=True), y.to(GPU, non_blocking=True)), 200)
    result(eager, "eager", "loader")

    # The most that PyTorch can do: the step as a captured graph, its inputs filled anew before each.
    hx, hy = torch.randn(batch, 1, 28, 28).pin_memory(), torch.randint(0, 10, (batch,)).pin_memory()
    x, y = hx.to(GPU), hy.to(GPU)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step(x, y)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(x, y)

    def replay(from_x, from_y):
        x.copy_(from_x, non_blocking=True)
        y.copy_(from_y, non_blocking=True)
        graph.replay()

    def replays():
        for _ in range(300):
            replay(hx, hy)

    result(epochs_of(loader, replay, 200), "graph", "loader")
    result(seconds(finished(replays), 3) / 300, "graph", "pinned")


def compiled():
    """torch.compile with CUDA graphs of its own; by itself, as compiling takes long."""
    for name, make in (("mlp", mlp), ("cnn", cnn)):
        batch = 64
        model, loss = make().to(GPU), nn.CrossEntropyLoss()
        opt = torch.optim.SGD(model.parameters(), lr=0.05, fused=True)
        forward = torch.compile(lambda x, y: loss(model(x), y), mode="reduce-overhead")

        def step(x, y):
            opt.zero_grad(set_to_none=True)
            forward(x.to(GPU, non_blocking=True), y.to(GPU, non_blocking=True)).backward()
            opt.step()

        loader = loader_of(DigitBatches(), batch, 0)
        epochs_of(loader, step, 20)
        report("train", epochs_of(loader, step, 200) * 1e6, "us", model=name, batch=batch, mode="compile", feed="loader", sgd="fused")


parts = {
    "pin": [pin],
    "cold": [cold],
    "copy": [bandwidth, patterns, issue, both_ways, many, overlap],
    "peer": [peer],
    "load": [load],
    "train": [train],
    "compile": [compiled],
}

if __name__ == "__main__":
    torch.zeros(1, device=GPU)  # what is done once
    for part in sys.argv[1:]:
        for measure in parts.get(part) or [globals()[part]]:  # a function by its name, to try it
            measure()
