import tomllib

import pytest
from typer.testing import CliRunner

import fedcof
from fedcof.cli import app


def new(folder):
    return CliRunner().invoke(app, ["app", "new", str(folder)])


def test_the_app_is_written_with_its_settings(tmp_path):
    result = new(tmp_path / "deep" / "federation")
    assert result.exit_code == 0, result.output
    folder = tmp_path / "deep" / "federation"
    assert {"README.md", "deploy_loopback.py", "pyproject.toml"} == {
        path.name for path in folder.iterdir()
    }
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["project"]["version"] == fedcof.__version__
    assert project["tool"]["flwr"]["app"]["config"]["method"] == "fedcof"


@pytest.mark.parametrize("what", ["file in it", "file itself"])
def test_nothing_is_written_over(tmp_path, what):
    taken = tmp_path / "taken"
    mine = taken / "pyproject.toml" if what == "file in it" else taken
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    result = new(taken)
    assert result.exit_code == 1
    assert "error:" in result.output
    assert "taken" in result.output
    assert mine.read_text() == "mine"
