import numpy as np
import pytest

from fedcof import SummaryError, from_bytes, merge
from fedcof.client import Sender
from fedcof.methods.fed3r_lossless import Fed3RLossless
from fedcof.summaries import Gram
from fedcof.summaries.gram_factor import GramFactor


@pytest.mark.parametrize(
    ("samples", "numbers"), [(1, 4), (2, 7), (3, 9), (4, 10), (5, 10), (40, 10)]
)
def test_it_has_as_many_numbers_as_a_symmetric_matrix_of_its_rank(rng, samples, numbers):
    summary = GramFactor.summarize(rng.normal(size=(samples, 4)), [0] * samples)
    assert summary.factors.shape == (numbers,)
    assert summary.formula_bytes == 4 * (4 + numbers)


@pytest.mark.parametrize("samples", [1, 3, 4, 30])
def test_its_gram_matrix_is_that_of_the_samples(rng, samples):
    features, labels = rng.normal(size=(samples, 4)), rng.integers(2, size=samples)
    own, other = GramFactor.summarize(features, labels).gram(), Gram.summarize(features, labels)
    np.testing.assert_allclose(own.gram, other.gram, atol=1e-12)
    np.testing.assert_array_equal(own.sums, other.sums)
    np.testing.assert_array_equal(own.counts, other.counts)


def test_merged_clients_keep_their_own_factors(rng):
    parts = [
        GramFactor.summarize(rng.normal(size=(n, 3)), [0] * n, client_id=name)
        for name, n in (("a", 2), ("b", 5), ("c", 1))
    ]
    merged = merge([merge([parts[2], parts[0]]), parts[1]])
    assert merged.formula_bytes == sum(part.formula_bytes for part in parts)
    own = dict(merged.triangles())
    for part in parts:
        ((client_id, triangle),) = part.triangles()
        np.testing.assert_array_equal(own[client_id], triangle)
    np.testing.assert_allclose(sum(gram.gram for gram in merged.grams()), merged.gram().gram)


def test_a_factor_of_another_length_is_refused(rng):
    part = GramFactor.summarize(rng.normal(size=(3, 2)), [0, 0, 1])
    with pytest.raises(SummaryError, match="2 numbers of factors, expected 3"):
        GramFactor(
            classes=part.classes, counts=part.counts, sums=part.sums, factors=part.factors[:2]
        )


@pytest.mark.parametrize("samples", [2, 9])
def test_the_size_is_known_from_the_number_of_samples(rng, samples):
    summary = GramFactor.summarize(rng.normal(size=(samples, 5)), [0] * samples, client_id="a")
    sender = Sender(Fed3RLossless())
    assert sender.expected_bytes(summary.classes, 5, samples=samples, client_id="a") == (
        summary.formula_bytes,
        len(summary.to_bytes()),
    )
    with pytest.raises(NotImplementedError, match="numbers"):
        sender.expected_bytes(summary.classes, 5, client_id="a")


def test_it_comes_back_from_the_wire(rng):
    summary = merge(
        [
            GramFactor.summarize(
                rng.normal(size=(n, 3)).astype(np.float32), [0] * n, client_id=name
            )
            for name, n in (("a", 2), ("b", 5))
        ]
    )
    back = from_bytes(summary.to_bytes())
    np.testing.assert_allclose(back.gram().gram, summary.gram().gram, rtol=1e-5)
