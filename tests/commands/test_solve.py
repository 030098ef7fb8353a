"""`fedcof solve` and `fedcof inspect`: what arrived, what is odd, what is set aside."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from fedcof import Fed3R, FedCOF, LinearHead
from fedcof.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def sites(tmp_path):
    """Write the files of some sites; the features of one are multiplied."""
    folder = tmp_path / "sites"
    folder.mkdir()

    def sites(factor=1.0, names="abcdef", classes=("cat", "dog"), means_per_class=1):
        rng, method = np.random.default_rng(0), FedCOF(means_per_class=means_per_class)
        centres = 2 + rng.normal(size=(len(classes), 8))
        for name in names:
            labels = np.arange(20 * len(classes)) % len(classes)
            features = centres[labels] + 0.3 * rng.normal(size=(len(labels), 8))
            features *= factor if name == "c" else 1
            summary = method.summarize(features, np.array(classes)[labels], client_id=name, rng=rng)
            summary.save(folder / f"{name}.summary")
        return folder

    return sites


def test_a_folder_is_the_files_in_it(sites, tmp_path):
    folder = sites()
    (folder / "notes.txt").write_text("no summary")
    whole = run("solve", folder, "--out", tmp_path / "1")
    files = run("solve", *sorted(folder.glob("*.summary")), folder, "--out", tmp_path / "2")
    assert (whole.exit_code, files.exit_code) == (0, 0), whole.output
    name = "head.safetensors"
    assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_the_table_shows_clients_by_classes(sites, tmp_path):
    output = run("solve", sites(), "--out", tmp_path).output
    rows = [[word for word in line.split() if word.isalnum()] for line in output.splitlines()]
    assert ["client", "samples", "classes", "largest", "number", "cat", "dog"] in rows
    assert [row[-2:] for row in rows if row[:1] == ["a"]] == [["20", "20"]]


def test_many_classes_have_no_column_each(sites, tmp_path):
    result = run("solve", sites(classes=[f"class{i}" for i in range(30)]), "--out", tmp_path)
    assert "class0" not in result.output


def test_an_odd_site_is_named_and_counts(sites, tmp_path):
    result = run("solve", sites(3.0), "--out", tmp_path)
    assert result.exit_code == 0
    assert "warning: client 'c': its features are " in result.output
    assert LinearHead.load(tmp_path / "head.safetensors").provenance.clients == 6


def test_a_site_that_is_too_odd_is_set_aside_unless_it_is_accepted(sites, tmp_path):
    folder = sites(1000.0)
    result = run("solve", folder, "--out", tmp_path / "1")
    assert result.exit_code == 3
    assert f"set aside {folder / 'c.summary'}: client 'c': its features are " in result.output
    assert LinearHead.load(tmp_path / "1" / "head.safetensors").provenance.clients == 5
    taken = run("solve", folder, "--accept", "c", "--out", tmp_path / "2")
    assert taken.exit_code == 0
    assert LinearHead.load(tmp_path / "2" / "head.safetensors").provenance.clients == 6


def test_a_client_to_accept_that_there_is_not_is_refused(sites, tmp_path):
    result = run("solve", sites(), "--accept", "x", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "there is no such client; there are 'a', 'b'" in result.output


def test_of_two_sites_that_differ_no_head_is_made(sites, tmp_path):
    folder = sites(1000.0, names="bc")
    result = run("solve", folder, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "client 'b'" in result.output
    assert "client 'c'" in result.output
    assert not (tmp_path / "out").exists()


def test_another_backbone_is_set_aside(sites, tmp_path):
    from fedcof.summaries import load

    folder = sites()
    for name in "abcdef":
        path = folder / f"{name}.summary"
        load(path).with_origin({"backbone": "2" if name == "c" else "1"}).save(path)
    result = run("solve", folder, "--out", tmp_path)
    assert result.exit_code == 3
    assert "c.summary: backbone 2; 5 of 6 clients have backbone 1" in result.output


def test_two_files_of_one_client_are_named(sites, tmp_path):
    folder = sites()
    other = folder.parent / "again"
    other.mkdir()
    FedCOF().summarize(np.eye(8)[:2], ["cat", "dog"], client_id="a").save(other / "x.summary")
    result = run("solve", folder, other, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert f"{folder / 'a.summary'} and {other / 'x.summary'}" in result.output


def test_a_copy_of_a_file_is_set_aside(sites, tmp_path):
    folder = sites()
    (folder / "copy.summary").write_bytes((folder / "a.summary").read_bytes())
    result = run("solve", folder, "--out", tmp_path)
    assert result.exit_code == 3
    assert "copy.summary: the same summary as" in result.output


@pytest.mark.parametrize("command", ["solve", "inspect"])
def test_a_file_or_a_summary_that_is_not_there_is_told_in_a_sentence(command, tmp_path):
    missing = run(command, tmp_path / "x.summary")
    empty = run(command, tmp_path)
    assert (missing.exit_code, empty.exit_code) == (1, 1)
    assert f"error: there is no file or folder {tmp_path / 'x.summary'}\n" in missing.output
    assert f"error: no file in the folder {tmp_path} ends in .summary" in empty.output


def test_another_head_is_not_overwritten_unless_asked(sites, tmp_path):
    folder = sites()
    assert run("solve", folder, "--out", tmp_path).exit_code == 0
    assert run("solve", folder, "--out", tmp_path).exit_code == 0
    refused = run("solve", folder, "--shrinkage", 5, "--out", tmp_path)
    assert refused.exit_code == 1
    assert "--force" in refused.output
    assert run("solve", folder, "--shrinkage", 5, "--out", tmp_path, "--force").exit_code == 0


def test_the_heads_provenance_has_the_clients_means_per_class(sites, tmp_path):
    run("solve", sites(means_per_class=3), "--out", tmp_path)
    head = LinearHead.load(tmp_path / "head.safetensors")
    assert head.provenance.hyperparameters["means_per_class"] == 3


def test_json_is_one_document(sites, tmp_path):
    result = run("solve", sites(1000.0), "--out", tmp_path, "--json")
    document = json.loads(result.stdout)
    assert [row["client"] for row in document["clients"]] == [*"abdef"]
    assert document["clients"][0]["counts"] == {"cat": 20, "dog": 20}
    assert [aside["file"] for aside in document["set_aside"]] == [str(tmp_path / "sites/c.summary")]
    assert document["provenance"]["clients"] == 5


def test_inspect_shows_summaries_and_heads(sites, tmp_path):
    folder = sites()
    run("solve", folder, "--out", tmp_path)
    result = run("inspect", folder / "a.summary", tmp_path / "head.safetensors", "--json")
    summary, head = json.loads(result.stdout)
    assert (summary["kind"], summary["coding"], summary["dim"]) == ("class-means", "float32", 8)
    assert (summary["client_ids"], summary["counts"]) == (["a"], {"cat": 20, "dog": 20})
    assert (head["kind"], head["method"], head["clients"]) == ("head", "fedcof", 6)
    shown = run("inspect", folder)
    assert shown.exit_code == 0
    assert "class-means" in shown.output


def test_inspect_names_what_is_broken(sites):
    folder = sites()
    (folder / "bad.summary").write_bytes(b"nothing")
    result = run("inspect", folder)
    assert result.exit_code == 1
    assert "bad.summary: these 7 bytes are not a whole file of fedcof" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("client_id", ["[/ward]", "北" * 29])
def test_a_round_with_any_id_on_a_terminal_of_ascii(client_id, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", features=rng.normal(size=(20, 3)), labels=np.arange(20) % 2)

    def fedcof(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "fedcof", *map(str, arguments)],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        )

    made = fedcof("summarize", tmp_path / "data.npz", f"--client-id={client_id}", "-o", tmp_path)
    assert made.returncode == 0, made.stderr
    [path] = tmp_path.glob("*.summary")
    again = fedcof("solve", path, "--out", tmp_path)
    assert again.returncode == 0, again.stderr
    assert b"Traceback" not in made.stderr + again.stderr
    assert fedcof("inspect", path).returncode == 0


def test_a_second_site_with_the_default_id_is_refused(tmp_path):
    for seed in range(2):
        features = np.random.default_rng(seed).normal(size=(20, 3))
        np.savez(tmp_path / f"{seed}.npz", features=features, labels=np.arange(20) % 2)
    assert run("summarize", tmp_path / "0.npz", "--out", tmp_path).exit_code == 0
    assert run("summarize", tmp_path / "0.npz", "--out", tmp_path).exit_code == 0
    refused = run("summarize", tmp_path / "1.npz", "--out", tmp_path)
    assert refused.exit_code == 1
    assert "site.summary is there already" in refused.output


def test_a_file_that_cannot_be_opened_is_set_aside(sites, tmp_path):
    folder = sites()
    (folder / "folder.summary").mkdir()
    (folder / "link.summary").symlink_to("nowhere")
    result = run("solve", folder, "--out", tmp_path)
    assert result.exit_code == 3, result.output
    assert f"set aside {folder / 'folder.summary'}: " in result.output
    assert f"set aside {folder / 'link.summary'}: " in result.output
    inspected = run("inspect", folder, "--json")
    assert inspected.exit_code == 1
    assert len([row for row in json.loads(inspected.stdout) if "error" in row]) == 2


def test_a_head_and_a_summary_for_another_method_are_set_aside(sites, tmp_path):
    folder = sites()
    run("solve", folder, "--out", tmp_path)
    (tmp_path / "head.safetensors").rename(folder / "head.summary")
    Fed3R().summarize(np.eye(8), np.arange(8), client_id="x").save(folder / "x.summary")
    result = run("solve", folder, "--out", tmp_path)
    assert result.exit_code == 3, result.output
    assert "head.summary: a head" in result.output
    assert "a summary of kind 'gram', but the method takes 'class-means'" in result.output


def test_without_any_file_to_take_no_head_is_made(sites, tmp_path):
    result = run("solve", sites(), "--method", "fed3r", "--out", tmp_path)
    assert result.exit_code == 1
    assert "no head is made: no file holds a summary that this method takes" in result.output
    assert not (tmp_path / "head.safetensors").exists()


def test_of_files_that_do_not_go_together_none_is_chosen_by_its_place(tmp_path):
    for name, dim in {"a": 4, "b": 5}.items():
        FedCOF().summarize(np.eye(dim), np.arange(dim), client_id=name).save(
            tmp_path / f"{name}.summary"
        )
    result = run("solve", tmp_path, "--out", tmp_path)
    assert result.exit_code == 1
    assert "No majority of the files goes together" in result.output
    assert not (tmp_path / "head.safetensors").exists()


def test_a_client_that_moves_the_head_too_far_is_set_aside(sites, tmp_path):
    folder = sites(3.0)
    plain = run("solve", folder, "--out", tmp_path / "1", "--max-influence", 2, "--json")
    first = json.loads(plain.stdout)["influence"][0]
    assert first["client_ids"] == ["c"]
    most = first["shift"] - 1e-6
    weighed = run("solve", folder, "--out", tmp_path / "2", "--max-influence", most, "--json")
    assert weighed.exit_code == 3
    document = json.loads(weighed.stdout)
    assert "c.summary" in document["set_aside"][0]["file"]
    assert max(one["shift"] for one in document["influence"]) <= most


@pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")
def test_shift_between_sites_is_said(tmp_path):
    rng = np.random.default_rng(0)
    for shift, folder in ((0.0, tmp_path / "alike"), (2.0, tmp_path / "shifted")):
        folder.mkdir()
        for site, size in enumerate((30, 90, 270, 810, 60, 180)):
            labels = rng.integers(3, size=size)
            features = rng.normal(size=(size, 8)) + 3 * np.eye(3, 8)[labels]
            features += shift * rng.normal(size=(3, 8))[labels]
            summary = FedCOF().summarize(features, labels, client_id=f"site{site}")
            (folder / f"site{site}.summary").write_bytes(summary.to_bytes())
    said = {
        name: run("solve", tmp_path / name, "--out", tmp_path / "out", "--force")
        for name in ("alike", "shifted")
    }
    assert "differ from site to site" not in said["alike"].output
    assert "differ from site to site" in " ".join(said["shifted"].output.split())


def test_products_are_computed_on_the_device_that_is_asked_for(sites, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from fedcof.algebra.torch_algebra import TorchAlgebra

    monkeypatch.setattr("fedcof.methods.base.algebra_of", lambda engine: TorchAlgebra("cpu"))
    monkeypatch.setattr("fedcof.algebra.algebra_of", lambda engine: TorchAlgebra("cpu"))
    folder = sites()
    for engine in ("memory", "cuda"):
        done = run("solve", folder, "--out", tmp_path / engine, "--engine", engine)
        assert done.exit_code == 0, done.output
    heads = [
        LinearHead.load(tmp_path / engine / "head.safetensors") for engine in ("memory", "cuda")
    ]
    np.testing.assert_allclose(heads[1].weight, heads[0].weight, rtol=1e-5, atol=1e-7)


def test_a_device_that_is_not_there_is_told_before_anything_is_read(sites, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run("solve", sites(), "--engine", "cuda")
    assert done.exit_code == 1
    assert "engine cuda needs torch" in done.output
