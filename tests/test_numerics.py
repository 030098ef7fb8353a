"""Sums in blocks, by group and as scatter; the plain two-pass version is the reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof import SummaryError
from fedcof.numerics import CentredScatter, GroupSums, scatter_about_means


def plain_scatter(rows, weights, group_index, num_groups):
    """Two passes in float64: the means of the groups, then the scatter about them."""
    rows = rows.astype(np.float64)
    means = np.stack(
        [
            np.average(rows[group_index == g], axis=0, weights=weights[group_index == g])
            for g in range(num_groups)
        ]
    )
    centred = rows - means[group_index]
    return means, (centred.T * weights) @ centred


def rows_in_groups(seed, num_rows, num_groups, dim):
    rng = np.random.default_rng(seed)
    group_index = np.concatenate(
        [np.arange(num_groups), rng.integers(num_groups, size=num_rows - num_groups)]
    )
    rows = rng.normal(size=(num_rows, dim)) + 10 * rng.normal(size=(num_groups, dim))[group_index]
    return rows, rng.integers(1, 9, size=num_rows), group_index


shapes = st.tuples(
    st.integers(0, 2**32 - 1), st.integers(4, 60), st.integers(1, 4), st.integers(1, 5)
)


@given(shapes)
def test_the_kernel_is_the_plain_version(shape):
    rows, weights, index = rows_in_groups(*shape)
    means, scatter = scatter_about_means([rows], weights, index, shape[2])
    expected_means, expected = plain_scatter(rows, weights, index, shape[2])
    np.testing.assert_allclose(means, expected_means, rtol=1e-12)
    np.testing.assert_allclose(scatter, expected, atol=1e-10 * max(1.0, np.trace(expected)))


def parts_of(rows, weights, index, cuts):
    places = sorted(cut % (len(rows) + 1) for cut in cuts)
    return [
        (part, weights[where], index[where])
        for part, where in zip(
            np.split(rows, places), np.split(np.arange(len(rows)), places), strict=True
        )
        if len(part)
    ]


@given(shapes, st.lists(st.integers(0, 100), max_size=4))
def test_sums_of_parts_add_up_to_those_of_all_rows(shape, cuts):
    rows, weights, index = rows_in_groups(*shape)
    whole = GroupSums.of([rows], index, shape[2], weights)
    partial = [
        GroupSums.of([r], i, shape[2], w) for r, w, i in parts_of(rows, weights, index, cuts)
    ]
    total = sum(partial[1:], start=partial[0])
    assert total.rows.tolist() == whole.rows.tolist()
    assert total.weights.tolist() == whole.weights.tolist()
    np.testing.assert_allclose(total.means, whole.means, rtol=1e-12)


@given(shapes, st.lists(st.integers(0, 100), max_size=4))
def test_scatters_of_parts_about_given_centres_add_up(shape, cuts):
    rows, weights, index = rows_in_groups(*shape)
    # As a server streams: first the sums, which give the centres, then the scatter about them.
    sums = [GroupSums.of([r], i, shape[2], w) for r, w, i in parts_of(rows, weights, index, cuts)]
    centres = sum(sums[1:], start=sums[0]).means
    partial = [
        CentredScatter.of([r], w, i, centres) for r, w, i in parts_of(rows, weights, index, cuts)
    ]
    total = sum(partial[1:], start=partial[0])
    expected_means, expected = plain_scatter(rows, weights, index, shape[2])
    np.testing.assert_allclose(total.means, expected_means, rtol=1e-12)
    np.testing.assert_allclose(
        total.about_means(), expected, atol=1e-10 * max(1.0, np.trace(expected))
    )


def test_the_centres_need_not_be_the_means():
    rows = np.array([[1.0], [3.0]])
    partial = CentredScatter.of([rows], np.ones(2), np.zeros(2, dtype=int), np.array([[100.0]]))
    assert partial.means.tolist() == [[2.0]]
    assert partial.about_means().item() == pytest.approx(2.0)
    assert partial.correction == pytest.approx(2 * 98.0**2)


def test_scatters_about_different_centres_do_not_add_up():
    one, other = (
        CentredScatter.of([np.ones((1, 1))], np.ones(1), np.zeros(1, dtype=int), np.array([[c]]))
        for c in (0.0, 1.0)
    )
    with pytest.raises(ValueError, match="different centres"):
        one + other


def test_a_group_without_weight_keeps_its_centre():
    partial = CentredScatter.of(
        [np.array([[5.0]])], np.zeros(1), np.zeros(1, dtype=int), np.array([[5.0]])
    )
    assert partial.means.tolist() == [[5.0]]
    assert partial.about_means().tolist() == [[0.0]]


def test_a_scatter_that_is_not_finite_is_refused():
    with pytest.raises(SummaryError, match=r"as large as 1e\+200"):
        scatter_about_means([np.array([[1e200], [-1e200]])], np.ones(2), np.zeros(2, dtype=int), 1)


def test_sums_over_another_number_of_groups_do_not_add_up():
    rows = [np.ones((2, 3))]
    one_group = GroupSums.of(rows, np.array([0, 0]), 1)
    two_groups = GroupSums.of(rows, np.array([0, 1]), 2)
    with pytest.raises(ValueError, match=r"shapes \(1, 3\) and \(2, 3\) do not add up"):
        one_group + two_groups
