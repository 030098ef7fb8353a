"""The app folder, and that Flower stays out of the core."""

import pytest

pytest.importorskip("flwr")

import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

from fedcof.client import Sender
from fedcof.federation.plan import Plan
from fedcof.federation.records import Job
from fedcof.federation.serving import Settings
from fedcof.federation.training.server import Training
from fedcof.methods import METHODS, FedCOF
from fedcof.training import TrainingSettings

APP = Path(__file__).parents[2] / "apps" / "fedcof" / "pyproject.toml"
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


def test_every_key_of_the_app_is_read():
    keys = {key.replace("-", "_") for key in CONFIG}
    known = {f.name for kind in (Plan, Settings, Job, *METHODS.values()) for f in fields(kind)}
    known |= {f"train_{f.name}" for kind in (TrainingSettings, Training) for f in fields(kind)}
    known |= {"test_data", "method", "seed"}
    assert keys <= known


def test_core_does_not_import_flower():
    code = "import sys, fedcof, fedcof.cli, fedcof.federation.serving; print('flwr' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
