"""SuperNodes in processes of this machine: what they answer, keep, and take with them."""

import pytest

pytest.importorskip("flwr")

import os
import subprocess
import sys
import time

import numpy as np
from flwr.app import ConfigRecord

from fedcof.client import Sender
from fedcof.federation import local_grid
from fedcof.federation.asking import Fault
from fedcof.federation.local_grid import LocalGrid, respond
from fedcof.federation.plan import Plan
from fedcof.federation.records import Answer, Job, Roster
from fedcof.federation.serving import HEAD, Settings, serve
from fedcof.federation.simulation import simulate, write_clients
from fedcof.methods import FedCOF

pytestmark = pytest.mark.slow


class Dying(dict):
    """Clients, of which reading one ends the process."""

    def __getitem__(self, client_id):
        if client_id == "client-2":
            os._exit(9)
        return super().__getitem__(client_id)


def load_data(context):
    """Each SuperNode holds the client of its number."""
    number = context.node_config["partition-id"]
    rng = np.random.default_rng(number)
    labels = np.arange(8) % 2
    features = rng.normal(size=(8, 3)).astype(np.float32) + labels[:, None]
    return Dying({f"client-{number}": (features, labels)})


JOB = Job(Sender(FedCOF()), data="test_local_grid:load_data")


@pytest.fixture
def here(monkeypatch):
    """Let the processes import this module."""
    monkeypatch.syspath_prepend(os.path.dirname(__file__))
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__), prepend=os.pathsep)


def answers_of(grid, question_ids):
    found = {}
    while len(found) < len(question_ids):
        found.update(grid.answers([id_ for id_ in question_ids if id_ not in found]))
        time.sleep(0.01)
    return [found[id_] for id_ in question_ids]


def test_a_process_that_dies_takes_its_one_question_with_it(here, tmp_path):
    with LocalGrid(4) as grid:
        question = {**JOB.to_record(), "limit": 10_000}
        ids = [
            grid.ask(n, "summarize", {**question, "clients": [f"client-{n - 1}"]}, 60)
            for n in grid.online()
        ]
        answers = answers_of(grid, ids)
        assert answers[2] == Fault("its process died")
        others = [Answer.from_record(answers[i], limit=10_000) for i in (0, 1, 3)]
        assert [list(other.summaries) for other in others] == [[f"client-{i}"] for i in (0, 1, 3)]
        _, report, _ = serve(grid, Settings(JOB, tmp_path, Plan(min_clients=3)), pause=0.01)
    assert report.answered == {"client-0", "client-1", "client-3"}
    assert report.missing == {"client-2": "its process died"}
    assert (tmp_path / HEAD).exists()


def test_no_question_is_begun_while_answers_wait_that_fill_the_memory(here, monkeypatch):
    monkeypatch.setattr(local_grid, "_WAITING_BYTES", 1)
    nodes = 50
    with LocalGrid(nodes) as grid:
        question = {**JOB.to_record(), "limit": 10_000}
        ids = [
            grid.ask(n, "summarize", {**question, "clients": [f"client-{n - 1}"]}, 60)
            for n in grid.online()
            if n != 3
        ]
        at_once = 2 * min(nodes, os.cpu_count())
        waited = time.monotonic() + 60
        while grid._begun and time.monotonic() < waited:
            time.sleep(0.01)
        assert 0 < len(grid._arrived) <= at_once  # of 49, since nobody took one
        assert len(answers_of(grid, ids)) == nodes - 1


def test_questions_held_back_are_answered_though_the_pool_is_broken(here, monkeypatch):
    # They were lost, and waited for their deadline.
    def broken(*arguments, **named):
        raise RuntimeError("Unexpected error within the Pool")

    with LocalGrid(50) as grid:
        ids = [grid.ask(n, "describe", JOB.to_record(), 60) for n in grid.online()]
        monkeypatch.setattr(grid._pool, "schedule", broken)
        answers = answers_of(grid, ids)
        assert answers[-1] == Fault("no process is left to answer")
        assert answers_of(grid, [grid.ask(1, "describe", JOB.to_record(), 60)]) == answers[-1:]


def test_an_answer_that_nobody_waits_for_is_dropped(here):
    with LocalGrid(1) as grid:
        first = grid.ask(1, "describe", JOB.to_record(), 60)
        second = grid.ask(1, "describe", JOB.to_record(), 60)
        (answer,) = answers_of(grid, [second])
        assert Roster.from_record(answer, limit=1).client_ids == ("client-0",)
        assert list(grid.answers([first])) == []


def test_what_a_supernode_keeps_is_there_at_its_next_question(here, monkeypatch):
    from fedcof.federation import responses

    def count(question, context):
        seen = context.state.config_records.setdefault("seen", ConfigRecord({"times": 0}))
        seen["times"] += 1
        return {"times": seen["times"], "node": context.node_id}

    monkeypatch.setattr(responses, "RESPONSES", {"count": count})
    record, state = respond(2, 3, "count", {}, None)
    assert respond(2, 3, "count", {}, state)[0] == {"times": 2, "node": 2}
    assert record == {"times": 1, "node": 2}


def test_a_process_answers_without_importing_flower(tmp_path):
    from fedcof.data import iid

    features = np.ones((8, 3), np.float32)
    write_clients(tmp_path, features, np.arange(8) % 2, iid(8, 2, seed=0))
    question = {**Job(JOB.sender, data=str(tmp_path)).to_record(), "limit": 1 << 20}
    code = (
        "import sys; from fedcof.federation.local_grid import respond\n"
        f"answer, kept = respond(1, 2, 'describe', {question!r}, None)\n"
        "assert len(answer['answered']) == 1 and kept is None, answer\n"
        "assert 'flwr' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_secure_run_needs_what_supernodes_keep(tmp_path):
    from fedcof.data import iid

    rng = np.random.default_rng(0)
    labels = np.arange(120) % 3
    features = rng.normal(size=(120, 4)).astype(np.float32) + labels[:, None]
    partition = iid(120, 4, seed=0)
    sender = Sender(FedCOF())
    open_head, _ = simulate(sender, features, labels, partition, tmp_path / "open", nodes=2)
    head, report = simulate(
        sender, features, labels, partition, tmp_path / "sums", nodes=2, secure={"secure": True}
    )
    np.testing.assert_allclose(head.weight, open_head.weight, rtol=1e-4, atol=1e-4)
    assert len(report.sums) == 2


_SCRIPT = """
import sys, tempfile
from pathlib import Path
import numpy as np
from fedcof import FedCOF
from fedcof.client import Sender
from fedcof.data import iid
from fedcof.federation.simulation import simulate, write_clients
print("once")
labels = np.arange(60) % 3
features = np.random.default_rng(0).normal(size=(60, 4)) + labels[:, None]
with tempfile.TemporaryDirectory() as folder:
    _, report = simulate(Sender(FedCOF()), features, labels, iid(60, 4, seed=0), Path(folder))
print(len(report.answered))
"""


def test_a_script_without_a_guard_is_run_once(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(_SCRIPT)
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["once", "4"]), done.stderr
