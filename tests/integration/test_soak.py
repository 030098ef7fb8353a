"""A long life on loopback: everything is killed, delayed, doubled and corrupted, again and again.

It runs by ``make soak``, for as many minutes as ``FEDCOF_SOAK_MINUTES`` says, and prints its
figures as JSON; no other run of the tests takes it.
"""

import json
import os
import resource
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

import psutil
from deploy_loopback import Loopback, kill
from sites_on_loopback import (
    count,
    descendants,
    fedcof_run,
    head_of,
    head_of_one_process,
    stored,
    wait_until,
)
from soak_sites import SITES, data_of, kind_of, names_of

from fedcof.federation.status import read_status

MINUTES = float(os.environ.get("FEDCOF_SOAK_MINUTES", "0"))
CLIENTS = int(os.environ.get("FEDCOF_SOAK_CLIENTS", "2000"))
_RESTART = 10.0
"""Seconds after which a supervisor starts what has ended, as RestartSec."""

_SLOWEST = 150.0
"""Seconds without harm, however little has happened."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MINUTES, reason="FEDCOF_SOAK_MINUTES says for how long"),
]


class Soak(Loopback):
    """Four sites, and somebody who kills."""

    def __init__(self, folder, seed):
        path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        super().__init__(folder, {"PYTHONPATH": os.pathsep.join(path)})
        self.rng = np.random.default_rng(seed)
        self.supernodes, self._started, self.run_folder = {}, {}, None
        self.done = Counter()
        self.memory = defaultdict(list)
        self._calm = threading.Event()

    def start(self):
        self.superlink = self.start_superlink()
        for site in SITES:
            self.register(site)
            self.keep_site(site)

    def keep_site(self, site):
        """Start a SuperNode, as a supervisor does."""
        config = f'data="soak_sites:load_data" site="{site}" clients={CLIENTS}'
        self.supernodes[site] = self.start_supernode(site, config)
        self._started[site] = time.monotonic()

    def server_apps(self):
        return [one for one in descendants(self.superlink) if "serverapp" in _command(one)]

    def harass(self):
        """Kill or fill something every few seconds, and let supervisors do their work."""
        kept, due = None, time.monotonic() + _SLOWEST
        while not self._calm.wait(1.0):
            self.supervise()
            self.weigh()
            now = time.monotonic()
            if (more := self.kept()) != kept:  # soon after something has come, however slow it is
                kept, due = more, min(due, now + self.rng.uniform(0, 15))
            if now > due:
                self.harm()
                due = now + _SLOWEST

    def kept(self):
        """How many summaries are in the run folder that is in use, and which it is."""
        return self.run_folder, len(stored(self.run_folder)) if self.run_folder else 0

    def harm(self):
        which = self.rng.choice(
            ["superlink", "supernode", "server app", "client app", "full disk"],
            p=[0.1, 0.2, 0.25, 0.25, 0.2],
        )
        site = SITES[self.rng.integers(len(SITES))]
        with suppress(psutil.Error, ProcessLookupError):
            if which == "superlink":
                orphans = descendants(self.superlink)
                kill(self.superlink)
                psutil.wait_procs(orphans, timeout=60)
            elif which == "supernode":
                kill(self.supernodes[site])
            elif which == "client app":
                for process in descendants(self.supernodes[site])[-1:]:
                    process.kill()
            elif which == "server app":
                for process in self.server_apps():
                    process.kill()
            else:
                for process in self.server_apps():  # no file of it may grow any more
                    process.rlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        self.done[str(which)] += 1

    def supervise(self):
        if self.superlink.poll() is not None:
            self.superlink = self.start_superlink()
        for site in SITES:
            ended = self.supernodes[site].poll() is not None
            if ended and time.monotonic() > self._started[site] + _RESTART:
                self.keep_site(site)

    def weigh(self):
        """Note what each kind of process holds in memory."""
        with suppress(psutil.Error):
            self.memory["superlink"].append(_megabytes(self.superlink.pid))
            for site in SITES:
                self.memory["supernode"].append(_megabytes(self.supernodes[site].pid))
            for process in self.server_apps():
                self.memory["server app"].append(_megabytes(process.pid))

    def federate(self, run_folder):
        """Run, and run again, until it is complete; return the exit statuses."""
        self.run_folder = run_folder
        settings = f'run-folder="{run_folder}" timeout=60.0 attempts=2 min-clients={CLIENTS // 2}'
        statuses = []
        while True:
            done = fedcof_run(self, settings)
            assert "Traceback" not in done.stdout + done.stderr, done.stderr
            statuses.append(done.returncode)
            if done.returncode in (0, 3) and not missing(run_folder):
                return statuses
            time.sleep(2.0)


def _command(process):
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _megabytes(pid):
    return psutil.Process(pid).memory_info().rss / 1e6


def missing(run_folder):
    return json.loads((run_folder / "report.json").read_text())["missing"]


def thirds(values):
    """The medians of the first and of the last third."""
    third = max(1, len(values) // 3)
    return float(np.median(values[:third])), float(np.median(values[-third:]))


def test_nothing_that_dies_or_lies_changes_the_head(tmp_path):
    honest = {"honest", "slow"}
    everyone = {name for site in SITES for name in names_of(site, CLIENTS)}
    expected = {name for name in everyone if kind_of(name) in honest}
    end = time.monotonic() + 60 * MINUTES
    runs, statuses = [], []
    with Soak(tmp_path / "deployment", seed=int(os.environ.get("FEDCOF_SOAK_SEED", "0"))) as soak:
        soak.start()
        wait_until(lambda: all(count(soak.log(site), "SuperNode ID") for site in SITES))
        harasser = threading.Thread(target=soak.harass)
        harasser.start()
        timer = threading.Timer(max(0.0, end - time.monotonic()), soak._calm.set)
        timer.start()
        try:
            while time.monotonic() < end or not runs:
                folder = tmp_path / f"run-{len(runs)}"
                statuses += soak.federate(folder)
                accepted = stored(folder)
                assert accepted == expected
                assert read_status(folder).state in ("complete", "incomplete")
                clients = {name: data_of(name) for name in accepted}
                assert head_of(folder) == head_of_one_process(clients, tmp_path)
                runs.append(folder)
                if soak._calm.is_set():
                    soak.supervise()
        finally:
            soak._calm.set()
            timer.cancel()
            harasser.join()
        memory = {kind: thirds(values) for kind, values in soak.memory.items()}
        figures = {
            "minutes": MINUTES,
            "clients": len(everyone),
            "accepted": len(expected),
            "runs to the end": len(runs),
            "starts": len(statuses),
            "exit statuses": Counter(statuses),
            "harm done": soak.done,
            "MB, first and last third": memory,
        }
        print(json.dumps(figures, default=str), file=sys.stderr)
        Path(os.environ.get("FEDCOF_SOAK_FIGURES", tmp_path / "figures.json")).write_text(
            json.dumps(figures, default=str)
        )
    for kind, (first, last) in memory.items():
        assert last < 1.5 * first + 50, f"{kind} has grown"
