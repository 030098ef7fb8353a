"""Rounds of PFPT: prompts are matched by the server, and the pool changes its size on the way."""

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import logging

import numpy as np
import torch

from fedcof.federation.training import train
from fedcof.federation.training_grid import InProcessGrid
from fedcof.training import TrainingSettings, pfpt_bytes
from fedcof.training.local import Update
from fedcof.training.trained import PROMPTS

DIM, HEAD = 16, "head.weight"


@pytest.fixture(autouse=True)
def _quiet():
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)


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


def run(start, rounds, grid=None, **options):
    grid = grid or InProcessGrid(["0", "1", "2"], tune)
    settings = TrainingSettings(strategy="pfpt", rounds=rounds, participation=1.0)
    return train(grid, grid.nodes, start, settings, lambda state: 0.0, **options)


def same(one, other):
    return all(one[name].tobytes() == other[name].tobytes() for name in other)


def test_prompts_are_matched_and_the_head_is_averaged(start):
    def turned(task, client_ids):
        updates = tune(task, client_ids)
        updates[1].state[PROMPTS][:] = updates[1].state[PROMPTS][::-1].copy()
        return updates

    state, _ = run(start, 1, InProcessGrid(["0", "1", "2"], turned))
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
    class Backwards(InProcessGrid):
        def send_and_receive(self, messages, *, timeout=None):
            return reversed(list(super().send_and_receive(messages, timeout=timeout)))

    backwards, _ = run(start, 2, Backwards(["0", "1", "2"], tune))
    assert same(backwards, run(start, 2)[0])
