"""Images a second: features from pictures by the package, beside the bare network.

The bare network gets tensors that are prepared and in memory, in batches of the same size. Of every
kind of picture the package begins with an empty cache (reads, decodes, keeps pixels and features),
and again with the pixels on disk, as for a second backbone. Beside it stands Pillow alone, which
decodes and resizes: a program that uses both and does nothing else makes 1 / (1 + Pillow's seconds
/ the network's) of the bare network's images, the most that Pillow leaves. Seconds are those of the
processor on the CPU, and of the clock on CUDA.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from PIL import Image

from fedcof.backbones import Backbone, get
from fedcof.data import extract_features
from measure import Result, interleaved_medians, show


def synthetic(folder: Path, count: int, height: int, width: int, suffix: str) -> list[Path]:
    """Write pictures with as much detail as photographs of their size."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    paths = [folder / f"{number:05}{suffix}" for number in range(count)]
    for path in paths:
        coarse = rng.integers(0, 256, (height // 4, width // 4, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((width, height)).save(path, quality=90)
    return paths


def measure(
    what: str,
    images: Sequence[Any] | np.ndarray,
    network: Backbone,
    folder: Path,
    timing: Callable[..., list[float]],
) -> list[Result]:
    """Measure one kind of pictures."""
    size, count = network.preprocessing.size, len(images)
    batch = np.random.default_rng(0).normal(size=(network.batch_size, 3, size, size))
    resident = batch.astype(np.float32)

    def bare() -> None:
        for start in range(0, count, network.batch_size):
            network.infer(resident[: count - start])

    def pillow() -> None:
        for image in images:
            array = isinstance(image, np.ndarray)
            picture = Image.fromarray(image) if array else Image.open(image)
            in_rgb = picture if picture.mode == "RGB" else picture.convert("RGB")
            network.preprocessing.resize(in_rgb)

    def cold() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        extract_features(images, network, cache_dir=folder)

    def again() -> None:
        shutil.rmtree(folder / network.fingerprint)
        extract_features(images, network, cache_dir=folder)

    seconds = timing(bare, pillow, cold, again)
    alone, decoding, first, second = (count / taken for taken in seconds)
    most = 1 / (1 + alone / decoding)
    return [
        Result(f"{what}: bare network", alone, "images/s"),
        Result(f"{what}: Pillow alone", decoding, "images/s"),
        Result(f"{what}: package, empty cache", first, "images/s"),
        Result(f"{what}: package, pixels kept", second, "images/s"),
        Result(f"{what}: package / bare network", first / alone, "", at_least=0.85),
        Result(f"{what}: the most that Pillow leaves", most, ""),
        Result(f"{what}: package / the most that Pillow leaves", first / alone / most, ""),
        Result(f"{what}: the same, pixels kept", second / alone, "", at_least=0.85),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="squeezenet1.1")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pictures", type=Path, help="a folder of pictures, instead of synthetic")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    network = get(options.backbone, options.device)
    clock = time.perf_counter if options.device == "cuda" else time.process_time
    timing = partial(interleaved_medians, options.repeats, clock=clock)
    with tempfile.TemporaryDirectory() as temporary:
        folder, count = Path(temporary), options.images
        kinds: dict[str, Sequence[Any] | np.ndarray]
        if options.pictures:
            paths = sorted(path for path in options.pictures.rglob("*") if path.is_file())
            kinds = {options.pictures.name: paths[:count]}
        else:
            kinds = {
                "PNG of 32 pixels": synthetic(folder / "png", count, 32, 32, ".png"),
                "array of 32 pixels": np.random.default_rng(0).integers(
                    0, 256, (count, 32, 32, 3), np.uint8
                ),
                "JPEG of 227 pixels": synthetic(folder / "jpeg", count, 227, 227, ".jpg"),
                "JPEG of 3000 x 2000 pixels": synthetic(
                    folder / "large", -(-count // 64), 2000, 3000, ".jpg"
                ),
            }
        results = [
            result
            for what, images in kinds.items()
            for result in measure(what, images, network, folder / "cache", timing)
        ]
    settings = {
        "backbone": options.backbone,
        "device": options.device,
        "images": count,
        "cores": joblib.cpu_count(),
    }
    show("Extraction of features", settings, results, options.json)


if __name__ == "__main__":
    main()
