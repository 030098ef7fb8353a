"""The rounds of training: what the server makes of good and bad replies, and of an interruption."""

import pytest

pytest.importorskip("torch")

from dataclasses import replace
from functools import partial

import numpy as np
import torch

from fedcof.errors import TrainingError
from fedcof.training import TrainingSettings, best, train
from fedcof.training.classifier import Classifier
from fedcof.training.exchange import Replies, Task, Update, in_process
from fedcof.training.heads import random_head
from fedcof.training.local import Samples, get_state, update_clients
from fedcof.training.probing import probe_clients
from fedcof.training.sampling import choose_clients
from fedcof.wire import encode

DIM, CLASSES = 6, 3
ADAPTIVE = ("fedadam", "fedyogi", "fedadagrad")


def draw(rng, num_samples):
    labels = rng.integers(CLASSES, size=num_samples)
    features = rng.normal(size=(num_samples, DIM)) + 2 * np.eye(CLASSES, DIM)[labels]
    return features.astype(np.float32), labels


@pytest.fixture(autouse=True)
def _quiet():
    torch.set_num_threads(1)


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
def exchange(clients):
    return in_process(partial(probe_clients, clients))


def same(one, other):
    return all(one[name].tobytes() == other[name].tobytes() for name in other)


def test_fedavg_is_the_average_of_the_clients_by_their_samples(clients, exchange, start, evaluate):
    state, _ = train(exchange, clients, start, settings(rounds=1, participation=1.0), evaluate)
    updates = {}

    def spy(task, client_ids):
        replies = probe_clients(clients, task, client_ids)
        updates.update(zip(client_ids, replies, strict=True))
        return replies

    train(in_process(spy), clients, start, settings(rounds=1, participation=1.0), evaluate)
    expected = np.average(
        [updates[name].state["head.weight"] for name in sorted(updates)],
        axis=0,
        weights=[updates[name].num_examples for name in sorted(updates)],
    )
    np.testing.assert_allclose(state["head.weight"], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("strategy", ["fedavg", "fedprox", *ADAPTIVE])
def test_every_strategy_learns(clients, exchange, start, evaluate, strategy):
    chosen = settings(
        strategy=strategy,
        rounds=15,
        server_lr=0.1 if strategy in ADAPTIVE else 1.0,
        proximal_mu=0.1 if strategy == "fedprox" else 0.0,
    )
    _, rounds = train(exchange, clients, start, chosen, evaluate)
    assert rounds[-1].accuracy > rounds[0].accuracy + 0.2
    assert rounds[-1].loss < rounds[1].loss


def test_clients_at_once_and_in_turn_give_the_same_run(clients, exchange, model, start, evaluate):
    in_turn = in_process(partial(update_clients, model, clients))
    (one, first), (other, second) = (
        train(e, clients, start, settings(), evaluate) for e in (exchange, in_turn)
    )
    np.testing.assert_allclose(one["head.weight"], other["head.weight"], rtol=1e-5, atol=1e-6)
    assert [r.wire_bytes for r in first] == [r.wire_bytes for r in second]


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(
    clients, exchange, start, evaluate
):
    states = [
        train(exchange, clients, start, settings(seed=seed), evaluate)[0] for seed in (0, 0, 1)
    ]
    assert same(states[0], states[1])
    assert not same(states[0], states[2])


def changed(exchange, change):
    """An exchange whose replies are changed on the way."""

    def changing(task, client_ids):
        replies = exchange(task, client_ids)
        return replace(replies, updates=change(task, dict(replies.updates)))

    return changing


def test_the_order_of_arrival_changes_no_bit(clients, exchange, start, evaluate):
    backwards = changed(exchange, lambda task, updates: dict(reversed(updates.items())))
    states = [train(e, clients, start, settings(), evaluate)[0] for e in (exchange, backwards)]
    assert same(*states)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ({"state": {"head.weight": np.full((CLASSES, DIM), np.nan, np.float32)}}, "client_lr"),
        (
            {"state": {"head.weight": np.zeros((CLASSES, DIM + 1), np.float32)}},
            r"of shape \(3, 6\)",
        ),
        ({"state": {"head.weight": np.zeros((CLASSES, DIM))}}, "float64"),
        ({"state": {}}, r"\[\], expected \['head.weight'\]"),
        ({"num_examples": 0}, "num-examples is 0"),
        ({"num_examples": float("inf")}, "num-examples is inf"),
        ({"loss": float("nan")}, "loss is nan"),
    ],
)
def test_one_bad_update_is_refused_and_named_and_the_run_goes_on(  # noqa: PLR0917
    clients, exchange, start, evaluate, fault, text
):
    victim = choose_clients(clients, 0.5, seed=0, server_round=1)[2]

    def change(task, updates):
        if task.server_round == 1:
            updates[victim] = replace(updates[victim], **fault)
        return updates

    harmed = changed(exchange, change)
    state, rounds = train(harmed, clients, start, settings(), evaluate)
    assert len(rounds) == 5
    assert rounds[1].clients == 4
    [refused] = rounds[1].refused
    assert refused.startswith(f"client '{victim}': ")
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(refused)
    assert np.isfinite(state["head.weight"]).all()


