"""Three sites on loopback, with TLS and registered SuperNodes, and what their runs leave."""

import json
import os
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import psutil
from deploy_loopback import APP, PROGRAMS, Loopback
from gated_sites import CLIENTS, Gate, clients_of

from fedcof.client import Sender
from fedcof.methods import FedCOF
from fedcof.summaries import from_bytes


class Deployment(Loopback):
    """Three sites behind gates, all of them running."""

    def __init__(self, folder):
        path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        super().__init__(folder, {"PYTHONPATH": os.pathsep.join(path)})
        self.gates = {site: Gate(self.folder, site) for site in CLIENTS}
        self.supernodes = {}

    def start(self):
        self.superlink = self.start_superlink()
        for site in CLIENTS:
            self.register(site)
            self.start_site(site)

    def __exit__(self, *error):
        mine = descendants(*self._processes)
        super().__exit__(*error)
        _, alive = psutil.wait_procs(mine, timeout=30)
        for process in alive:
            process.kill()

    def start_site(self, site):
        """Start a SuperNode again and again, as a supervisor does, until it is let in."""
        log = self.log(site)
        before = count(log, "SuperNode ID")

        def let_in():
            return count(log, "SuperNode ID") > before

        def tried():
            return let_in() or self.supernodes[site].poll() is not None

        while not let_in():
            config = f'data="gated_sites:load_data" site="{site}" gates="{self.folder}"'
            self.supernodes[site] = self.start_supernode(site, config)
            wait_until(tried)

    def federate(self, run_folder, *, more="", stream=True):
        self.run(f'run-folder="{run_folder}" timeout=300 attempts=1 {more}', stream=stream)


def fedcof_run(loopback, run_config, *options):
    """Start a run by `fedcof run` and wait; return what it printed, and its exit status."""
    return subprocess.run(
        [PROGRAMS / "fedcof", "run", APP, "loopback", "--run-config", run_config, *options],
        env=loopback._env("cli"),
        cwd=loopback.folder,
        capture_output=True,
        text=True,
        check=False,
    )


def count(path, text):
    return path.read_text().count(text) if path.exists() else 0


def descendants(*processes):
    """All that processes have started and is alive."""
    return [
        child
        for process in processes
        if process.poll() is None
        for child in psutil.Process(process.pid).children(recursive=True)
    ]


def wait_until(condition, timeout=240):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def stored(run_folder):
    """The clients whose summaries are in a run folder."""
    try:
        with closing(
            sqlite3.connect(f"file:{run_folder}/summaries.sqlite?mode=ro", uri=True)
        ) as db:
            return {client_id for (client_id,) in db.execute("SELECT client_id FROM summaries")}
    except sqlite3.OperationalError:  # not there yet
        return set()


def clients_at(*sites):
    return {client_id for site in sites for client_id in clients_of(site)}


def head_of_one_process(clients, folder):
    """The bytes of the head that the same clients give in this process."""
    method = FedCOF()
    summaries = [
        from_bytes(method.summarize(*data, client_id=client_id).to_bytes())
        for client_id, data in clients.items()
    ]
    path = folder / "expected.safetensors"
    sending = Sender(method).settings()
    method.solve(summaries).with_provenance(sending=sending).save(path)
    return path.read_bytes()


def head_of(run_folder):
    return (run_folder / "head.safetensors").read_bytes()


def report_of(run_folder):
    report = json.loads((run_folder / "report.json").read_text())
    return {key: set(value) if isinstance(value, list) else value for key, value in report.items()}
