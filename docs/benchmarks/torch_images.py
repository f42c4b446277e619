"""How many images a second torchvision reads from a folder of JPEGs, beside BenchmarkLoader of dataloader/imagefolder.

    export IMAGES_DIR=/some/folder        # the benchmark puts its images there
    go test -run '^$' -bench '^BenchmarkLoader$' ./dataloader/imagefolder
    python3 torch_images.py [WORKERS...]

Both read the same files with the same settings: shuffled batches of 64 in page-locked memory, each image decoded,
cropped at random, resized to 224 x 224, flipped half of the time and normalised, as a ResNet is trained. torchvision
can do that in two ways: with Pillow, which is what ImageFolder does by itself, and with its own decoder and transforms
of tensors. Both are measured, as "images-pillow" and "images-tensor"; "images" is the better of them. One JSON object a
line, as torch_baseline.py prints them. Needs torch and torchvision, no GPU.
"""

import json
import os
import sys
import time

import torch
import torchvision
from torch.utils.data import ConcatDataset, DataLoader
from torchvision import io
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CROP = (v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(0.5))
NORMALISED = (v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD))


def decoded(path):
    return io.decode_image(io.read_file(path), io.ImageReadMode.RGB)


def sets(folder):
    yield "pillow", ImageFolder(folder, v2.Compose((*CROP, v2.ToImage(), *NORMALISED)))
    yield "tensor", ImageFolder(folder, v2.Compose((*CROP, *NORMALISED)), loader=decoded)


def one_thread(_):
    torch.set_num_threads(1)


def images_a_second(data, workers):
    """The best epoch of some seconds, after one that starts the workers. An epoch is the folder four times: a worker makes
    whole batches, and all of them are to have some."""
    loader = DataLoader(
        ConcatDataset([data] * 4), batch_size=64, shuffle=True, num_workers=workers, pin_memory=torch.cuda.is_available(), persistent_workers=True, worker_init_fn=one_thread
    )
    best, begin = 0.0, time.perf_counter()
    for epoch in range(5):
        start, count = time.perf_counter(), 0
        for x, _ in loader:
            count += len(x)
        if epoch > 0:
            best = max(best, count / (time.perf_counter() - start))
            if time.perf_counter() - begin > 4:
                break
    return best


def main():
    folder = os.environ.get("IMAGES_DIR")
    if not folder or not os.path.isdir(folder):
        sys.exit("torch_images.py: IMAGES_DIR names no folder: run the Go benchmark with it first")
    for workers in [int(w) for w in sys.argv[1:]] or [1, 4, 16]:
        if workers > (os.cpu_count() or 1):
            continue
        rates = {kind: images_a_second(data, workers) for kind, data in sets(folder)}
        for bench, rate in (*((f"images-{kind}", rate) for kind, rate in rates.items()), ("images", max(rates.values()))):
            line = {"peer": f"torchvision {torchvision.__version__}", "bench": bench, "workers": workers, "value": rate, "unit": "images/s"}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
