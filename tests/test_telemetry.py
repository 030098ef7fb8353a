"""Nothing phones home: no file of a library's statistics, no socket, in a fresh home."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedcof.telemetry import SWITCHES, switch_off

ROOT = Path(__file__).parents[1]

WATCHED = """
import os, sys
from pathlib import Path

def no_network(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        print("NETWORK", event, arguments[1:], file=sys.stderr)

sys.addaudithook(no_network)
{body}
descriptors = Path("/proc/self/fd")
for link in descriptors.iterdir() if descriptors.exists() else ():
    try:
        target = os.readlink(link)
    except OSError:
        continue
    if target.startswith("socket:"):
        print("NETWORK", target, file=sys.stderr)
"""

EXTRACT = """
import numpy as np
from fedcof.backbones import Backbone, Preprocessing
from onnx import parser
network = parser.parse_model(
    '<ir_version: 8, opset_import: ["": 17]> g (float[n, 3, 8, 8] x) => (float[n, 192] y)'
    '{ y = Flatten <axis = 1> (x) }'
)
eight = Preprocessing(8)
features = Backbone(network.SerializeToString(), eight).extract([np.zeros((8, 8, 3), np.uint8)])
assert features.shape == (1, 192)
"""

COMMANDS = """
from fedcof.cli import app
for name in "ab":
    app(["summarize", f"{name}.npz", "--client-id", name, "--out", "sent", "--method", "fedncm"],
        standalone_mode=False)
app(["solve", "sent", "--method", "fedncm", "--out", "head.safetensors"], standalone_mode=False)
"""


@pytest.fixture
def in_fresh_home(tmp_path):
    """Run code in a fresh process with a fresh home; return its process and the files made."""

    def run(body, **variables):
        home, work = tmp_path / "home", tmp_path / "work"
        home.mkdir()
        work.mkdir(exist_ok=True)
        environment = {k: v for k, v in os.environ.items() if k not in SWITCHES}
        environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(ROOT / "src"), environment.get("PYTHONPATH", "")]
        )
        done = subprocess.run(
            [sys.executable, "-c", WATCHED.format(body=body)],
            env=environment | variables,
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done, [str(p.relative_to(home)) for p in home.rglob("*") if p.is_file()]

    return run


@pytest.mark.parametrize(
    "body", ["import fedcof, sys; assert 'onnxruntime' not in sys.modules", EXTRACT]
)
def test_neither_importing_nor_extracting_leaves_files_or_opens_sockets(in_fresh_home, body):
    pytest.importorskip("onnxruntime")
    done, files = in_fresh_home(body)
    assert files == []
    assert "NETWORK" not in done.stderr


@pytest.mark.slow
def test_summarizing_and_solving_by_files_opens_no_socket(in_fresh_home, tmp_path):
    (tmp_path / "work").mkdir()
    rng = np.random.default_rng(0)
    for name in "ab":
        table = {"features": rng.normal(size=(8, 3)), "labels": np.arange(8) % 2}
        np.savez(tmp_path / "work" / f"{name}.npz", **table)
    done, files = in_fresh_home(COMMANDS)
    assert files == []
    assert "NETWORK" not in done.stderr


def test_the_watch_would_see_a_socket_and_a_file(in_fresh_home):
    body = "import socket, pathlib; s = socket.socket(); pathlib.Path.home().joinpath('x').touch()"
    done, files = in_fresh_home(body)
    assert (files, "NETWORK socket:" in done.stderr) == (["x"], sys.platform == "linux")


def test_what_the_user_has_set_stays():
    environment = {"ORT_DISABLE_TELEMETRY": "0"}
    switch_off(environment)
    assert environment == SWITCHES | {"ORT_DISABLE_TELEMETRY": "0"}


@pytest.mark.parametrize(
    "path",
    [ROOT / "deploy/Dockerfile", *sorted((ROOT / "deploy/systemd").glob("*.service"))],
    ids=lambda path: path.stem,
)
def test_services_set_every_switch(path):
    words = set(re.findall(r"[A-Z_]+=\S+", path.read_text().replace("Environment=", " ")))
    assert {f"{name}={value}" for name, value in SWITCHES.items()} <= words
