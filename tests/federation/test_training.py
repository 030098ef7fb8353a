"""The rounds of training: what the server makes of good and bad replies, and of an interruption."""

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import io
import logging
from functools import partial

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict

from fedcof.errors import TrainingError
from fedcof.federation.training import choose_clients, train
from fedcof.federation.training_grid import InProcessGrid
from fedcof.federation.training_messages import to_record, to_state, wire_bytes
from fedcof.training import TrainingSettings
from fedcof.training.classifier import Classifier
from fedcof.training.heads import random_head
from fedcof.training.local import Samples, get_state, update_clients
from fedcof.training.probing import probe_clients

DIM, CLASSES = 6, 3
ADAPTIVE = ("fedadam", "fedyogi", "fedadagrad")


def draw(rng, num_samples):
    labels = rng.integers(CLASSES, size=num_samples)
    features = rng.normal(size=(num_samples, DIM)) + 2 * np.eye(CLASSES, DIM)[labels]
    return features.astype(np.float32), labels


@pytest.fixture(autouse=True)
def _quiet():
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)


@pytest.fixture(scope="module")
def clients():
    rng = np.random.default_rng(0)
    parts = {f"{k}": draw(rng, 5 + k) for k in range(10)}
    return {name: Samples(torch.tensor(x), torch.tensor(y)) for name, (x, y) in parts.items()}


@pytest.fixture(scope="module")
def evaluate():
    features, labels = draw(np.random.default_rng(1), 200)
    return lambda state: np.mean((features @ state["head.weight"].T).argmax(axis=1) == labels)


@pytest.fixture
def model():
    return Classifier(torch.nn.Identity(), random_head(DIM, range(CLASSES), seed=0))


@pytest.fixture
def start(model):
    return get_state(model)


def settings(**chosen):
    return TrainingSettings(
        **{"rounds": 4, "client_lr": 0.1, "batch_size": 4, "participation": 0.5, **chosen}
    )


@pytest.fixture
def grid(clients):
    return InProcessGrid(list(clients), partial(probe_clients, clients))


def same(one, other):
    return all(one[name].tobytes() == other[name].tobytes() for name in other)


