"""Training over Flower's messages: what the server makes of replies that are not as expected."""

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import io
from dataclasses import replace

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict

from fedcof.errors import RefusedReplyError, TrainingError
from fedcof.federation.asking import Fault
from fedcof.federation.training.exchange import (
    GridExchange,
    to_answer,
    to_content,
    to_record,
    to_task,
    to_update,
    wire_bytes,
)
from fedcof.training import TrainingSettings, train
from fedcof.training.exchange import Task, Update, in_process
from fedcof.training.local import Samples
from fedcof.training.probing import probe_clients
from fedcof.training.sampling import choose_clients

DIM, CLASSES = 6, 3
SETTINGS = TrainingSettings(rounds=4, client_lr=0.1, batch_size=4, participation=0.5)
START = {"head.weight": np.zeros((CLASSES, DIM), np.float32)}
CONFIG = {
    "data": "",
    "reading": "{}",
    "backbone": "",
    "classes": [0, 1, 2],
    "transform": "none",
}


def samples(number):
    rng = np.random.default_rng(number)
    labels = rng.integers(CLASSES, size=5 + number)
    features = rng.normal(size=(len(labels), DIM)).astype(np.float32)
    return Samples(torch.tensor(features), torch.tensor(labels))


CLIENTS = {str(k): samples(k) for k in range(10)}


class Grid:
    """SuperNodes in this process, whose answers are changed on the way."""

    def __init__(self, change=lambda server_round, answers: answers):
        self.change = change

    def train(self, contents, *, timeout):
        answers = {}
        for key, (_, content) in contents.items():
            task, client_id = to_task(content)
            [update] = probe_clients(CLIENTS, task, [client_id])
            answers[key] = to_answer(client_id, update)
        return self.change(task.server_round, answers).items()


def run(change=lambda server_round, answers: answers, settings=SETTINGS):
    exchange = GridExchange(Grid(change), dict.fromkeys(CLIENTS, 1), CONFIG)
    return train(exchange, CLIENTS, START, settings, lambda state: 0.0)


def test_the_grid_gives_the_bits_of_one_process():
    def one_by_one(task, client_ids):
        return [probe_clients(CLIENTS, task, [client_id])[0] for client_id in client_ids]

    state, _ = run()
    expected, _ = train(in_process(one_by_one), CLIENTS, START, SETTINGS, lambda state: 0.0)
    assert state["head.weight"].tobytes() == expected["head.weight"].tobytes()


def nan(reply):
    reply["arrays"] = to_record({"head.weight": np.full((CLASSES, DIM), np.nan)})


def other_shape(reply):
    reply["arrays"] = to_record({"head.weight": np.zeros((CLASSES, DIM + 1))})


def other_type(reply):
    reply["arrays"] = ArrayRecord({"head.weight": Array(np.zeros((CLASSES, DIM)))})


def other_name(reply):
    reply["arrays"] = to_record({"weight": np.zeros((CLASSES, DIM))})


def garbage(reply):
    reply["arrays"]["head.weight"].data = b"no array"


def unclosed_header(reply):
    reply["arrays"]["head.weight"].data = b"\x93NUMPY\x01\x00\x08\x00{'a': ( "


def header_of_a_huge_array(reply):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000,), }\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    reply["arrays"]["head.weight"].data = data


def zipped_arrays(reply):
    data = io.BytesIO()
    np.savez(data, np.zeros((CLASSES, DIM), np.float32))
    reply["arrays"]["head.weight"].data = data.getvalue()


def second_record(reply):
    reply["more"] = to_record({"head.weight": np.zeros((CLASSES, DIM))})


def no_samples(reply):
    reply["metrics"]["num-examples"] = 0


def infinite_samples(reply):
    reply["metrics"]["num-examples"] = float("inf")


def list_of_samples(reply):
    reply["metrics"]["num-examples"] = [1, 2]


def nan_loss(reply):
    reply["metrics"]["loss"] = float("nan")


def list_of_losses(reply):
    reply["metrics"]["loss"] = [1.0, 2.0]


def no_loss(reply):
    reply["metrics"] = MetricRecord({"num-examples": 3})


def more_metrics(reply):
    reply["metrics"]["accuracy"] = 1.0


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
        (no_loss, r"metrics are \['num-examples'\]"),
        (more_metrics, "accuracy"),
    ],
)
def test_one_bad_reply_is_refused_and_named_and_the_run_goes_on(harm, text):
    victim = choose_clients(CLIENTS, 0.5, seed=0, server_round=1)[2]

    def change(server_round, answers):
        if server_round == 1:
            harm(answers[victim])
        return answers

    state, rounds = run(change)
    assert len(rounds) == 5
    assert rounds[1].clients == 4
    [refused] = rounds[1].refused
    assert refused.startswith(f"client '{victim}': ")
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(refused)
    assert np.isfinite(state["head.weight"]).all()


