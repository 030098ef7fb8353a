"""The server's strategies: each the numbers of Flower's class of the same name."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedcof.training import TrainingSettings
from fedcof.training.exchange import Update
from fedcof.training.server_optimizers import mean_loss, server_optimizer

strategies = pytest.importorskip("flwr.serverapp.strategy")
records = pytest.importorskip("flwr.app")

SHAPES = {"head.weight": (3, 5), "head.bias": (3,), "backbone.kernel": (2, 2, 2)}
OPTIONS = {"fraction_train": 1.0, "min_train_nodes": 1, "min_available_nodes": 1}
ADAPTIVE = {"eta": 0.01, "eta_l": 0.001, "tau": 1e-8}
BETAS = {"beta_1": 0.9, "beta_2": 0.999}
FLOWER = {
    "fedavg": lambda: strategies.FedAvg(**OPTIONS),
    "fedprox": lambda: strategies.FedProx(proximal_mu=0.1, **OPTIONS),
    "fedadam": lambda: strategies.FedAdam(**OPTIONS, **ADAPTIVE, **BETAS),
    "fedyogi": lambda: strategies.FedYogi(**OPTIONS, **ADAPTIVE, **BETAS),
    "fedadagrad": lambda: strategies.FedAdagrad(**OPTIONS, **ADAPTIVE),
}


@dataclass
class Reply:
    """What a strategy of Flower reads of a message, which only Flower's processes can make."""

    content: object

    def has_error(self):
        return False


def reply(update):
    arrays = {name: records.Array(value) for name, value in update.state.items()}
    metrics = {"num-examples": update.num_examples, "loss": update.loss}
    return Reply(
        records.RecordDict(
            {"arrays": records.ArrayRecord(arrays), "metrics": records.MetricRecord(metrics)}
        )
    )


def draw(rng, scale=1.0, shapes=SHAPES):
    return {name: rng.normal(scale=scale, size=s).astype(np.float32) for name, s in shapes.items()}


def settings_of(strategy):
    return TrainingSettings(
        strategy=strategy,
        server_lr=0.01 if strategy in ("fedadam", "fedyogi", "fedadagrad") else 1.0,
        proximal_mu=0.1 if strategy == "fedprox" else 0.0,
    )


@pytest.mark.parametrize("strategy", FLOWER)
def test_ten_rounds_of_random_updates_give_the_numbers_of_flower(strategy):
    rng = np.random.default_rng(0)
    flower, ours = FLOWER[strategy](), server_optimizer(settings_of(strategy))
    state = draw(rng)
    moments = ours.init(state)
    for server_round in range(1, 11):
        updates = [
            Update(
                {name: state[name] + change for name, change in draw(rng, 0.1).items()},
                int(rng.integers(1, 100)),
                float(rng.uniform()),
            )
            for _ in range(4)
        ]
        flower.current_arrays = state
        arrays, metrics = flower.aggregate_train(server_round, [reply(one) for one in updates])
        state, moments = ours.apply(moments, state, updates, server_round)
        assert mean_loss(updates) == pytest.approx(metrics["loss"], rel=1e-12)
        for name, value in state.items():
            np.testing.assert_allclose(value, arrays[name].numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("strategy", FLOWER)
def test_one_client_with_arrays_of_odd_shapes_gives_the_numbers_of_flower(strategy):
    shapes = {"empty": (0,), "single": (1, 1), "row": (1, 7)}
    rng = np.random.default_rng(0)
    flower, ours = FLOWER[strategy](), server_optimizer(settings_of(strategy))
    state = draw(rng, shapes=shapes)
    moments = ours.init(state)
    for server_round in range(1, 4):
        update = Update(draw(rng, shapes=shapes), 7, 0.5)
        flower.current_arrays = state
        arrays, _ = flower.aggregate_train(server_round, [reply(update)])
        state, moments = ours.apply(moments, state, [update], server_round)
        for name, value in state.items():
            assert value.shape == shapes[name]
            np.testing.assert_allclose(value, arrays[name].numpy(), rtol=1e-6, atol=1e-6)


def test_an_average_weighs_clients_by_their_samples():
    ours = server_optimizer(TrainingSettings())
    updates = [
        Update({"w": np.array([value], np.float32)}, num_examples, 0.0)
        for value, num_examples in ((1.0, 1), (5.0, 3))
    ]
    state, _ = ours.apply(ours.init({}), {}, updates, 1)
    assert state["w"].tolist() == [4.0]


@pytest.mark.parametrize("strategy", FLOWER)
def test_no_input_is_changed(strategy):
    ours, rng = server_optimizer(settings_of(strategy)), np.random.default_rng(0)
    state, update = draw(rng), Update(draw(rng), 3, 0.0)
    kept = [{name: value.copy() for name, value in s.items()} for s in (state, update.state)]
    moments = ours.init(state)
    ours.apply(moments, state, [update, update], 1)
    for before, after in zip(kept, (state, update.state), strict=True):
        for name, value in before.items():
            np.testing.assert_array_equal(value, after[name])
    assert all(not value.any() for moment in moments.values() for value in moment.values())