def test_the_reason_of_a_client_that_failed_is_told(clients, start, evaluate):
    def failing(task, client_ids):
        return Replies({}, dict.fromkeys(client_ids[1:], "it went offline"))

    with pytest.raises(
        TrainingError, match=r"round 1: none of the 5 replies.*no reply.*went offline"
    ):
        train(failing, clients, start, settings(), evaluate)


def test_a_learning_rate_that_diverges_everywhere_stops_with_the_clients_named(
    clients, exchange, start, evaluate
):
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(TrainingError, match=r"round \d.*client '\d'.*NaN or infinity"),
    ):
        train(exchange, clients, start, settings(client_lr=1e40), evaluate)


def test_a_step_of_the_server_that_diverges_stops_the_run(clients, exchange, start, evaluate):
    with (
        np.errstate(over="ignore"),
        pytest.raises(TrainingError, match="smaller server_lr"),
    ):
        train(exchange, clients, start, settings(strategy="fedadam", server_lr=1e39), evaluate)


@pytest.mark.parametrize("strategy", ["fedavg", *ADAPTIVE])
def test_a_run_that_goes_on_from_a_checkpoint_ends_at_the_same_bits(  # noqa: PLR0917
    clients, exchange, start, evaluate, tmp_path, strategy
):
    server_lr = 0.1 if strategy in ADAPTIVE else 1.0
    whole = settings(strategy=strategy, server_lr=server_lr, rounds=7)
    half = settings(strategy=strategy, server_lr=server_lr, rounds=4)
    path = tmp_path / "checkpoint.safetensors"
    expected, expected_rounds = train(exchange, clients, start, whole, evaluate)

    train(exchange, clients, start, half, evaluate, checkpoint=path, checkpoint_every=2)
    state, rounds = train(exchange, clients, start, whole, evaluate, checkpoint=path)

    assert same(state, expected)
    assert rounds == expected_rounds


def test_a_run_stopped_between_two_checkpoints_goes_on_from_the_last(
    clients, exchange, start, evaluate, tmp_path
):
    path = tmp_path / "checkpoint.safetensors"
    expected, _ = train(exchange, clients, start, settings(), evaluate)

    def stop(one):
        if one.number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(
            exchange,
            clients,
            start,
            settings(),
            evaluate,
            checkpoint=path,
            checkpoint_every=2,
            on_round=stop,
        )
    heard = []
    state, _ = train(
        exchange, clients, start, settings(), evaluate, checkpoint=path, on_round=heard.append
    )
    assert same(state, expected)
    assert [one.number for one in heard] == [0, 1, 2, 3, 4]


