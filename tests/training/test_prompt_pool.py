import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof.training import aggregate_prompts

A, B, C = np.eye(3) * 10


def near(*prompts, seed=0):
    return np.stack(prompts) + 0.01 * np.random.default_rng(seed).normal(size=(len(prompts), 3))


def test_prompts_in_another_order_are_matched_by_what_they_are_and_not_by_their_place():
    pools = [near(A, B, seed=1), near(A, B, seed=2), near(B, A, seed=3)]
    result = aggregate_prompts(pools, np.stack([A, B]))
    np.testing.assert_allclose(result, [A, B], atol=0.05)


def test_averaging_by_place_would_have_mixed_them():
    pools = [near(A, B, seed=1), near(B, A, seed=2), near(B, A, seed=3)]
    assert np.abs(np.mean(pools, axis=0) - [A, B]).max() > 3


def test_a_prompt_unlike_all_others_opens_a_new_one():
    pools = [near(A, B, seed=k) for k in range(4)] + [near(A, C, seed=9)]
    result = aggregate_prompts(pools, np.stack([A, B]))
    assert len(result) == 3
    np.testing.assert_allclose(result[2], C, atol=0.1)


def test_a_prompt_that_nobody_holds_is_left_out():
    pools = [near(A, seed=k) for k in range(3)]
    assert len(aggregate_prompts(pools, np.stack([A, B]))) == 1


def test_one_client_keeps_its_pool():
    np.testing.assert_allclose(aggregate_prompts([near(A, B)], np.stack([A, B])), near(A, B))


def test_equal_pools_are_their_own_aggregate():
    pool = np.stack([A, B])
    np.testing.assert_allclose(aggregate_prompts([pool] * 3, pool), pool)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 1000))
def test_the_pool_is_finite_and_no_smaller_than_a_clients(clients, size, seed):
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(size, 3))
    pools = [start + rng.normal(size=(size, 3)) for _ in range(clients)]
    result = aggregate_prompts(pools, start)
    assert size <= len(result) <= size * clients
    assert np.isfinite(result).all()


def test_the_result_is_the_same_every_time():
    rng = np.random.default_rng(0)
    pools = list(rng.normal(size=(4, 5, 8)))
    first, second = (aggregate_prompts(pools, pools[0]) for _ in range(2))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("new_prompts", [1e-9, 1e9])
def test_few_new_prompts_keep_the_pool_small(new_prompts):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(4, 2))
    pools = [start + 0.8 * rng.normal(size=(4, 2)) for _ in range(5)]
    size = len(aggregate_prompts(pools, start, new_prompts=new_prompts))
    assert size == 4 if new_prompts < 1 else size > 4
