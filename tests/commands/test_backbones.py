import json

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
