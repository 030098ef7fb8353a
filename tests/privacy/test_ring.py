from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof.errors import SummaryError
from fedcof.privacy.secure.ring import Field, FixedPoint, RingLayout

BOUNDS = st.floats(1e-200, 1e200)
CLIENTS = st.integers(1, 100_000)


@given(BOUNDS, CLIENTS, st.floats(0, 1e200))
def test_the_largest_sum_fits_and_one_digit_more_would_not(bound, clients, noise):
    number = FixedPoint(bound, clients, noise=noise)
    assert number.largest_sum < 2**63
    assert 2 * number.largest_sum + clients > 2**63 - 2 or number.fraction_bits == 1000


@given(BOUNDS, st.integers(1, 50), st.integers(0, 2**32))
def test_a_sum_is_within_half_a_unit_a_client(bound, clients, seed):
    number = FixedPoint(bound, clients)
    values = np.random.default_rng(seed).uniform(-bound, bound, (clients, 3))
    values[:, 0] = bound
    values[:, 1] = -bound
    total = number.decode(np.add.reduce([number.encode(row) for row in values]))
    for decoded, column in zip(total, values.T, strict=True):
        exact = sum(map(Fraction, column))
        rounding = clients * Fraction(number.unit) / 2 + abs(exact) / 2**52
        assert abs(Fraction(decoded) - exact) <= rounding


def test_a_number_above_the_bound_is_refused_and_not_clipped():
    number = FixedPoint(8.0, clients=10)
    number.encode([8.0, -8.0])
    with pytest.raises(SummaryError, match="above 8 in size"):
        number.encode([np.nextafter(8.0, 9.0)])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(value):
    with pytest.raises(SummaryError) as caught:
        FixedPoint(8.0, clients=10).encode([1.0, value])
    assert caught.value.code == "non-finite"


def test_counts_are_exact_and_narrow():
    number = FixedPoint(40, clients=3, integers=True)
    assert (number.fraction_bits, number.width, number.largest_sum) == (0, 1, 120)
    assert FixedPoint(43, clients=3, integers=True).width == 2
    assert FixedPoint(2**40, clients=1000, integers=True).width == 7
    with pytest.raises(SummaryError, match="whole"):
        number.encode([1.5])


def test_counts_whose_sum_leaves_64_bits_are_refused():
    with pytest.raises(SummaryError, match="smaller bound"):
        FixedPoint(2.0**60, clients=8, integers=True)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan, np.inf])
def test_a_bound_must_be_positive_and_finite(bound):
    with pytest.raises(SummaryError):
        FixedPoint(bound, clients=3)


def test_a_sum_above_what_clients_can_make_is_refused():
    honest, liar = FixedPoint(1.0, clients=2), FixedPoint(1.9, clients=2)
    assert honest.fraction_bits == liar.fraction_bits
    with pytest.raises(SummaryError, match="above the bound"):
        honest.decode(honest.encode([1.0]) + liar.encode([1.9]))


def test_the_smallest_integer_is_out_of_range():
    with pytest.raises(SummaryError):
        FixedPoint(1.0, clients=1).decode(np.array([2**63], np.uint64))


LAYOUT = RingLayout.of(
    {"sums": (2, 3), "counts": (2,), "present": (2,)},
    {"sums": 5.0, "counts": 100, "present": 1},
    clients=4,
    integers=["counts", "present"],
)


@given(st.integers(0, 2**32))
def test_arrays_are_summed_by_name_through_packed_bytes(seed):
    rng = np.random.default_rng(seed)
    sent = [
        {
            "sums": rng.uniform(-5, 5, (2, 3)),
            "counts": rng.integers(0, 101, 2),
            "present": rng.integers(0, 2, 2),
        }
        for _ in range(4)
    ]
    packed = [LAYOUT.pack(LAYOUT.encode(arrays)) for arrays in sent]
    assert {len(data) for data in packed} == {LAYOUT.packed_size} == {6 * 8 + 2 * 2 + 2}
    total = LAYOUT.decode(np.add.reduce([LAYOUT.unpack(data) for data in packed]))
    for name, array in total.items():
        np.testing.assert_allclose(array, sum(arrays[name] for arrays in sent), atol=1e-15)


def test_negative_numbers_survive_narrow_bytes():
    layout = RingLayout({"x": Field((2,), FixedPoint(10, clients=2, integers=True))})
    vector = layout.unpack(layout.pack(layout.encode({"x": [-10, 3]})))
    assert layout.decode(vector + vector)["x"].tolist() == [-20, 6]


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"sums": np.zeros((2, 3))}, "expected the arrays"),
        ({"sums": np.zeros(6), "counts": [0, 0], "present": [0, 0]}, "sums: expected the shape"),
        ({"sums": np.zeros((2, 3)), "counts": [0, 101], "present": [0, 0]}, "counts: .* above"),
    ],
)
def test_arrays_of_another_layout_are_refused(arrays, says):
    with pytest.raises(SummaryError, match=says):
        LAYOUT.encode(arrays)


def test_bytes_of_another_length_are_refused():
    with pytest.raises(SummaryError, match="54 bytes, got 53"):
        LAYOUT.unpack(bytes(53))


def test_layouts_that_differ_in_anything_differ_in_their_digest():
    fields = dict(LAYOUT.fields)
    other = {**fields, "present": Field((2,), FixedPoint(1, clients=5, integers=True))}
    reordered = dict(reversed(fields.items()))
    digests = {layout.digest for layout in (LAYOUT, RingLayout(other), RingLayout(reordered))}
    assert len(digests) == 3
    assert RingLayout(fields).digest == LAYOUT.digest
