"""What the authors' way to prepare CIFAR-100 moves: its own normalisation, and flips.

Their code normalises CIFAR-100 with its own mean and deviation rather than ImageNet's, and makes
the features of training images once a seed, after random horizontal flips. Features of 170,000
images are made, and kept in the cache::

    python benchmarks/image_variants.py --data FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedcof.backbones import Backbone, resolve
from fedcof.data import Dirichlet, FeatureTable, ImageSet, datasets, extract_features, read_image
from fedcof.experiments import Clients, Execution, FeatureSet, OneRound, Procedure, Source
from fedcof.experiments.solver import Solved
from fedcof.methods import Fed3R, FedCOF, FedCOFOracle, FedNCM
from fedcof.progress import progress_bar

# Of red, green and blue, for values from 0 to 255.
IMAGENET_SCALE = (58.395, 57.12, 57.375)
CIFAR_MEAN = tuple(255 * mean for mean in (0.491399689874, 0.482158419622, 0.446530924224))
CIFAR_SCALE = tuple(255 * scale for scale in (0.247032237587, 0.243485133253, 0.261587846975))

METHODS: dict[str, Fed3R | FedCOF | FedCOFOracle] = {
    "Fed3R": Fed3R(),
    "FedCOF, shrinkage 0.1": FedCOF(0.1),
    "oracle, shrinkage 0.1": FedCOFOracle(0.1),
    "FedCOF, shrinkage 1": FedCOF(1.0),
    "oracle, shrinkage 1": FedCOFOracle(1.0),
}
PROCEDURES: dict[str, Procedure] = {"FedNCM": OneRound(FedNCM())}
for name, method in METHODS.items():
    PROCEDURES[f"{name}, exact"] = Solved(method, "exact")
    PROCEDURES[f"{name}, pinv32"] = Solved(method, "pinv32")

Features = NDArray[np.float32]


def flipped(images: ImageSet) -> Iterator[NDArray[np.uint8]]:
    """Yield the mirrored images."""
    for image in images.images:
        yield np.ascontiguousarray(read_image(image)[:, ::-1])


def main() -> None:
    """Print accuracies, and what each variant moves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with CIFAR-100")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    train, test = datasets.only_images(*datasets.load("cifar100", arguments.data))

    # These weights take BGR and a scale of 1 where those of torchvision take ImageNet's.
    weights = resolve("squeezenet1.1@bundled")
    own_scale = np.divide(CIFAR_SCALE, IMAGENET_SCALE)[::-1].tolist()
    own_weights = weights.prepared({"mean": CIFAR_MEAN[::-1], "scale": tuple(own_scale)})
    plain, own = Backbone.of(weights), Backbone.of(own_weights)

    def features(images: ImageSet, backbone: Backbone, *, mirrored: bool = False) -> Features:
        source = flipped(images) if mirrored else images.images
        with progress_bar("Features", len(images), unit="images") as advance:
            return extract_features(source, backbone, advance=advance).features

    unflipped, mirror = features(train, plain), features(train, plain, mirrored=True)
    tests = {"plain": features(test, plain), "own normalisation": features(test, own)}
    own_train = features(train, own)

    def table(rows: Features, images: ImageSet) -> FeatureTable:
        return FeatureTable(rows, images.labels, images.classes, {})

    accuracy: dict[tuple[str, str], list[float]] = {}
    for seed in range(arguments.seeds):
        flips = np.random.default_rng([seed, 7]).random((len(train), 1)) < 0.5
        variants = {
            "plain": (unflipped, tests["plain"]),
            "flips": (np.where(flips, mirror, unflipped), tests["plain"]),
            "own normalisation": (own_train, tests["own normalisation"]),
        }
        for variant, (rows, test_rows) in variants.items():
            source = Source(FeatureSet(table(rows, train), table(test_rows, test), ""))
            clients = Clients(source, Dirichlet(100, 0.1), seed)
            for name, procedure in PROCEDURES.items():
                measured = procedure.measure(clients, Execution())["accuracy"]
                accuracy.setdefault((variant, name), []).append(100 * measured)
    for name in PROCEDURES:
        line = [f"{name:32}"]
        for variant in ("plain", "flips", "own normalisation"):
            found = np.array(accuracy[variant, name])
            moved = found - accuracy["plain", name]
            line.append(
                f"{variant} {found.mean():.2f} ({moved.mean():+.2f} ± {moved.std(ddof=1):.2f})"
            )
        print("  ".join(line))


if __name__ == "__main__":
    main()
