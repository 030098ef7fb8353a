import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof.errors import SettingError
from fedcof.transforms import Buckets, parse


def combinations(features, thresholds, group, seed):
    """Bit by bit and group by group, from the shuffled order."""
    quantiles = {1: [0.0], 2: [-0.4307273, 0.4307273]}[thresholds]
    bits = np.stack([features > q for q in quantiles], axis=2).reshape(len(features), -1)
    order = np.argsort(np.random.PCG64(seed).random_raw(bits.shape[1]), kind="stable")
    bits = bits[:, order]
    made = []
    for start in range(0, bits.shape[1], group):
        mine = bits[:, start : start + group]
        number = sum(mine[:, j] * 2**j for j in range(mine.shape[1]))
        made.append(np.eye(2**group)[number])
    return np.concatenate(made, axis=1)


@given(st.integers(1, 7), st.integers(1, 2), st.integers(1, 3), st.integers(0, 5))
def test_a_group_shows_the_combination_of_its_bits(dim, thresholds, group, seed):
    features = np.random.default_rng(seed).normal(size=(9, dim))
    transform = Buckets(thresholds, group, seed)
    found = transform(features)
    np.testing.assert_array_equal(found, combinations(features, thresholds, group, seed))
    assert found.shape[1] == transform.output_dim(dim)
    assert (found.sum(axis=1) == -(-dim * thresholds // group)).all()


def test_its_text_says_the_length_of_what_it_takes():
    bound = Buckets().bound(6)
    assert parse(str(bound)) == bound
    assert bound.input_dim(bound.output_dim(6)) == 6
    with pytest.raises(SettingError, match="takes features of length 6, these have 5"):
        bound(np.zeros((1, 5)))
    with pytest.raises(SettingError, match="gives features of length 24"):
        bound.input_dim(23)


def test_a_text_that_would_fill_the_memory_is_refused():
    with pytest.raises(SettingError, match=r"more than 2\*\*28 numbers"):
        parse("buckets:64:8:0:65536")
