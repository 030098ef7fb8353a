"""A whole deployment on this machine alone: a SuperLink with TLS, three SuperNodes, and a head.

    python deploy_loopback.py FOLDER

Every command is printed as it is run; the guide to a deployment explains them. Three sites hold
real data, scikit-learn's handwritten digits, of ten clients each. In FOLDER are then the
certificate, the sites' keys, data and logs, and in FOLDER/run what the federation has made.
"""

from __future__ import annotations

import ipaddress
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID
from sklearn.datasets import load_digits

from fedcof.data import dirichlet
from fedcof.heads import LinearHead

APP = Path(__file__).resolve().parent
PROGRAMS = Path(sys.executable).parent
HOST = "127.0.0.1"
SITES = ("site-1", "site-2", "site-3")
QUIET = {"FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1"}  # besides what fedcof switches off


class Loopback:
    """A SuperLink and its SuperNodes on 127.0.0.1, stopped at the end of the block.

    Every process has its own ``FLWR_HOME``, as if on a machine of its own, and logs to a file.

    Parameters
    ----------
    folder : path
        Where everything is kept.
    environment : dict of str to str, optional
        More environment variables for all processes.
    """

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._environment = environment or {}
        self._processes: list[subprocess.Popen[bytes]] = []
        certificate(self.folder)
        home = self.folder / "homes" / "cli"
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(
            f'[superlink.loopback]\naddress = "{HOST}:{self.port}"\n'
            f'root-certificates = "{self.folder / "server.crt"}"\n'
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + 20
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            kill(process)

    def start_superlink(self) -> subprocess.Popen[bytes]:
        """Start the SuperLink and wait until it listens."""
        process = self._start(
            "superlink",
            *("flower-superlink", "--host", HOST, "--port", str(self.port)),
            *("--ssl-ca-certfile", "server.crt"),
            *("--ssl-certfile", "server.crt", "--ssl-keyfile", "server.key"),
            *("--enable-supernode-auth", "--database", "superlink.db"),
            "--disable-runtime-dependency-installation",
        )
        while not listens(self.port):
            if process.poll() is not None:
                raise RuntimeError(f"the SuperLink did not start: see {self.log('superlink')}")
            time.sleep(0.1)
        return process

    def register(self, name: str) -> None:
        """Make a key for a SuperNode and tell the SuperLink."""
        node_key(self.folder / name)
        self.flwr("supernode", "register", f"{name}.pub", "loopback")

    def start_supernode(self, name: str, config: str) -> subprocess.Popen[bytes]:
        """Start a SuperNode with the key of its name."""
        return self._start(
            name,
            *("flower-supernode", "--superlink", f"{HOST}:{self.port}"),
            *("--root-certificates", "server.crt", "--auth-supernode-private-key", name),
            *("--host", HOST, "--port", str(free_port()), "--node-config", config),
        )

    def run(self, run_config: str, *, stream: bool = True) -> None:
        """Run the app; with `stream` until it ends."""
        follow = ("--stream",) if stream else ()
        self.flwr("run", str(APP), "loopback", *follow, "--run-config", run_config)

    def flwr(self, *arguments: str) -> None:
        """Run one of Flower's commands."""
        show("flwr", *arguments)
        command = [str(PROGRAMS / "flwr"), *arguments]
        subprocess.run(command, cwd=self.folder, env=self._env("cli"), check=True)

    def log(self, name: str) -> Path:
        """Return the log of the SuperLink or a SuperNode."""
        return self.folder / f"{name}.log"

    def _start(self, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        show(program, *arguments)
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [str(PROGRAMS / program), *arguments],
                cwd=self.folder,
                env=self._env(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _env(self, name: str) -> dict[str, str]:
        path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"  # Flower starts programs by name
        home = {"FLWR_HOME": str(self.folder / "homes" / name), "PATH": path}
        return {**os.environ, **QUIET, **home, **self._environment}


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and those that it started, at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def show(*command: str) -> None:
    """Print a command as one types it."""
    print("$", shlex.join(command), flush=True)


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Return whether somebody listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def certificate(folder: Path) -> None:
    """Write a certificate that signs itself, for this machine and a day, and its key."""
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "server.crt").write_bytes(signed.public_bytes(Encoding.PEM))
    write_secret(
        folder / "server.key",
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def node_key(path: Path) -> None:
    """Write the key of a SuperNode, as ``ssh-keygen -t ecdsa -b 384`` does."""
    key = ec.generate_private_key(ec.SECP384R1())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    write_secret(path, secret)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    path.with_name(f"{path.name}.pub").write_bytes(public)


def write_secret(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read."""
    path.touch(mode=0o600)
    path.write_bytes(data)


def main(folder: Path) -> None:
    """Deploy, run, and try the head on digits that no site holds."""
    digits = load_digits()
    features, labels = digits.data.astype(np.float32), digits.target
    train, test = np.arange(1500), np.arange(1500, len(labels))
    partition = dirichlet(labels[train], 30, 0.5, seed=0)
    clients = np.array(partition.client_ids)[partition.assignment]

    with Loopback(folder) as loopback:
        loopback.start_superlink()
        for i, site in enumerate(SITES):
            rows = train[partition.assignment % len(SITES) == i]
            data = loopback.folder / f"{site}.npz"
            np.savez(data, features=features[rows], labels=labels[rows], clients=clients[rows])
            loopback.register(site)
            loopback.start_supernode(site, f'data="{data}"')
        run_folder = loopback.folder / "run"
        loopback.run(f'run-folder="{run_folder}" min-clients={len(np.unique(clients))} classes=10')

    head = LinearHead.load(run_folder / "head.safetensors")
    print(f"accuracy on {len(test)} other digits: {head.score(features[test], labels[test]):.1%}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
