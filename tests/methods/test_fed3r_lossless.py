import numpy as np
import pytest

from fedcof import Fed3R, from_bytes
from fedcof.methods.fed3r_lossless import Fed3RLossless


@pytest.mark.parametrize("ridge", [0.0, 0.01, 10.0])
def test_the_head_is_that_of_fed3r(blobs, deal, ridge):
    lossless, plain = Fed3RLossless(ridge=ridge), Fed3R(ridge=ridge)
    np.testing.assert_allclose(
        lossless.solve(deal(lossless, *blobs)).weight,
        plain.solve(deal(plain, *blobs)).weight,
        rtol=1e-8,
        atol=1e-10,
    )


def test_a_client_sends_half_of_what_it_sends_for_fed3r(rng):
    features, labels = rng.normal(size=(500, 100)), rng.integers(4, size=500)
    lossless, plain = (m.summarize(features, labels) for m in (Fed3RLossless(), Fed3R()))
    assert lossless.formula_bytes == 4 * (400 + 5050)
    assert plain.formula_bytes == 4 * (400 + 10_000)


def test_rounding_to_float32_moves_the_head_no_more_than_fed3rs(blobs, deal):
    exact = Fed3R().solve(deal(Fed3R(), *blobs)).weight
    moved = {
        type(method): np.abs(
            method.solve([from_bytes(s.to_bytes()) for s in deal(method, *blobs)]).weight - exact
        ).max()
        for method in (Fed3R(), Fed3RLossless())
    }
    assert moved[Fed3RLossless] < 2 * moved[Fed3R] + 1e-9
