import numpy as np
import pytest

from fedcof import FedCOF
from fedcof.methods.stsa import STSAE


def published(sums, counts, labels, sets):
    """The matrix of the paper, class by class, from the sums of all sets in one list."""
    gram = np.zeros((sums.shape[1],) * 2)
    for c in np.unique(labels):
        mine = labels == c
        samples, total = counts[mine].sum(), sums[mine].sum(axis=0)
        spread = sum(np.outer(s, s) / n for s, n in zip(sums[mine], counts[mine], strict=True))
        gram += (samples - 1) / (sets - 1) * spread
        gram -= max(0, samples - sets) / ((sets - 1) * samples) * np.outer(total, total)
    return gram


@pytest.mark.parametrize("sets_of_a_client", [1, 3])
def test_the_matrix_is_that_of_the_paper(blobs, deal, sets_of_a_client):
    method = STSAE(means_per_class=sets_of_a_client)
    parts = deal(method, *blobs, rng=0)
    counts = np.concatenate([part.counts for part in parts])
    sums = np.concatenate([part.means for part in parts]) * counts[:, None]
    labels = np.concatenate([part.classes for part in parts])
    expected = published(sums, counts, labels, len(parts) * sets_of_a_client)
    np.testing.assert_allclose(method.pool(parts).gram, expected, rtol=1e-9)


def test_where_all_clients_hold_all_classes_it_is_fedcof_with_both_scatters(rng, deal):
    labels = np.tile([0, 1, 2], 40)
    features = np.eye(3)[labels] + rng.normal(size=(120, 3))
    parts = deal(STSAE(), features, labels, np.arange(120) // 3 % 8)
    gram = FedCOF().pool(parts).gram(0.0, "both")
    np.testing.assert_allclose(STSAE().pool(parts).gram, gram, rtol=1e-9)


def test_the_rows_of_the_head_keep_their_lengths(blobs, deal):
    parts = deal(STSAE(), *blobs)
    pooled = STSAE().pool(parts)
    expected = np.linalg.solve(pooled.gram + 5 * np.eye(6), pooled.sums.T).T
    np.testing.assert_allclose(STSAE(ridge=5.0).solve(parts).weight, expected, rtol=1e-9)