def test_fedavg_is_the_average_of_the_clients_by_their_samples(clients, grid, start, evaluate):
    state, _ = train(grid, grid.nodes, start, settings(rounds=1, participation=1.0), evaluate)
    updates = {}

    def spy(task, client_ids):
        replies = probe_clients(clients, task, client_ids)
        updates.update(zip(client_ids, replies, strict=True))
        return replies

    spying = InProcessGrid(list(clients), spy)
    train(spying, spying.nodes, start, settings(rounds=1, participation=1.0), evaluate)
    expected = np.average(
        [updates[name].state["head.weight"] for name in sorted(updates)],
        axis=0,
        weights=[updates[name].num_examples for name in sorted(updates)],
    )
    np.testing.assert_allclose(state["head.weight"], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("strategy", ["fedavg", "fedprox", *ADAPTIVE])
def test_every_strategy_learns(grid, start, evaluate, strategy):
    chosen = settings(
        strategy=strategy,
        rounds=15,
        server_lr=0.1 if strategy in ADAPTIVE else 1.0,
        proximal_mu=0.1 if strategy == "fedprox" else 0.0,
    )
    _, rounds = train(grid, grid.nodes, start, chosen, evaluate)
    assert rounds[-1].accuracy > rounds[0].accuracy + 0.2
    assert rounds[-1].loss < rounds[1].loss


def test_clients_at_once_and_in_turn_give_the_same_run(clients, grid, model, start, evaluate):
    in_turn = InProcessGrid(list(clients), partial(update_clients, model, clients))
    (one, first), (other, second) = (
        train(g, g.nodes, start, settings(), evaluate) for g in (grid, in_turn)
    )
    np.testing.assert_allclose(one["head.weight"], other["head.weight"], rtol=1e-5, atol=1e-6)
    assert [r.wire_bytes for r in first] == [r.wire_bytes for r in second]


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(grid, start, evaluate):
    states = [
        train(grid, grid.nodes, start, settings(seed=seed), evaluate)[0] for seed in (0, 0, 1)
    ]
    assert same(states[0], states[1])
    assert not same(states[0], states[2])


class Disturbed(InProcessGrid):
    """A grid whose replies are changed on the way."""

    def __init__(self, clients, change):
        super().__init__(list(clients), partial(probe_clients, clients))
        self.change = change

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        return self.change(messages, super().send_and_receive(messages))


def test_the_order_of_arrival_changes_no_bit(clients, grid, start, evaluate):
    backwards = Disturbed(clients, lambda messages, replies: replies[::-1])
    states = [train(g, g.nodes, start, settings(), evaluate)[0] for g in (grid, backwards)]
    assert same(*states)


def nan(reply):
    reply.content["arrays"] = to_record({"head.weight": np.full((CLASSES, DIM), np.nan)})


def other_shape(reply):
    reply.content["arrays"] = to_record({"head.weight": np.zeros((CLASSES, DIM + 1))})


def other_type(reply):
    reply.content["arrays"] = ArrayRecord({"head.weight": Array(np.zeros((CLASSES, DIM)))})


def other_name(reply):
    reply.content["arrays"] = to_record({"weight": np.zeros((CLASSES, DIM))})


def garbage(reply):
    reply.content["arrays"]["head.weight"].data = b"no array"


def unclosed_header(reply):
    reply.content["arrays"]["head.weight"].data = b"\x93NUMPY\x01\x00\x08\x00{'a': ( "


def header_of_a_huge_array(reply):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000,), }\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    reply.content["arrays"]["head.weight"].data = data


def zipped_arrays(reply):
    data = io.BytesIO()
    np.savez(data, np.zeros((CLASSES, DIM), np.float32))
    reply.content["arrays"]["head.weight"].data = data.getvalue()


def second_record(reply):
    reply.content["more"] = to_record({"head.weight": np.zeros((CLASSES, DIM))})


def no_samples(reply):
    reply.content["metrics"]["num-examples"] = 0


def infinite_samples(reply):
    reply.content["metrics"]["num-examples"] = float("inf")


def list_of_samples(reply):
    reply.content["metrics"]["num-examples"] = [1, 2]


def nan_loss(reply):
    reply.content["metrics"]["loss"] = float("nan")


def list_of_losses(reply):
    reply.content["metrics"]["loss"] = [1.0, 2.0]


def more_metrics(reply):
    reply.content["metrics"]["accuracy"] = 1.0


@pytest.mark.parametrize(
    ("harm", "text"),
    [
        (nan, "NaN or infinity.*client_lr"),
        (other_shape, r"shape \(3, 7\), expected float32 of shape \(3, 6\)"),
        (other_type, "float64"),
        (other_name, r"\['weight'\], expected \['head.weight'\]"),
        (garbage, "not an array"),
        (unclosed_header, "not an array"),
        (header_of_a_huge_array, "not an array"),
        (zipped_arrays, "not an array"),
        (second_record, "'more'"),
        (no_samples, "num-examples is 0"),
        (infinite_samples, "num-examples is inf"),
        (list_of_samples, "num-examples"),
        (nan_loss, "loss is nan"),
        (list_of_losses, r"loss is \[1.0, 2.0\]"),
        (more_metrics, "accuracy"),
    ],
)
def test_one_bad_reply_is_refused_and_named_and_the_run_goes_on(
    clients, start, evaluate, harm, text
):
    victim = sorted(choose_clients(clients, 0.5, seed=0, number=1))[2]

    def change(messages, replies):
        for message, reply in zip(messages, replies, strict=True):
            config = message.content["config"]
            if config["client-id"] == victim and config["server-round"] == 1:
                harm(reply)
        return replies

    grid = Disturbed(clients, change)
    state, rounds = train(grid, grid.nodes, start, settings(), evaluate)
    assert len(rounds) == 5
    assert rounds[1].clients == 4
    [refused] = rounds[1].refused
    assert refused.startswith(f"client '{victim}': ")
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(refused)
    assert np.isfinite(state["head.weight"]).all()


