"""A round by files: sites write summaries, the server solves from the files."""

import json
import warnings

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import fedcof
from fedcof import FedCOF, LinearHead, summarize
from fedcof.cli import app
from fedcof.commands.shared import EXIT_LEFT_OUT
from fedcof.methods import client_rng


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def sites(tmp_path):
    rng = np.random.default_rng(0)
    tables = {}
    for name in ("north", "south"):
        labels = np.repeat(["cat", "dog"], 10)
        features = rng.normal(size=(20, 4)) + 2.0 * (labels == "dog")[:, None]
        tables[name] = features.astype(np.float32), labels
        np.savez(tmp_path / f"{name}.npz", features=tables[name][0], labels=labels)
    return tables


def test_the_head_from_files_is_the_head_in_one_process(sites, tmp_path):
    for name in sites:
        source = tmp_path / f"{name}.npz"
        assert run("summarize", source, "--client-id", name, "--out", tmp_path).exit_code == 0
    files = sorted(tmp_path.glob("*.summary"), reverse=True)
    result = run("solve", *files, "--shrinkage", "0.1", "--out", tmp_path / "head")
    assert result.exit_code == 0, result.output
    method = FedCOF(shrinkage=0.1)
    parts = [summarize(*table, client_id=name) for name, table in sites.items()]
    head = LinearHead.load(tmp_path / "head" / "head.safetensors")
    assert head.classes.tolist() == ["cat", "dog"]
    np.testing.assert_allclose(head.weight, method.solve(parts).weight, atol=1e-6)


def test_a_transform_and_a_coding_travel_with_the_files_to_the_head(sites, tmp_path):
    transform = "power:0.5+random-features:16"
    options = ["--transform", transform, "--coding", "int8", "--out", tmp_path]
    for name in sites:
        done = run("summarize", tmp_path / f"{name}.npz", "--client-id", name, *options)
        assert done.exit_code == 0, done.output
    files = sorted(tmp_path.glob("*.summary"))
    assert run("solve", *files, "--out", tmp_path).exit_code == 0
    head = LinearHead.load(tmp_path / "head.safetensors")
    assert str(head.transform) == f"{transform}:0:relu:4"
    done = run("evaluate", tmp_path / "head.safetensors", tmp_path / "north.npz", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["accuracy"] == head.score(*sites["north"]) > 0.8
    known = json.loads(run("inspect", files[0], "--json").stdout)[0]
    assert (known["coding"], known["origin"]) == ("int8", {"transform": str(head.transform)})
    onnx_file = tmp_path / "head.onnx"
    done = run("export", tmp_path / "head.safetensors", "--onnx", onnx_file)
    assert done.exit_code == 0, done.output
    # A site that forgets the transform is set aside by name.
    lone = tmp_path / "lone"
    run("summarize", tmp_path / "north.npz", "--client-id", "lone", "--out", lone)
    done = run("solve", *files, lone / "lone.summary", "--out", lone)
    assert done.exit_code == EXIT_LEFT_OUT
    assert "features of length 4 and names for labels; 2 of 3 clients have" in done.output


def test_the_transform_of_a_table_s_features_is_no_backbone_s(sites, tmp_path):
    run("summarize", tmp_path / "north.npz", "--transform", "auto", "--out", tmp_path)
    assert fedcof.load(tmp_path / "site.summary").origin == {}
    done = run("summarize", tmp_path / "north.npz", "--transform", "powr", "--out", tmp_path)
    assert "--transform is 'powr': no transform is called 'powr'; did you mean power" in done.output


def test_a_source_with_several_clients_gives_a_file_each(tmp_path):
    clients = np.array(["ward/1", "ward 2", "ward/1", "ward 2"])
    np.savez(tmp_path / "all.npz", features=np.eye(4), labels=[0, 0, 1, 1], clients=clients)
    run("summarize", tmp_path / "all.npz", "--out", tmp_path)
    written = sorted(path.name for path in tmp_path.glob("*.summary"))
    assert written == ["ward 2.summary", "ward%2F1.summary"]


def test_several_means_come_from_the_clients_own_generator(sites, tmp_path):
    source = tmp_path / "north.npz"
    options = ["--means-per-class", 2, "--seed", 3]
    run("summarize", source, "--client-id", "north", "--out", tmp_path, *options)
    expected = FedCOF(means_per_class=2).summarize(
        *sites["north"], client_id="north", rng=client_rng(3, "north")
    )
    assert (tmp_path / "north.summary").read_bytes() == expected.to_bytes()


def test_a_bad_file_is_named_and_set_aside_or_stops_a_strict_run(sites, tmp_path):
    for name in sites:
        run("summarize", tmp_path / f"{name}.npz", "--client-id", name, "--out", tmp_path)
    (tmp_path / "bad.summary").write_bytes(b"not a summary")
    files = sorted(tmp_path.glob("*.summary"))
    kept = run("solve", *files, "--out", tmp_path / "head")
    assert kept.exit_code == 3
    assert f"set aside {tmp_path / 'bad.summary'}: not a whole summary" in kept.output
    assert "from 2 files, 1 set aside" in kept.output
    stopped = run("solve", *files, "--strict", "--out", tmp_path / "other")
    assert stopped.exit_code == 1
    assert not (tmp_path / "other").exists()


def test_a_hyperparameter_that_the_method_lacks_is_refused(sites, tmp_path):
    run("summarize", tmp_path / "north.npz", "--out", tmp_path)
    result = run("solve", tmp_path / "site.summary", "--method", "fedncm", "--shrinkage", "1")
    assert result.exit_code == 1
    assert "fedncm has no shrinkage" in result.output


def test_the_bytes_of_a_summary_are_told_by_formula_and_on_the_wire(sites, tmp_path):
    result = run("summarize", tmp_path / "north.npz", "--out", tmp_path)
    size = (tmp_path / "site.summary").stat().st_size
    assert f"20 samples, {4 * 2 * 4} bytes by formula, {size:,} on the wire" in result.output


@pytest.fixture
def folder_with_a_broken_image(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))
    for name, grey in (("dark", 20), ("light", 220)):
        (tmp_path / "site" / name).mkdir(parents=True)
        Image.new("L", (30, 30), grey).save(tmp_path / "site" / name / "good.png")
    (tmp_path / "site" / "dark" / "broken.png").write_bytes(b"no image")
    return tmp_path / "site"


