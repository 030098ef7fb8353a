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
    assert "microsoft/resnet-18" in output
    assert "google/vit-base-patch32" not in output