def test_a_client_that_speaks_for_another_is_not_heard(clients, grid, start, evaluate):
    def change(messages, replies):
        for reply in replies:
            reply.content["client"]["client-id"] = "stranger"
        return replies

    liars = Disturbed(clients, change)
    with pytest.raises(TrainingError, match="no reply"):
        train(liars, liars.nodes, start, settings(), evaluate)


def test_an_error_of_a_node_is_named_by_its_code_and_its_text_stays_unread(
    clients, start, evaluate
):
    def change(messages, replies):
        return [Message(Error(2, "patient 42"), reply_to=messages[0])]

    failing = Disturbed(clients, change)
    with pytest.raises(
        TrainingError, match=r"round 1: none of the 5 replies.*raised an exc"
    ) as caught:
        train(failing, failing.nodes, start, settings(), evaluate)
    assert "patient" not in str(caught.value)


def test_a_learning_rate_that_diverges_everywhere_stops_with_the_clients_named(
    grid, start, evaluate
):
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(TrainingError, match=r"round \d.*client '\d'.*NaN or infinity"),
    ):
        train(grid, grid.nodes, start, settings(client_lr=1e40), evaluate)


def test_a_step_of_the_server_that_diverges_stops_the_run(grid, start, evaluate):
    with (
        np.errstate(over="ignore"),
        pytest.raises(TrainingError, match="smaller server_lr"),
    ):
        train(grid, grid.nodes, start, settings(strategy="fedadam", server_lr=1e39), evaluate)


@pytest.mark.parametrize("strategy", ["fedavg", *ADAPTIVE])
def test_a_run_that_goes_on_from_a_checkpoint_ends_at_the_same_bits(
    grid, start, evaluate, tmp_path, strategy
):
    server_lr = 0.1 if strategy in ADAPTIVE else 1.0
    whole = settings(strategy=strategy, server_lr=server_lr, rounds=7)
    half = settings(strategy=strategy, server_lr=server_lr, rounds=4)
    path = tmp_path / "checkpoint.safetensors"
    expected, expected_rounds = train(grid, grid.nodes, start, whole, evaluate)

    train(grid, grid.nodes, start, half, evaluate, checkpoint=path, checkpoint_every=2)
    state, rounds = train(grid, grid.nodes, start, whole, evaluate, checkpoint=path)

    assert same(state, expected)
    assert rounds == expected_rounds


def test_a_run_stopped_between_two_checkpoints_goes_on_from_the_last(
    grid, start, evaluate, tmp_path
):
    path = tmp_path / "checkpoint.safetensors"
    expected, _ = train(grid, grid.nodes, start, settings(), evaluate)

    def stop(one):
        if one.number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(
            grid,
            grid.nodes,
            start,
            settings(),
            evaluate,
            checkpoint=path,
            checkpoint_every=2,
            on_round=stop,
        )
    heard = []
    state, _ = train(
        grid, grid.nodes, start, settings(), evaluate, checkpoint=path, on_round=heard.append
    )
    assert same(state, expected)
    assert [one.number for one in heard] == [0, 1, 2, 3, 4]


