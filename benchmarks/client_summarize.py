"""The client's half of FedCOF: from features in memory to class means.

Against one plain pass over the features, summed in float64.
"""

from __future__ import annotations

import argparse

import numpy as np

from fedcof import summarize
from measure import Result, interleaved_medians, show


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = vars(parser.parse_args())
    as_json = options.pop("json")

    rng = np.random.default_rng(0)
    features = rng.standard_normal((options["samples"], options["dim"]), dtype=np.float32)
    labels = rng.integers(options["classes"], size=options["samples"])
    summarize_seconds, several_seconds, pass_seconds = interleaved_medians(
        options["repeats"],
        lambda: summarize(features, labels),
        lambda: summarize(features, labels, means_per_class=4, rng=0),
        lambda: features.sum(axis=0, dtype=np.float64),
    )
    show(
        "FedCOF at a client",
        options,
        [
            Result("summarize", summarize_seconds, "s"),
            Result("summarize, four means a class", several_seconds, "s"),
            Result("floor: one sum over the features", pass_seconds, "s"),
            Result("summarize / floor", summarize_seconds / pass_seconds, "x", at_most=8.0),
        ],
        as_json,
    )


if __name__ == "__main__":
    main()
