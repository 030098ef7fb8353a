import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcof.training.prompt_pool import aggregate_prompts

DIM = 16
# As small as the prompts of a ViT, whose weights are drawn with a standard deviation of 0.02.
SCALE = 0.02


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny products are fastest without threads."""
    torch.set_num_threads(1)


def draw(prompts, seed=0):
    return SCALE * np.random.default_rng(seed).normal(size=(prompts, DIM))


def tuned(pool, drift, seed):
    """A client's pool after training, which moved every prompt about as far as ``drift``."""
    return pool + drift * np.random.default_rng(seed).normal(size=pool.shape)


def test_prompts_in_another_order_are_matched_by_what_they_are_and_not_by_their_place():
    start = draw(4)
    straight, turned = tuned(start, 0.001, 1), tuned(start, 0.001, 2)[::-1]
    result = aggregate_prompts([straight, turned], start)
    order = [np.square(result - prompt).sum(axis=1).argmin() for prompt in start]
    np.testing.assert_allclose(result[order], (straight + turned[::-1]) / 2)


def test_averaging_by_place_would_have_mixed_them():
    start = draw(4)
    mixed = (start + start[::-1]) / 2
    assert np.abs(mixed - start).max() > SCALE / 2


def test_equal_pools_are_their_own_aggregate():
    pool = draw(4, seed=1)
    result = aggregate_prompts([pool] * 3, draw(4))
    np.testing.assert_allclose(np.sort(result, axis=0), np.sort(pool, axis=0))


def test_one_client_keeps_its_pool():
    pool = draw(4, seed=1)
    result = aggregate_prompts([pool], draw(4))
    np.testing.assert_allclose(np.sort(result, axis=0), np.sort(pool, axis=0))


def test_prompts_that_no_client_tuned_are_left_out():
    start = draw(5)
    pools = [start.copy() for _ in range(3)]
    for seed, pool in enumerate(pools):
        pool[:2] = tuned(pool[:2], 0.001, seed)
    result = aggregate_prompts(pools, start)
    assert len(result) == 2
    np.testing.assert_allclose(result, np.mean(pools, axis=0)[:2])


def test_what_one_client_tuned_stays_for_all():
    start = draw(3)
    pools = [start.copy() for _ in range(3)]
    for row, pool in enumerate(pools):
        pool[row] = tuned(pool[row], 0.001, row)
    assert len(aggregate_prompts(pools, start)) == 3


def test_a_pool_that_nobody_tuned_stays_as_it_was():
    start = draw(3)
    np.testing.assert_array_equal(aggregate_prompts([start, start], start), start)


def test_clients_that_drift_far_apart_make_the_pool_grow():
    start = draw(4)
    sizes = [
        len(aggregate_prompts([tuned(start, drift, seed) for seed in range(3)], start))
        for drift in (0.005, 0.05, 0.2)
    ]
    assert sizes[0] == 4
    assert 4 < sizes[1] <= sizes[2] == 12


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.floats(0.001, 1), st.integers(0, 1000))
def test_the_pool_has_at_least_what_a_client_has_and_at_most_what_all_have(
    clients, size, drift, seed
):
    start = draw(size, seed)
    pools = [tuned(start, drift, seed + 1 + client) for client in range(clients)]
    result = aggregate_prompts(pools, start, sweeps=5)
    assert size <= len(result) <= size * clients
    assert np.isfinite(result).all()


def test_a_seed_fixes_every_bit_and_no_state_of_torch_is_touched():
    start = draw(4)
    pools = [tuned(start, 0.05, seed) for seed in range(3)]
    before = torch.random.get_rng_state()
    first, second = (aggregate_prompts(pools, start, seed=[3, 1]) for _ in range(2))
    assert first.tobytes() == second.tobytes()
    assert torch.equal(before, torch.random.get_rng_state())
    others = [aggregate_prompts(pools, start, seed=[3, n]).tobytes() for n in range(2, 6)]
    assert any(other != first.tobytes() for other in others)


@pytest.mark.parametrize("scale", [1e3, 3e38])
def test_a_client_that_diverged_leaves_the_prompts_of_the_others_as_they_are(scale):
    start = draw(4)
    pools = [tuned(start, 0.001, seed) for seed in range(2)]
    result = aggregate_prompts([*pools, np.full_like(start, scale)], start)
    assert np.isfinite(result).all()
    sound = result[np.abs(result).max(axis=1) < 1]
    order = [np.square(sound - prompt).sum(axis=1).argmin() for prompt in start]
    np.testing.assert_allclose(sound[order], np.mean(pools, axis=0))