def test_a_checkpoint_of_another_run_is_refused(grid, start, evaluate, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    train(grid, grid.nodes, start, settings(), evaluate, checkpoint=path)
    with pytest.raises(TrainingError, match="client_lr"):
        train(grid, grid.nodes, start, settings(client_lr=0.2), evaluate, checkpoint=path)
    other = {"head.weight": start["head.weight"] + 1}
    with pytest.raises(TrainingError, match="another model"):
        train(grid, grid.nodes, other, settings(), evaluate, checkpoint=path)


def test_a_checkpoint_of_other_data_is_refused(grid, start, evaluate, tmp_path):
    path = tmp_path / "checkpoint.safetensors"

    def run(**depends_on):
        train(grid, grid.nodes, start, settings(), evaluate, checkpoint=path, depends_on=depends_on)

    run(alpha=0.1)
    run(alpha=0.1)
    with pytest.raises(TrainingError, match="alpha"):
        run(alpha=0.5)


def test_a_checkpoint_with_more_rounds_than_asked_is_refused(grid, start, evaluate, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    train(grid, grid.nodes, start, settings(rounds=4), evaluate, checkpoint=path)
    with pytest.raises(TrainingError, match="has 4 rounds of training, more than 3"):
        train(grid, grid.nodes, start, settings(rounds=3), evaluate, checkpoint=path)


def test_a_truncated_checkpoint_is_named(grid, start, evaluate, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(b"x" * 20)
    with pytest.raises(TrainingError, match=r"checkpoint\.safetensors.*delete it"):
        train(grid, grid.nodes, start, settings(), evaluate, checkpoint=path)


def test_a_run_stops_at_its_target(grid, start, evaluate):
    _, rounds = train(grid, grid.nodes, start, settings(rounds=50), evaluate, target=0.7)
    assert rounds[-1].accuracy >= 0.7
    assert all(one.accuracy < 0.7 for one in rounds[:-1])


def test_a_round_costs_the_formula_and_little_more_on_the_wire(grid, start, evaluate):
    _, rounds = train(grid, grid.nodes, start, settings(), evaluate)
    assert rounds[0].formula_bytes == rounds[0].wire_bytes == 0
    assert rounds[1].formula_bytes == 2 * DIM * CLASSES * 5 * 4
    large = {"head.weight": np.zeros((100, 512), np.float32)}
    overhead = wire_bytes(RecordDict({"arrays": to_record(large)})) / large["head.weight"].nbytes
    assert 1 < overhead < 1.01


def test_training_goes_on_where_the_history_before_it_ends(grid, start, evaluate):
    _, first = train(grid, grid.nodes, start, settings(rounds=2), evaluate)
    _, second = train(grid, grid.nodes, start, settings(rounds=2), evaluate, history=first)
    assert [one.number for one in second] == [0, 1, 2, 3, 4, 5]
    assert second[-1].formula_bytes == 2 * first[-1].formula_bytes


def test_adaptive_strategies_send_float32(grid, start, evaluate):
    chosen = settings(strategy="fedadam", server_lr=0.1, rounds=3)
    state, rounds = train(grid, grid.nodes, start, chosen, evaluate)
    assert state["head.weight"].dtype == np.float32
    first, second = np.diff([one.wire_bytes for one in rounds])[:2]
    assert first == second


def test_clients_of_a_round_are_a_seeded_share(clients):
    ids = list(clients)
    chosen = [choose_clients(ids, 0.3, seed=0, number=r) for r in (1, 1, 2)]
    assert len(chosen[0]) == 3
    assert chosen[0] == chosen[1] == choose_clients(ids[::-1], 0.3, seed=0, number=1)
    assert chosen[0] != chosen[2]
    assert len(choose_clients(ids, 0.01, seed=0, number=1)) == 1


def test_a_state_survives_the_message(start):
    assert same(to_state(to_record(start)), start)


def test_a_metric_record_without_loss_is_refused(clients, start, evaluate):
    def change(messages, replies):
        replies[0].content["metrics"] = MetricRecord({"num-examples": 3})
        return replies

    grid = Disturbed(clients, change)
    _, rounds = train(grid, grid.nodes, start, settings(rounds=1), evaluate)
    assert rounds[1].clients == 4
