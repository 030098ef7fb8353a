import numpy as np
import pytest

from fedcof.data import ByColumn, FeatureTable
from fedcof.experiments import Clients, Execution, FeatureSet, Source
from fedcof.experiments.shift import UnderShift
from fedcof.methods import FedCOF


def measured(features, means_per_class=1):
    clients = Clients(Source(features), ByColumn("domain"), 0)
    return UnderShift(FedCOF(0.1, means_per_class=means_per_class)).measure(clients, Execution())


def shifted(features, by):
    """Return the features with those of domain "b" moved."""

    def move(table):
        moved = table.features + by * (table.columns["domain"] == "b")[:, None]
        return FeatureTable(moved.astype(np.float32), table.labels, table.classes, table.columns)

    return FeatureSet(move(features.train), move(features.test), "")


def test_the_bias_grows_with_the_shift_and_shrinks_with_the_means(features):
    alike, apart = measured(features), measured(shifted(features, 3.0))
    assert abs(alike["bias_ratio"]) < 1.0
    assert apart["bias_ratio"] > 10.0
    assert measured(shifted(features, 3.0), 5)["bias_ratio"] < apart["bias_ratio"] / 4


def test_where_clients_are_alike_no_loss_is_predicted(features):
    train = features.train
    twice = FeatureTable(
        np.concatenate([train.features] * 2),
        np.concatenate([train.labels] * 2),
        train.classes,
        {"domain": np.repeat(["a", "b"], len(train.labels))},
    )
    found = measured(FeatureSet(twice, features.test, ""))
    assert found["bias_ratio"] == pytest.approx(0.0, abs=0.02)  # float32 on the wire, N for N - 1
    assert found["predicted_loss"] == 0.0
