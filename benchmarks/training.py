"""Images a second: fine-tuning by the package, beside the bare step on resident tensors.

The bare step trains the same network in the same precision and memory format, by the same
optimizer, on batches of the same size that are prepared and on the device; nothing is read,
aggregated or copied. The package runs a round of all clients from images:
pixels that are kept, batches, their way to the device, steps, and each client's copy of the state.
On the CPU, seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import os
import time

import joblib
import numpy as np
import torch
from torch.nn.functional import cross_entropy

from fedcof.backbones.torch_backbone import network
from fedcof.backbones.torch_engine import fast_on
from fedcof.training.batches import Images
from fedcof.training.classifier import Classifier
from fedcof.training.exchange import Task
from fedcof.training.heads import random_head
from fedcof.training.local import Samples, get_state, trainable, update_clients
from fedcof.training.settings import TrainingSettings
from measure import Result, interleaved_medians, show

CLASSES = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--size", type=int, default=64, help="pixels of the network's input")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--images", type=int, default=64, help="of a client, 32 x 32 pixels")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--precision", default="float32", choices=["float32", "bf16"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    device = torch.device(options.device)
    net = network("squeezenet1.1", preprocessing={"size": options.size}, pretrained=False)
    head = random_head(net.dim, np.arange(CLASSES), seed=0)
    model = Classifier(net.module, head, net.preprocessing, precision=options.precision)
    fast_on(model, device).eval()
    rng = np.random.default_rng(0)
    clients = {}
    for name in range(options.clients):
        pixels = rng.integers(0, 256, (options.images, 32, 32, 3), np.uint8)
        labels = torch.from_numpy(rng.integers(0, CLASSES, options.images))
        clients[f"{name}"] = Samples(Images(pixels, net.preprocessing), labels)
    settings = TrainingSettings(client_lr=1e-4, batch_size=options.batch)
    task = Task(get_state(model), settings, server_round=1)
    plan = [rows for name in clients for rows in task.batches(options.images, name)]
    batch = torch.from_numpy(rng.integers(0, 256, (options.batch, 32, 32, 3), np.uint8))
    resident = model.prepare(batch.to(device))
    answers = torch.arange(options.batch, device=device) % CLASSES
    unprepared = Classifier(net.module, head, precision=options.precision)
    fast_on(unprepared, device).eval()

    def bare() -> None:
        optimizer = torch.optim.SGD(trainable(unprepared).values(), lr=1e-4)
        for rows in plan:
            optimizer.zero_grad()
            loss = cross_entropy(unprepared(resident[: len(rows)]), answers[: len(rows)])
            torch.autograd.backward(loss)
            optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    def package() -> None:
        update_clients(model, clients, task, list(clients))

    total, on_cuda = options.clients * options.images, device.type == "cuda"
    clock = time.perf_counter if on_cuda else time.process_time  # a busy machine counts for nothing
    seconds = interleaved_medians(options.repeats, bare, package, clock=clock)
    alone, whole = (total / taken for taken in seconds)
    at_least = 0.6 if on_cuda else None
    show(
        "Fine-tuning of SqueezeNet",
        {**vars(options), "cores": joblib.cpu_count(), "load": round(os.getloadavg()[0], 1)},
        [
            Result("bare step on resident tensors", alone, "images/s"),
            Result("package", whole, "images/s"),
            Result("package / bare step", whole / alone, "", at_least=at_least),
        ],
        options.json,
    )


if __name__ == "__main__":
    main()