def test_a_checkpoint_of_another_run_is_refused(clients, exchange, start, evaluate, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    train(exchange, clients, start, settings(), evaluate, checkpoint=path)
    with pytest.raises(TrainingError, match="client_lr"):
        train(exchange, clients, start, settings(client_lr=0.2), evaluate, checkpoint=path)
    other = {"head.weight": start["head.weight"] + 1}
    with pytest.raises(TrainingError, match="another model"):
        train(exchange, clients, other, settings(), evaluate, checkpoint=path)


def test_a_checkpoint_of_other_data_is_refused(clients, exchange, start, evaluate, tmp_path):
    path = tmp_path / "checkpoint.safetensors"

    def run(**depends_on):
        train(
            exchange, clients, start, settings(), evaluate, checkpoint=path, depends_on=depends_on
        )

    run(alpha=0.1)
    run(alpha=0.1)
    with pytest.raises(TrainingError, match="alpha"):
        run(alpha=0.5)


def test_a_checkpoint_with_more_rounds_than_asked_is_refused(
    clients, exchange, start, evaluate, tmp_path
):
    path = tmp_path / "checkpoint.safetensors"
    train(exchange, clients, start, settings(rounds=4), evaluate, checkpoint=path)
    with pytest.raises(TrainingError, match="has 4 rounds of training, more than 3"):
        train(exchange, clients, start, settings(rounds=3), evaluate, checkpoint=path)


def test_a_truncated_checkpoint_is_named(clients, exchange, start, evaluate, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(b"x" * 20)
    with pytest.raises(TrainingError, match=r"checkpoint\.safetensors.*delete it"):
        train(exchange, clients, start, settings(), evaluate, checkpoint=path)


def test_a_run_stops_at_its_target(clients, exchange, start, evaluate):
    _, rounds = train(exchange, clients, start, settings(rounds=50), evaluate, target=0.7)
    assert rounds[-1].accuracy >= 0.7
    assert all(one.accuracy < 0.7 for one in rounds[:-1])


def test_a_round_costs_the_formula_and_little_more_on_the_wire(clients, exchange, start, evaluate):
    _, rounds = train(exchange, clients, start, settings(), evaluate)
    assert rounds[0].formula_bytes == rounds[0].wire_bytes == 0
    assert rounds[1].formula_bytes == 2 * DIM * CLASSES * 5 * 4
    large = {"head.weight": np.zeros((100, 512), np.float32)}
    free = in_process(lambda task, client_ids: [Update(large, 1, 0.0) for _ in client_ids])
    sent = free(Task(large, settings(), 1), ["a", "b"]).wire_bytes
    assert 1 < sent / (2 * 2 * large["head.weight"].nbytes) < 1.01


def test_training_goes_on_where_the_history_before_it_ends(clients, exchange, start, evaluate):
    _, first = train(exchange, clients, start, settings(rounds=2), evaluate)
    _, second = train(exchange, clients, start, settings(rounds=2), evaluate, history=first)
    assert [one.number for one in second] == [0, 1, 2, 3, 4, 5]
    assert second[-1].formula_bytes == 2 * first[-1].formula_bytes


def test_adaptive_strategies_send_float32(clients, exchange, start, evaluate):
    chosen = settings(strategy="fedadam", server_lr=0.1, rounds=3)
    state, rounds = train(exchange, clients, start, chosen, evaluate)
    assert state["head.weight"].dtype == np.float32
    first, second = np.diff([one.wire_bytes for one in rounds])[:2]
    assert first == second


def test_clients_of_a_round_are_a_seeded_share(clients):
    ids = list(clients)
    chosen = [choose_clients(ids, 0.3, seed=0, server_round=r) for r in (1, 1, 2)]
    assert len(chosen[0]) == 3
    assert chosen[0] == chosen[1] == choose_clients(ids[::-1], 0.3, seed=0, server_round=1)
    assert chosen[0] != chosen[2]
    assert len(choose_clients(ids, 0.01, seed=0, server_round=1)) == 1


def lucky(accuracies):
    """Measures that do not depend on the model: one call after the other."""
    values = iter(accuracies)
    return lambda state: next(values)


def test_the_best_round_is_kept_and_of_equals_the_first(clients, exchange, start, evaluate):
    states = {}
    measures = iter([0.1, 0.5, 0.9, 0.2, 0.9])

    def measure(state):
        accuracy = next(measures)
        states.setdefault(accuracy, state)
        return accuracy

    state, rounds = train(exchange, clients, start, settings(), measure, keep="best")
    assert same(state, states[0.9])
    assert best(rounds).number == 2


def test_the_start_is_kept_where_training_only_harms(clients, exchange, start):
    falling = lucky([0.9, 0.8, 0.7, 0.6, 0.5])
    state, _ = train(exchange, clients, start, settings(), falling, keep="best")
    assert same(state, start)


@pytest.mark.parametrize("strategy", ["fedavg", "fedadam"])
def test_the_best_round_is_the_same_bits_after_an_interruption(
    clients, exchange, start, tmp_path, strategy
):
    path = tmp_path / "checkpoint.safetensors"
    chosen = settings(strategy=strategy, server_lr=0.1 if strategy == "fedadam" else 1.0)
    accuracies = [0.1, 0.2, 0.9, 0.3, 0.4]
    whole, history = train(exchange, clients, start, chosen, lucky(accuracies), keep="best")
    options = {"keep": "best", "checkpoint": path}
    half = replace(chosen, rounds=3)
    train(exchange, clients, start, half, lucky(accuracies), **options)
    resumed, again = train(exchange, clients, start, chosen, lucky([0.4]), **options)
    assert same(resumed, whole)
    assert again == history


def test_a_run_that_keeps_the_last_round_does_not_go_on_as_one_that_keeps_the_best(
    clients, exchange, start, evaluate, tmp_path
):
    path = tmp_path / "checkpoint.safetensors"
    train(exchange, clients, start, settings(), evaluate, checkpoint=path)
    with pytest.raises(TrainingError, match="'keep': 'last'"):
        train(exchange, clients, start, settings(), evaluate, checkpoint=path, keep="best")


def test_the_best_round_needs_a_test_set(clients, exchange, start):
    with pytest.raises(TrainingError, match="no test set"):
        train(exchange, clients, start, settings(), lambda state: np.nan, keep="best")


def test_a_checkpoint_of_0_1_0_is_refused_by_its_version(
    clients, exchange, start, evaluate, tmp_path
):
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(encode({"state/head.weight": start["head.weight"]}, {"kind": "training-1"}))
    with pytest.raises(TrainingError, match=r"0\.1\.0"):
        train(exchange, clients, start, settings(), evaluate, checkpoint=path)


def test_the_test_set_is_measured_as_often_as_asked_and_at_the_end(model, clients, start):
    measured = []

    def evaluate(state):
        measured.append(state)
        return 0.5

    settings = TrainingSettings(rounds=5, seed=1)
    exchange = in_process(partial(update_clients, model, clients))
    _, rounds = train(exchange, clients, start, settings, evaluate, evaluate_every=2)
    assert [done.accuracy == 0.5 for done in rounds] == [True, False, True, False, True, True]
    assert len(measured) == 4


def test_a_round_that_was_not_measured_is_never_the_best(model, clients, start):
    accuracies = iter([0.1, 0.3, 0.2])
    settings = TrainingSettings(rounds=4, seed=1)
    exchange = in_process(partial(update_clients, model, clients))
    _, rounds = train(
        exchange,
        clients,
        start,
        settings,
        lambda state: next(accuracies),
        evaluate_every=2,
        keep="best",
    )
    assert best(rounds).number == 2
