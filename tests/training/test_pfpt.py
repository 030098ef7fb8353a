"""Rounds of PFPT: prompts are matched by the server, and the pool changes its size on the way."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from fedcof.training import TrainingSettings, pfpt_bytes, train
from fedcof.training.exchange import PROMPTS, Replies, Update, in_process

DIM, HEAD = 16, "head.weight"


@pytest.fixture(autouse=True)
def _quiet():
    torch.set_num_threads(1)


def tune(task, client_ids):
    """Clients that tune all prompts but the last, and add their number to the head."""
    updates = []
    for client_id in client_ids:
        rng = np.random.default_rng([task.server_round, int(client_id)])
        prompts = task.state[PROMPTS].copy()
        prompts[:-1] += 0.001 * rng.normal(size=prompts[:-1].shape).astype(np.float32)
        state = {PROMPTS: prompts, HEAD: task.state[HEAD] + np.float32(client_id)}
        updates.append(Update(state, 1, 0.0))
    return updates


@pytest.fixture
def start():
    prompts = 0.02 * np.random.default_rng(0).normal(size=(5, DIM))
    return {PROMPTS: prompts.astype(np.float32), HEAD: np.zeros((2, DIM), np.float32)}


def run(start, rounds, exchange=None, **options):
    exchange = exchange or in_process(tune)
    settings = TrainingSettings(strategy="pfpt", rounds=rounds, participation=1.0)
    return train(exchange, ["0", "1", "2"], start, settings, lambda state: 0.0, **options)


def same(one, other):
    return all(one[name].tobytes() == other[name].tobytes() for name in other)


def test_prompts_are_matched_and_the_head_is_averaged(start):
    def turned(task, client_ids):
        updates = tune(task, client_ids)
        updates[1].state[PROMPTS][:] = updates[1].state[PROMPTS][::-1].copy()
        return updates

    state, _ = run(start, 1, in_process(turned))
    distances = np.abs(state[PROMPTS][:, None] - start[PROMPTS]).max(axis=2)
    assert sorted(distances.argmin(axis=1)) == [0, 1, 2, 3, 4]
    assert distances.min(axis=1).max() < 0.005
    np.testing.assert_array_equal(state[HEAD], np.ones((2, DIM)))


def test_each_round_costs_the_pool_that_it_sends(start):
    sizes = []
    state, rounds = run(start, 3, on_round=lambda one: sizes.append(one.formula_bytes))
    assert len(state[PROMPTS]) == 2
    pools = [5, 4, 3]
    assert sizes == [pfpt_bytes(2 * DIM, DIM, pools[:rounds], 3) for rounds in range(4)]
    assert 0 < rounds[2].wire_bytes - rounds[1].wire_bytes < rounds[1].wire_bytes


def test_a_run_whose_pool_changed_goes_on_from_a_checkpoint_to_the_same_bits(start, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    whole, history = run(start, 3)
    run(start, 2, checkpoint=path, checkpoint_every=2)
    resumed, again = run(start, 3, checkpoint=path)
    assert same(resumed, whole)
    assert again == history


def test_the_order_of_arrival_changes_no_bit(start):
    def backwards(task, client_ids):
        replies = in_process(tune)(task, client_ids)
        return Replies(dict(reversed(replies.updates.items())), wire_bytes=replies.wire_bytes)

    assert same(run(start, 2, backwards)[0], run(start, 2)[0])
