import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from fedcof.training import TrainingSettings
from fedcof.training.exchange import Task
from fedcof.training.local import (
    Samples,
    accuracy,
    get_state,
    local_update,
    outputs,
    set_state,
    update_clients,
)
from fedcof.training.probing import probe_clients


def task(state, **settings):
    return Task(state, TrainingSettings(**{"client_lr": 0.1, "batch_size": 4, **settings}), 1)


def test_one_step_is_the_state_minus_the_learning_rate_times_the_gradient(model, start):
    samples = Samples(torch.ones(1, 6), torch.tensor([2]))
    loss = cross_entropy(model(samples.inputs), samples.labels)
    loss.backward()
    expected = start["head.weight"] - 0.1 * model.head.weight.grad.numpy()

    update = local_update(model, samples, task(start), "a")

    np.testing.assert_allclose(update.state["head.weight"], expected, rtol=1e-6)
    assert update.loss == pytest.approx(loss.item())
    assert update.num_examples == 1


def test_every_epoch_goes_through_all_samples_once(start):
    rows = list(task(start, local_epochs=2).batches(10, "a"))
    assert [len(one) for one in rows] == [4, 4, 2] * 2
    assert sorted(np.concatenate(rows[:3])) == sorted(np.concatenate(rows[3:])) == list(range(10))


def test_the_order_of_samples_depends_on_client_and_round_and_nothing_else(start):
    settings = TrainingSettings()
    first = [
        next(Task(start, settings, r).batches(50, c)) for r, c in ((1, "a"), (1, "b"), (2, "a"))
    ]
    again = next(Task({}, settings, 1).batches(50, "a"))
    assert np.array_equal(first[0], again)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], first[2])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "settings",
    [{}, {"local_epochs": 3}, {"strategy": "fedprox", "proximal_mu": 0.5, "local_epochs": 2}],
)
def test_probing_at_once_gives_the_numbers_of_one_client_after_the_other(
    model, clients, settings, bias
):
    if bias:
        model.head = torch.nn.Linear(6, 3)
    asked = task(get_state(model), **settings)
    ids = list(clients)

    at_once = probe_clients(clients, asked, ids)
    in_turn = update_clients(model, clients, asked, ids)

    for one, other in zip(at_once, in_turn, strict=True):
        for name, value in other.state.items():
            np.testing.assert_allclose(one.state[name], value, rtol=1e-5, atol=1e-6)
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
        assert one.num_examples == other.num_examples


def test_clients_probed_in_blocks_give_the_same_bits(clients, start, monkeypatch):
    whole = probe_clients(clients, task(start), list(clients))
    monkeypatch.setattr("fedcof.training.probing._BLOCK_BYTES", 2 * start["head.weight"].nbytes)
    blocks = probe_clients(clients, task(start), list(clients))
    for one, other in zip(whole, blocks, strict=True):
        np.testing.assert_allclose(one.state["head.weight"], other.state["head.weight"], rtol=1e-6)


def test_the_proximal_term_keeps_clients_near_the_server(model, clients, start):
    def moved(**settings):
        asked = task(start, local_epochs=5, **settings)
        update = local_update(model, clients["5"], asked, "5")
        return np.abs(update.state["head.weight"] - start["head.weight"]).sum()

    assert moved(strategy="fedprox", proximal_mu=5.0) < 0.7 * moved()


def test_a_client_smaller_than_the_batch_takes_one_step_with_all_it_has(model, clients, start):
    update = local_update(model, clients["1"], task(start, batch_size=64), "1")
    assert update.num_examples == 4
    assert not np.array_equal(update.state["head.weight"], start["head.weight"])


def test_a_client_with_one_class_lowers_its_loss(model, start):
    samples = Samples(
        torch.randn(8, 6, generator=torch.Generator().manual_seed(0)), torch.ones(8).long()
    )
    losses = [local_update(model, samples, task(start, local_epochs=n), "a").loss for n in (1, 20)]
    assert losses[1] < losses[0]


def test_normalisation_layers_keep_their_statistics():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 3))
    before = model[0].running_var.clone()
    samples = Samples(3 * torch.ones(4, 6), torch.tensor([0, 1, 2, 0]))
    update = local_update(model, samples, task(get_state(model)), "a")
    assert torch.equal(model[0].running_var, before)
    assert set(update.state) == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_adam_is_refused_where_clients_are_probed_at_once(clients, start):
    with pytest.raises(ValueError, match="sgd"):
        probe_clients(clients, task(start, optimizer="adam"), list(clients))


def test_adam_steps_where_clients_train_in_turn(model, clients, start):
    update = local_update(model, clients["0"], task(start, optimizer="adam"), "0")
    moved = np.abs(update.state["head.weight"] - start["head.weight"])
    np.testing.assert_allclose(moved[moved > 0], 0.1, rtol=1e-3)  # Adam's first step


def test_accuracy_is_the_share_of_right_answers(model):
    state = {"head.weight": np.eye(3, 6, dtype=np.float32)}
    samples = Samples(torch.eye(3, 6), torch.tensor([0, 1, 0]))
    assert accuracy(model, samples, state) == pytest.approx(2 / 3)


def test_a_state_survives_the_model(model, start):
    set_state(model, {"head.weight": 2 * start["head.weight"]})
    np.testing.assert_array_equal(get_state(model)["head.weight"], 2 * start["head.weight"])


class Pool(torch.nn.Module):
    """Features to which a pool of prompts is added, whose number may change."""

    def __init__(self):
        super().__init__()
        self.prompts = torch.nn.Parameter(torch.ones(2, 6))

    def forward(self, features):
        return features + self.prompts.sum(dim=0)


@pytest.mark.parametrize(
    "settings", [{}, {"optimizer": "adam"}, {"strategy": "fedprox", "proximal_mu": 0.5}]
)
def test_a_step_computes_on_the_device_of_the_model(model, settings):
    """The device "meta" has no numbers: the steps are done, and then they cannot be copied."""
    model.backbone = Pool()
    state = get_state(model)
    state["backbone.prompts"] = np.ones((3, 6), np.float32)
    samples = Samples(torch.ones(4, 6), torch.tensor([0, 1, 2, 0]))
    with pytest.raises(NotImplementedError, match="copy out of meta tensor"):
        local_update(model.to("meta"), samples, task(state, **settings), "a")
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert model.backbone.prompts.shape == (3, 6)


def test_outputs_are_computed_on_the_device_of_the_model(model):
    with pytest.raises(NotImplementedError, match="copy out of meta tensor"):
        next(outputs(model.to("meta"), torch.ones(4, 6)))
