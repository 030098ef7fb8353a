"""The engine over Ray: the same bits whatever the number of workers, and whoever of them dies."""

import ast
import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from fedcof.cli import app
from fedcof.errors import SummaryError
from fedcof.methods import Fed3R, FedCOF
from fedcof.scale import Batch, solve
from fedcof.scale.ray_engine import ray_engine

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning",  # of Ray's processes, when it is shut down
    "ignore::ResourceWarning",
)

SOURCES = Path(__file__).parents[2] / "src"


def test_one_module_imports_ray():
    importers = {
        path.name
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Import) and any(n.name.split(".")[0] == "ray" for n in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ray")
    }
    assert importers == {"ray_engine.py"}


def test_ray_that_is_not_installed_is_named_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"Ray is not installed: pip install .*\[flower\]"):
        ray_engine().__enter__()


def test_ray_that_somebody_else_has_started_is_not_joined(monkeypatch):
    given = {}
    double = SimpleNamespace(
        init=lambda **options: given.update(options),
        cluster_resources=lambda: {"CPU": 2.0},
        shutdown=lambda: None,
    )
    monkeypatch.setitem(sys.modules, "ray", double)
    with ray_engine(workers=2):
        assert given["address"] == "local"
    with ray_engine("auto"):
        assert given["address"] == "auto"


def test_regression_an_address_where_nobody_is_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace())
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    for address in (f"127.0.0.1:{port}", "127.0.0.1:99999"):
        with pytest.raises(ConnectionError, match=f"no Ray answers at {address} "):
            ray_engine(address).__enter__()


def test_ray_is_told_not_to_report_before_it_is_imported():
    code = (
        "import os, sys; sys.modules['ray'] = None\n"
        "from contextlib import suppress\n"
        "from fedcof.scale.ray_engine import ray_engine\n"
        "with suppress(ImportError): ray_engine().__enter__()\n"
        "print(os.environ['RAY_USAGE_STATS_ENABLED'])"
    )
    for given, expected in ({}, "0"), ({"RAY_USAGE_STATS_ENABLED": "1"}, "1"):
        known = {k: v for k, v in os.environ.items() if k != "RAY_USAGE_STATS_ENABLED"}
        done = subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            env=known | given,
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == expected, done.stderr


def test_regression_a_ray_that_somebody_else_has_started_here_is_not_joined(monkeypatch):
    # Ray joins one that runs on the machine unless it is told not to, and refuses num_cpus then.
    ray = pytest.importorskip("ray")
    given = {}

    def init(**options):
        given.update(options)
        raise ConnectionError

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ConnectionError):
        ray_engine().__enter__()
    assert given["address"] == "local"


def fragments(method, number=9):
    rng = np.random.default_rng(0)
    found = []
    for i in range(number):
        labels = np.arange(12) % 4
        parts = [
            method.summarize(
                rng.normal(size=(12, 6)) + labels[:, None], labels, client_id=f"{i}-{j}"
            )
            for j in range(3)
        ]
        found.append(Batch(parts))
    return found


def processes_in(folder):
    """The processes that have left their numbers."""
    return {int(path.name.partition("-")[2]) for path in folder.iterdir()}


def in_company(folder, item):
    """Leave the number of the process and wait for a second one, from item 2 on for a third."""
    (folder / f"{item}-{os.getpid()}").touch()
    deadline = time.monotonic() + 120
    while len(processes_in(folder)) < (2 if item < 2 else 3):
        assert time.monotonic() < deadline, "nobody came"
        time.sleep(0.05)
    return item * item


class Damaged(Batch):
    """Summaries that break a rule when they are read."""

    def read(self, *, counts_alone, left_out):
        yield from ()
        raise SummaryError("shape", "is too long", client_id="b")


@pytest.mark.slow
def test_workers_of_ray_change_no_bit_whoever_of_them_dies(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    heads = {}
    for workers in (1, 2):
        with ray_engine(workers=workers) as engine:
            for method in (FedCOF(), Fed3R()):
                solved = solve(method, fragments(method), engine=engine)
                heads[method.name, workers] = solved.head.to_bytes()
            if workers == 1:
                continue
            with pytest.raises(SummaryError, match="client 'b': is too long"):
                solve(FedCOF(), [Damaged([])], engine=engine)
            results = engine(partial(in_company, tmp_path), range(6))
            found = [next(results)]
            os.kill(max(processes_in(tmp_path)), signal.SIGKILL)  # another one takes its place
            assert [*found, *results] == [item * item for item in range(6)]
    for method in (FedCOF(), Fed3R()):
        here = solve(method, fragments(method)).head.to_bytes()
        assert heads[method.name, 1] == heads[method.name, 2] == here


@pytest.mark.slow
def test_workers_of_ray_extract_the_same_features(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    from fedcof.backbones import get
    from fedcof.data import extract_features, fashion_mnist
    from fedcof.scale import extraction

    monkeypatch.setattr("fedcof.scale.extraction.SHARD_SIZE", 8)
    images = list(fashion_mnist(40, seed=0)[0].images)[:20]
    here = extract_features(images, get("squeezenet1.1"), cache_dir=tmp_path / "here")
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "workers"))
    done = []
    with ray_engine(workers=2) as engine:
        recipe = extraction.Recipe("squeezenet1.1")
        found = extraction.extract_features(images, recipe, engine, advance=done.append)
    np.testing.assert_array_equal(found.features, here.features)
    np.testing.assert_array_equal(found.kept, here.kept)
    assert done == [8, 8, 4]


def test_an_address_needs_the_engine(tmp_path):
    (tmp_path / "a.summary").write_bytes(FedCOF().summarize(np.eye(2), [0, 1]).to_bytes())
    for command in (["solve", str(tmp_path)], ["federate", "--engine", "in-process"]):
        ended = CliRunner().invoke(app, [*command, "--address", "auto"])
        assert ended.exit_code == 1
        assert "--address" in ended.stderr


@pytest.mark.slow
def test_solve_gives_the_same_file_by_workers_of_ray(tmp_path):
    pytest.importorskip("ray")
    rng = np.random.default_rng(0)
    for name in "abcde":
        labels = np.arange(20) % 2
        made = FedCOF().summarize(
            rng.normal(size=(20, 3)) + labels[:, None], labels, client_id=name
        )
        made.save(tmp_path / f"{name}.summary")
    heads = []
    for engine in ("stream", "ray"):
        out = tmp_path / engine
        ended = CliRunner().invoke(
            app, ["solve", str(tmp_path), "--engine", engine, "--out", str(out)]
        )
        assert ended.exit_code == 0, ended.stderr
        heads.append((out / "head.safetensors").read_bytes())
    assert heads[0] == heads[1]