def test_a_client_that_speaks_for_another_is_not_heard():
    def change(server_round, answers):
        for content in answers.values():
            content["client"]["client-id"] = "stranger"
        return answers

    with pytest.raises(TrainingError, match="of another client"):
        run(change)


def test_an_answer_for_another_client_of_the_same_node_counts_for_neither():
    chosen = choose_clients(CLIENTS, 0.5, seed=0, server_round=1)

    def change(server_round, answers):
        answers[chosen[0]]["client"]["client-id"] = chosen[1]
        return answers

    _, rounds = run(change, replace(SETTINGS, rounds=1))
    assert rounds[1].refused == (f"client {chosen[0]!r}: the reply is of another client",)


def test_a_node_without_an_answer_is_named_with_the_reason():
    chosen = choose_clients(CLIENTS, 0.5, seed=0, server_round=1)

    def change(server_round, answers):
        del answers[chosen[1]]
        return answers | {chosen[0]: Fault("it went offline")}

    _, rounds = run(change, replace(SETTINGS, rounds=1))
    assert rounds[1].refused == (
        f"client {chosen[0]!r}: it went offline",
        f"client {chosen[1]!r}: no reply within 3600 s",
    )


def test_a_task_survives_the_message():
    content = to_content(to_record(START), Task(START, SETTINGS, 3), "0", CONFIG)
    task, client_id = to_task(content)
    assert (task.settings, task.server_round, client_id) == (SETTINGS, 3, "0")
    assert task.state["head.weight"].tobytes() == START["head.weight"].tobytes()


def test_a_message_costs_little_more_than_its_numbers():
    large = np.zeros((100, 512), np.float32)
    overhead = wire_bytes(RecordDict({"arrays": to_record({"head.weight": large})})) / large.nbytes
    assert 1 < overhead < 1.01
    content = to_content(to_record(START), Task(START, SETTINGS, 3), "0", CONFIG)
    assert wire_bytes(content) > START["head.weight"].nbytes + 10 * 8


class ComingAndGoing(Grid):
    """SuperNodes of which none is there for a while, by the seconds that the server has waited."""

    def __init__(self, back_after):
        super().__init__()
        self.waited, self.back_after, self.asked = 0.0, back_after, 0

    def online(self):
        return [1] if self.waited >= self.back_after else []

    def sleep(self, seconds):
        self.waited += seconds

    def train(self, contents, *, timeout):
        self.asked += 1
        if self.online():
            return super().train(contents, timeout=timeout)
        return [(key, Fault("it went offline", gone=True)) for key in contents]


def run_with_waiting(grid, wait, checkpoint=None):
    exchange = GridExchange(
        grid,
        dict.fromkeys(CLIENTS, 1),
        CONFIG,
        wait=wait,
        now=lambda: grid.waited,
        sleep=grid.sleep,
    )
    return train(exchange, CLIENTS, START, SETTINGS, lambda state: 0.0, checkpoint=checkpoint)


def test_where_all_of_a_round_are_offline_the_server_waits_and_goes_on_to_the_same_bits():
    state, rounds = run_with_waiting(ComingAndGoing(back_after=90.0), wait=100.0)
    expected, _ = run()
    np.testing.assert_array_equal(state["head.weight"], expected["head.weight"])
    assert [done.refused for done in rounds] == [()] * len(rounds)


def test_where_nobody_comes_back_the_run_ends_with_the_clients_and_how_to_go_on(tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(TrainingError) as caught:
        run_with_waiting(ComingAndGoing(back_after=90.0), wait=80.0, checkpoint=checkpoint)
    assert "it went offline" in str(caught.value)
    assert "after 80 s" in str(caught.value)


def test_a_round_of_which_one_answers_does_not_wait():
    grid = ComingAndGoing(back_after=0.0)
    run_with_waiting(grid, wait=100.0)
    assert (grid.waited, grid.asked) == (0.0, SETTINGS.rounds)


def test_an_array_that_claims_to_be_larger_than_its_bytes_is_refused():
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"shape": (10**12,), "fortran_order": False, "descr": "<f4"}
    )
    array = Array(dtype="float32", shape=(10**12,), stype="numpy.ndarray", data=file.getvalue())
    content = to_answer("a", Update({}, 1, 0.5))
    content["arrays"] = ArrayRecord({"weight": array})
    with pytest.raises(RefusedReplyError, match="bytes of weight are not an array"):
        to_update(content, "a")
