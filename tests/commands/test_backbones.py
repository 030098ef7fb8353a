import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fedcof.backbones import BACKBONES
from fedcof.cli import app


def fedcof_backbones_list():
    result = CliRunner().invoke(app, ["backbones", "list"], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return result.output


def test_all_backbones_are_listed(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_WEIGHTS", str(tmp_path))
    output = fedcof_backbones_list()
    for name, backbone in BACKBONES.items():
        [line] = [line for line in output.splitlines() if line.split()[:1] == [name]]
        assert f"{backbone.dim:,}" in line


def test_weights_that_are_here_are_named_and_the_others_sources_are(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_WEIGHTS", str(tmp_path))
    (tmp_path / "vit-b-32.onnx").touch()
    output = fedcof_backbones_list()
    assert "here: squeezenet_weights.pkl" in output
    assert "here: vit-b-32.onnx" in output
    assert "transformers: needs the model microsoft/resnet-18" in output


def test_the_papers_weights_are_said_for_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_WEIGHTS", str(tmp_path))
    result = CliRunner().invoke(app, ["backbones", "list", "--json"])
    listed = {entry["name"]: entry for entry in json.loads(result.stdout)}
    assert listed["vit-b-16"]["paper"] == "timm"
    [timm] = [place for place in listed["vit-b-16"]["weights"] if place["source"] == "timm"]
    assert timm == {
        "source": "timm",
        "here": False,
        "needs": "vit_base_patch16_224_in21k of timm",
    }


@pytest.fixture
def public(tmp_path):
    """A table of features of public images, of different brightness."""
    rng = np.random.default_rng(0)
    labels = np.repeat(["cat", "dog", "owl"], 60)
    features = 1 + rng.normal(size=(180, 8)) + np.repeat(rng.normal(size=(3, 8)), 60, axis=0)
    features *= rng.lognormal(0, 2, size=(180, 1))
    np.savez(tmp_path / "public.npz", features=features, labels=labels)
    return tmp_path / "public.npz"


def test_advise_names_a_transform_with_its_lead(public):
    result = CliRunner().invoke(app, ["backbones", "advise", str(public), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["samples"], found["classes"], found["backbone"]) == (180, 3, None)
    assert "standardize" in found["recommended"]
    assert found["measured"][0]["transform"] == "none"
    shown = CliRunner().invoke(app, ["backbones", "advise", str(public)], env={"COLUMNS": "120"})
    assert (
        f"--transform {found['recommended']}: not below the best by more than chance"
        in shown.output
    )


def test_advise_refuses_too_few_images_in_a_sentence(tmp_path):
    np.savez(tmp_path / "few.npz", features=np.eye(4), labels=[0, 0, 1, 1])
    result = CliRunner().invoke(app, ["backbones", "advise", str(tmp_path / "few.npz")])
    assert result.exit_code == 1
    assert "error: fewer than two classes have 10 samples" in result.output