def test_an_unreadable_image_is_named_and_skipped(folder_with_a_broken_image, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run("summarize", folder_with_a_broken_image, "--out", tmp_path)
    assert result.exit_code == EXIT_LEFT_OUT, result.output
    assert "2 samples" in result.output.replace("\n", "")
    assert any("skipped 1 of 3" in str(one.message) for one in caught)
    assert any("broken.png" in str(one.message) for one in caught)


def test_what_is_left_out_is_told_by_the_exit_status(folder_with_a_broken_image, tmp_path):
    (folder_with_a_broken_image / "dark" / "broken.png").rename(
        folder_with_a_broken_image / "dark" / "notes.pdf"
    )
    result = run("summarize", folder_with_a_broken_image, "--out", tmp_path)
    assert result.exit_code == EXIT_LEFT_OUT
    assert "1 left out, not a picture: " in result.stderr


@pytest.mark.parametrize(("command", "other"), [("summarize", "test"), ("evaluate", "train")])
def test_the_part_that_is_not_asked_for_is_told_and_is_not_left_out(
    tmp_path, monkeypatch, command, other
):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))
    for grey, name in enumerate(("train/dark", "train/light", "test/dark", "test/light")):
        (tmp_path / "parts" / name).mkdir(parents=True)
        Image.new("L", (30, 30), 60 * grey).save(tmp_path / "parts" / name / "a.png")
    (tmp_path / "parts" / ".DS_Store").touch()
    told = run("summarize", tmp_path / "parts", "--out", tmp_path, "--method", "fedncm")
    if command == "evaluate":
        run("solve", tmp_path / "site.summary", "--out", tmp_path, "--method", "fedncm")
        told = run("evaluate", tmp_path / "head.safetensors", tmp_path / "parts")
    assert told.exit_code == 0, told.output
    assert f"2 passed over, of the part {other}: " in told.output


def test_a_client_of_whom_nothing_is_left_is_told_by_the_exit_status(sites, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "fedcof.client.Sender.send_each", lambda self, few, **named: [None] * len(few)
    )
    result = run("summarize", tmp_path / "north.npz", "--out", tmp_path)
    assert result.exit_code == EXIT_LEFT_OUT
    assert "nothing is left to send" in result.output


def test_an_unreadable_image_stops_a_strict_run(folder_with_a_broken_image, tmp_path):
    result = run("summarize", folder_with_a_broken_image, "--strict", "--out", tmp_path)
    assert result.exit_code == 1
    assert "broken.png" in result.output.replace("\n", "")
    assert not list(tmp_path.glob("*.summary"))
