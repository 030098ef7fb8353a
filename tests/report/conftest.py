import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from fedcof.cli import app


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """A folder of 96 images in three classes: blotches of three colours."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for index, name in enumerate(("blue", "green", "red")):
        (folder / name).mkdir()
        for number in range(32):
            pixels = rng.integers(0, 120, size=(8, 8, 3), dtype=np.uint8)
            pixels[..., index] += 100
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def reproduce(name, images, out, *options):
    arguments = ["reproduce", name, "--dataset", f"folder:{images}", "--seeds", "2"]
    arguments += ["--backbone", "squeezenet1.1", "--out", str(out), *options]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "160"})


EXPERIMENTS = ("table1", "table_shrinkage", "participation", "tab-scatter")


@pytest.fixture(scope="session")
def runs(images, tmp_path_factory):
    """The folder of a few experiments on the tiny images."""
    out = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDCOF_CACHE", str(tmp_path_factory.mktemp("cache")))
        for name in EXPERIMENTS:
            result = reproduce(name, images, out)
            assert result.exit_code == 0, result.output
        missing = ["reproduce", "table_severe", "--data", str(tmp_path_factory.mktemp("no-data"))]
        result = CliRunner().invoke(app, [*missing, "--out", str(out)])
        assert result.exit_code == 1
    return out
