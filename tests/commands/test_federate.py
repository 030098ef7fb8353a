"""The command in one process; over Ray it is tests/integration/test_simulation.py."""

import io
import json
import sys

import pytest
from PIL import Image
from typer.testing import CliRunner

import fedcof
from fedcof.cli import app
from fedcof.installation import install_line

pytestmark = pytest.mark.slow

ARGUMENTS = ["federate", "--engine", "in-process", "--images", "200"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache, so that the features of the same images are extracted once for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def federate(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(cache))
    run_folder = tmp_path / "run"

    def federate(*arguments, clients=5):
        number = [] if clients is None else ["--clients", str(clients)]
        return CliRunner().invoke(
            app, [*ARGUMENTS, *number, "--out", str(run_folder), *arguments]
        ), run_folder / "head.safetensors"

    return federate


def test_head_is_saved_and_told(federate):
    result, path = federate("--method", "fedncm")
    assert result.exit_code == 0, result.output
    assert fedcof.LinearHead.load(path).provenance.method == "fedncm"
    assert "accuracy" in result.output
    as_json = json.loads(federate("--method", "fedncm", "--json")[0].stdout)
    assert (as_json["head"], as_json["clients"], as_json["set_aside"]) == (str(path), 5, {})
    assert 0 < as_json["accuracy"] <= 1


@pytest.fixture
def hospitals(tmp_path):
    """A table of images of 2 classes in 3 hospitals, the second image of which is broken."""
    pa, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
    pictures = []
    for i in range(12):
        Image.new("L", (8, 8), 20 * i).save(file := io.BytesIO(), "png")
        pictures.append({"bytes": b"broken" if i == 1 else file.getvalue()})
    columns = {"image": pictures, "label": [0, 1] * 6, "hospital": [*"aabcabccbbac"]}
    parquet.write_table(pa.table(columns), path := tmp_path / "hospitals.parquet")
    return f"parquet:{path}"


@pytest.mark.filterwarnings("ignore:skipped 1 of 9")
def test_clients_may_be_those_that_a_column_names(federate, hospitals):
    result, path = federate("--dataset", hospitals, "--partition", "hospital", clients=None)
    assert result.exit_code == 0, result.output
    provenance = fedcof.LinearHead.load(path).provenance
    assert (provenance.clients, provenance.samples) == (3, 8)
    assert "3 clients, by hospital" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--partition", "hospital"], "--clients is no setting of the partition hospital"),
        (["--partition", "iid", "--alpha", "0.5"], "--alpha is no setting of the partition iid"),
    ],
)
def test_a_setting_that_the_way_to_deal_lacks_is_refused(federate, hospitals, options, message):
    result, _ = federate("--dataset", hospitals, *options)
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("torchvision", "pip install torchvision"),
        ("timm", "--weights of squeezenet1.1 are a file or from bundled"),
        ("mine.pth", "mine.pth"),
    ],
)
def test_weights_that_are_not_there_are_refused(federate, monkeypatch, weights, message):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    result, _ = federate("--weights", weights)
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize("partition", ["iid", "class-wise"])
def test_clients_may_be_made_by_other_schemes(federate, partition):
    result, path = federate("--partition", partition)
    assert result.exit_code == 0, result.output
    assert fedcof.LinearHead.load(path).provenance.samples == 150
    assert partition in result.output


def test_partition_that_there_is_not_is_refused_with_those_that_there_are(federate, hospitals):
    result, _ = federate("--dataset", hospitals, "--partition", "user")
    assert result.exit_code == 1
    assert "'user'; there are dirichlet, class-wise, iid, hospital" in " ".join(
        result.output.split()
    )


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--method", "fedcoff", "fedcof"),
        ("--dataset", "cifar1000", "cifar100"),
        ("--dataset", "cifar100", "cifar100"),
        ("--backbone", "squeezenet", "squeezenet1.1"),
    ],
)
def test_bad_option_is_refused_in_words(federate, monkeypatch, option, value, word):
    monkeypatch.delenv("FEDCOF_DATA", raising=False)
    result, _ = federate(option, value)
    assert result.exit_code == 1
    assert word in result.output
    assert "Traceback" not in result.output


def test_a_hyperparameter_of_the_method_is_taken(federate):
    result, path = federate("--method", "fed3r", "--ridge", "5")
    assert result.exit_code == 0, result.output
    assert fedcof.LinearHead.load(path).provenance.hyperparameters["ridge"] == 5.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--shrinkage", "-1"],
            "--shrinkage must be a finite number, at least 0 or 'auto', it is -1.0",
        ),
        (
            ["--ridge", "1"],
            "the method fedcof has no ridge; it has --form, --priors, --temperature, --shrinkage, ",
        ),
        (["--quorum", "3"], "--quorum needs --engine simulation"),
        (
            ["--engine", "simulation", "--timeout", "0"],
            "--timeout must be a finite number, above 0",
        ),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_its_name(federate, options, message):
    result, _ = federate(*options)
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())


def test_flower_that_is_not_installed_is_told_how_to_get(federate, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result, _ = federate("--engine", "simulation")
    assert result.exit_code == 1
    assert install_line("flower") in result.output.replace("\n", "")


NOISED = ["--epsilon", "50", "--radius", "22.7", "--transform", "standardize+clip:22.7"]


def test_noise_on_the_sum_stands_in_the_head_and_is_shown(federate):
    pytest.importorskip("opendp")
    result, path = federate("--method", "fedncm", *NOISED)
    assert result.exit_code == 0, result.output
    privacy = fedcof.LinearHead.load(path).provenance.privacy
    assert (privacy["epsilon"], privacy["neighbours"]) == (50.0, "sample")
    shown = CliRunner().invoke(app, ["inspect", "--json", str(path)])
    assert json.loads(shown.stdout)[0]["privacy"] == privacy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "8"], "transform must end with clip:1000"),
        ([*NOISED, "--steps", "min-samples:3"], "min-samples must not stand beside noise"),
        ([*NOISED, "--neighbours", "client"], "max-samples must be given"),
        ([*NOISED, "--secure"], "secure needs --engine simulation"),
        ([*NOISED, "--engine", "simulation"], "epsilon needs --secure"),
    ],
)
def test_noise_that_cannot_be_is_refused(federate, options, message):
    pytest.importorskip("flwr")
    result, _ = federate(*options)
    assert (result.exit_code, message in " ".join(result.output.split())) == (1, True), (
        result.output
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--method", "ccvr"], "ccvr"),
        (["--quorum", "3"], "quorum"),
    ],
)
def test_what_secure_rounds_lack_is_refused_before_the_data_is_read(
    federate, monkeypatch, arguments, said
):
    """A regression test: it was refused after the features had been extracted."""
    pytest.importorskip("flwr")
    monkeypatch.setattr("fedcof.data.fashion_mnist", lambda *_, **named: pytest.fail("was read"))
    result, _ = federate("--engine", "simulation", "--secure", *arguments)
    assert result.exit_code == 1
    assert said in result.stderr
