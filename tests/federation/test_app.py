"""The app folder, and that Flower stays out of the core."""

import pytest

pytest.importorskip("flwr")

import subprocess
import sys
import tomllib
from pathlib import Path

from fedcof import federation
from fedcof.client import Sender
from fedcof.federation.records import Job
from fedcof.federation.run_config import known_keys
from fedcof.federation.serving import Settings
from fedcof.methods import METHODS, FedCOF

APP = Path(federation.__file__).parent / "app" / "pyproject.toml"
CONFIG = tomllib.loads(APP.read_text())["tool"]["flwr"]["app"]["config"]


def test_flower_takes_the_app_without_a_warning(tmp_path):
    flwr = Path(sys.executable).with_name("flwr")
    done = subprocess.run(
        [flwr, "build", "--app", APP.parent],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "warning" not in (done.stdout + done.stderr).lower()
    assert list(tmp_path.glob("*.fab"))


def test_settings_of_the_app_are_the_defaults():
    settings = Settings.from_run_config(CONFIG)
    assert settings == Settings(Job(Sender(FedCOF())), settings.run_folder)


def test_hyperparameters_in_the_app_are_the_defaults_of_every_method():
    for method in METHODS:
        assert (
            Settings.from_run_config(CONFIG | {"method": method}).job.sender.method
            == METHODS[method]()
        )


# TOML has no null: 0 stands for a target and a rate of the server that are not given, and for
# rounds of training that are not asked for.
ABSENT = {"train-rounds": 0, "train-server-lr": 0.0, "train-target": 0.0}


def test_the_app_has_every_setting_with_its_default(monkeypatch):
    for name, method in list(METHODS.items()):
        if not method.__module__.startswith("fedcof."):
            monkeypatch.delitem(METHODS, name)
    assert known_keys() | ABSENT == CONFIG


def test_core_does_not_import_flower():
    code = "import sys, fedcof, fedcof.federation.serving; print('flwr' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
