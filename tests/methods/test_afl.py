import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof import merge
from fedcof.methods.afl import AFL


def least_squares(features, labels):
    targets = (labels[:, None] == np.unique(labels)).astype(float)
    return np.linalg.lstsq(features, targets, rcond=None)[0].T


@pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")
@given(st.integers(1, 40), st.sampled_from([0.1, 1.0, 100.0]))
def test_the_head_is_least_squares_on_all_samples_whoever_holds_them(deal, num_clients, penalty):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(60, 4)) + 1.0, rng.integers(3, size=60)
    clients = rng.integers(num_clients, size=60)
    method = AFL(client_ridge=penalty)
    head = method.solve(deal(method, features, labels, clients))
    np.testing.assert_allclose(head.weight, least_squares(features, labels), rtol=1e-7)
    assert head.bias is None


def test_merged_clients_have_the_weights_of_one_that_holds_all(blobs, deal):
    features, labels, clients = blobs
    merged = merge(deal(AFL(), *blobs))
    one = AFL(client_ridge=float(len(np.unique(clients)))).summarize(features, labels)
    np.testing.assert_allclose(merged.weights, one.weights, rtol=1e-8, atol=1e-10)


def test_clients_may_have_penalties_of_their_own(blobs, deal):
    features, labels, clients = blobs
    parts = [
        AFL(client_ridge=1.0 + k).summarize(
            features[clients == k], labels[clients == k], client_id=str(k)
        )
        for k in np.unique(clients).tolist()
    ]
    np.testing.assert_allclose(
        AFL().solve(parts).weight, least_squares(features, labels), rtol=1e-7, atol=1e-9
    )
