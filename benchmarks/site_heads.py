"""A head for every site against one for all, each on the test data of the site.

Own test data of a site: where the sites are by a column, the test rows with its value; else the
test set with the site's shares of the classes, as the mean of the classes' recalls weighted by
them. The ablations have the means of all with the site's priors, and the other way round.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedcof import Head, get_method, site_heads
from fedcof.backbones import get
from fedcof.client import Sender
from fedcof.data import ImageSet, extract_features, get_dealing
from fedcof.data.datasets import load, preprocessing_of
from fedcof.experiments import Dealt
from fedcof.site_heads import _SiteHeads
from fedcof.summaries import from_bytes


def accuracies(
    heads: Mapping[str, Head], dealt: Dealt, test_sites: NDArray[np.str_] | None
) -> list[float]:
    """Return the accuracy of every site's head on its own test data."""
    found = []
    for site, _, labels in dealt:
        held = np.isin(dealt.test_labels, labels)
        own = held if test_sites is None else test_sites == site
        truth = dealt.test_labels[own]
        right = heads[site].predict(dealt.test_features[own]) == truth
        if test_sites is None:
            classes, shares = np.unique(labels, return_counts=True)
            recalls = [right[truth == label].mean() for label in classes]
            found.append(float(np.average(recalls, weights=shares)))
        else:
            found.append(float(right.mean()))
    return found


def main() -> None:
    """Print a line for every method and kind of head."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="cifar100")
    parser.add_argument("--data", help="folder of the data sets")
    parser.add_argument("--backbone", default="squeezenet1.1")
    parser.add_argument("--partition", default="dirichlet")
    parser.add_argument("--clients", type=int)
    parser.add_argument("--alpha", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", default=["fedcof", "fedcof-oracle"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    train, test = load(options.dataset, options.data)
    assert isinstance(train, ImageSet)
    assert isinstance(test, ImageSet)
    network = get(options.backbone, preprocessing=preprocessing_of(options.dataset))
    features, test_features = (extract_features(part.images, network) for part in (train, test))
    train, test = train.subset(features.kept), test.subset(test_features.kept)
    settings = {"clients": options.clients, "alpha": options.alpha}
    settings = {name: value for name, value in settings.items() if value is not None}
    dealing = get_dealing(options.partition, train.columns, **settings)
    partition = dealing.deal(train.labels, train.columns, options.seed)
    dealt = Dealt(features.features, train.labels, partition, test_features.features, test.labels)
    sites = test.columns.get(options.partition)
    for name in options.methods:
        method = get_method(name)
        sent = (Sender(method).send(x, y, client_id=site) for site, x, y in dealt)
        parts = [from_bytes(each.data) for each in sent if each is not None]
        own = site_heads(method, parts)
        assert isinstance(own, _SiteHeads)
        everybody = method.solve(parts)
        discriminant = get_method(name, form="lda", priors="counts").solve(parts)
        names = list(own)
        rows: dict[str, Mapping[str, Head]] = {
            "of all": dict.fromkeys(names, everybody),
            "of all, lda": dict.fromkeys(names, discriminant),
            "own priors": replace(own, tau=np.inf),
            "own means": replace(own, a=1e9),
            "own": own,
        }
        print(f"{name}: tau {own.tau:.3g}, concentration {own.a:.3g}")
        for row, heads in rows.items():
            found = 100 * np.array(accuracies(heads, dealt, sites))
            print(f"  {row:12} {found.mean():.1f}, worst site {found.min():.1f}", flush=True)


if __name__ == "__main__":
    main()
