"""Predict, evaluate, export and compare: from the command line, on own data."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from typer.testing import CliRunner

from fedcof import CCVR, Fed3R, FedCOF, LinearHead
from fedcof.backbones import get
from fedcof.cli import app
from fedcof.commands.shared import EXIT_LEFT_OUT
from fedcof.methods.gh_qda import GHQDA


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def csv_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def draw(rng, labels):
    return rng.normal(size=(len(labels), 3)) + 4.0 * np.eye(3)[[ord(c) - 97 for c in labels]]


def write_table(path, features, **columns):
    names = [*columns, "f0", "f1", "f2"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for row, values in enumerate(features.tolist()):
            writer.writerow([*(column[row] for column in columns.values()), *values])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A head of three classes, a table with labels, and one without."""
    folder = tmp_path_factory.mktemp("after")
    rng = np.random.default_rng(0)
    labels = np.array(list("abc" * 20))
    features = draw(rng, labels)
    method = Fed3R()
    summary = method.summarize(features, labels, client_id="all")
    method.solve([summary]).save(folder / "head.safetensors")
    test = list("aabbcc")
    table = draw(rng, test)
    write_table(folder / "test.csv", table, label=test)
    write_table(folder / "new.csv", table, patient=[f"p{row}" for row in range(6)])
    return folder


@pytest.mark.filterwarnings("ignore::fedcof.errors.OwnDataWarning")  # 'patient' is no feature
class TestPredict:
    def test_every_row_has_its_place_its_columns_and_a_label(self, folder):
        result = run("predict", folder / "head.safetensors", folder / "new.csv")
        assert result.exit_code == 0, result.output
        rows = csv_of(result.stdout)
        assert [row["patient"] for row in rows] == ["p0", "p1", "p2", "p3", "p4", "p5"]
        assert [row["label"] for row in rows] == list("aabbcc")
        assert rows[3]["place"].endswith("new.csv, row 3")
        assert all(float(row["margin"]) > 0 for row in rows)
        assert all(row["runner-up"] != row["label"] for row in rows)

    def test_a_file_is_written_whole_and_the_count_is_said(self, folder, tmp_path):
        out = tmp_path / "out.csv"
        result = run("predict", folder / "head.safetensors", folder / "new.csv", "-o", out)
        assert "6 predictions" in result.stdout
        assert len(csv_of(out.read_text())) == 6

    def test_a_head_of_log_odds_gives_probabilities(self, folder, tmp_path):
        rng = np.random.default_rng(1)
        labels = np.array(list("abc" * 9))
        method = CCVR(samples_per_class=20)
        head = method.solve([method.summarize(draw(rng, labels), labels)])
        head.save(tmp_path / "ccvr")
        rows = csv_of(run("predict", tmp_path / "ccvr", folder / "new.csv").stdout)
        assert all(1 / 3 < float(row["probability"]) <= 1 for row in rows)

    def test_a_quadratic_head_is_taken_where_a_head_is(self, folder, tmp_path):
        rng, method, labels = np.random.default_rng(0), GHQDA(), np.array(list("abc" * 20))
        summary = method.summarize(draw(rng, labels), labels, client_id="all")
        head = method.solve([summary])
        head.save(tmp_path / "head")
        lines = csv_of(run("predict", tmp_path / "head", folder / "new.csv").stdout)
        assert all(0 < float(line["probability"]) <= 1 for line in lines)
        shown = run("evaluate", tmp_path / "head", folder / "test.csv", "--json")
        assert json.loads(shown.stdout)["calibration"]["log_loss"] > 0
        shown = run("inspect", tmp_path / "head", "--json")
        assert json.loads(shown.stdout)[0]["method"] == "gh-qda"
        refused = run("export", tmp_path / "head", "--onnx", tmp_path / "model.onnx")
        assert refused.exit_code == 1
        assert "holds a quadratic head, but a linear one is needed here" in refused.stderr

    def test_samples_of_unknown_classes_are_marked_where_it_is_asked(self, folder, tmp_path):
        rng = np.random.default_rng(1)
        labels = np.array(list("abc" * 60))
        method = Fed3R(form="lda")
        head = method.solve([method.summarize(draw(rng, labels), labels)])
        head.save(tmp_path / "lda")
        strange = np.full((2, 3), 4 / 3)
        table = write_table(tmp_path / "t.csv", np.concatenate([4 * np.eye(3), strange]))
        rows = csv_of(run("predict", tmp_path / "lda", table, "--reject", "0.05").stdout)
        assert [row["unknown"] for row in rows] == ["no", "no", "no", "yes", "yes"]
        assert "unknown" not in csv_of(run("predict", tmp_path / "lda", table).stdout)[0]
        refused = run("predict", folder / "head.safetensors", table, "--reject", "0.05")
        assert "error: this head cannot tell samples of unknown classes" in refused.stderr
        labelled = write_table(
            tmp_path / "l.csv", np.concatenate([4 * np.eye(3), strange]), label=list("abcxx")
        )
        shown = run("evaluate", tmp_path / "lda", labelled, "--out", tmp_path / "found")
        assert "AUROC of unknown classes" in shown.stdout
        curve = csv_of((tmp_path / "found" / "rejection.csv").read_text())
        assert float(curve[0]["accuracy"]) == 1.0

    def test_features_of_another_length_are_refused_in_a_sentence(self, folder, tmp_path):
        np.savez(tmp_path / "long.npz", features=np.ones((2, 5)), label=[0, 1])
        result = run("predict", folder / "head.safetensors", tmp_path / "long.npz")
        assert result.exit_code == 1
        assert "this head takes (n, 3)" in result.stderr

    @pytest.mark.parametrize("command", ["predict", "evaluate"])
    def test_a_file_that_is_no_head_is_refused_in_a_sentence(self, folder, tmp_path, command):
        (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0")
        FedCOF().summarize(np.eye(2), [0, 1]).save(tmp_path / "a.summary")
        for wrong in (tmp_path / "photo.jpg", tmp_path / "a.summary", tmp_path):
            result = run(command, wrong, folder / "test.csv")
            assert result.exit_code == 1
            assert result.stderr.startswith("error:")
            assert "Traceback" not in result.output


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Red and blue photographs, one of which is broken, and the head of SqueezeNet's features."""
    folder = tmp_path_factory.mktemp("photos")
    backbone = get("squeezenet1.1")
    rng = np.random.default_rng(0)
    images, labels = [], []
    for name, channel in (("blue", 2), ("red", 0)):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 90, (20, 30, 3), dtype=np.uint8)
            pixels[..., channel] += 150
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
            images.append(pixels)
            labels.append(name)
    method = Fed3R()
    summary = method.summarize(backbone.extract(images), labels).with_origin(backbone.origin)
    method.solve([summary]).save(folder / "head.safetensors")
    (folder / "photos" / "red" / "broken.png").write_bytes(b"no image")
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("cache")
class TestPhotographs:
    def test_the_head_knows_its_backbone_and_an_unreadable_image_is_named(self, photos):
        result = run("predict", photos / "head.safetensors", photos / "photos")
        assert result.exit_code == EXIT_LEFT_OUT, result.output
        rows = csv_of(result.stdout)
        assert len(rows) == 7
        for row in rows:
            if "broken" in row["place"]:
                assert row["label"] == ""
                assert "broken.png: it is damaged" in row["error"]
            else:
                assert row["label"] in row["place"]
        assert "1 of 7 images cannot be read" in result.stderr

    def test_photographs_without_class_folders_and_a_single_one(self, photos, tmp_path):
        flat = tmp_path / "flat"
        flat.mkdir()
        Image.new("RGB", (30, 20), "red").save(flat / "new.png")
        (flat / "notes.pdf").write_bytes(b"%PDF")
        result = run("predict", photos / "head.safetensors", flat)
        assert result.exit_code == EXIT_LEFT_OUT
        assert "notes.pdf" in result.stderr
        one = run("predict", photos / "head.safetensors", flat / "new.png")
        assert one.exit_code == 0, one.output
        for found in (result, one):
            [row] = csv_of(found.stdout)
            assert Path(row["place"]).name == "new.png"
            assert row["label"] in ("red", "blue")

    def test_an_exported_model_gives_the_labels_of_predict(self, photos, tmp_path):
        model = tmp_path / "model.onnx"
        result = run("export", photos / "head.safetensors", "--onnx", model)
        assert "from an image, by squeezenet1.1" in result.stdout
        session = onnxruntime.InferenceSession(model)
        for path in sorted((photos / "photos").rglob("[0-9].png")):
            image = np.asarray(Image.open(path))[None]
            [label] = session.run(["label"], {"image": image})
            assert label.tolist() == [path.parent.name]

    def test_another_backbone_than_the_heads_is_refused(self, photos, tmp_path, monkeypatch):
        head = LinearHead.load(photos / "head.safetensors")
        head.with_provenance(origin={"backbone": "0123456789abcdef"}).save(tmp_path / "other")
        named = run("predict", tmp_path / "other", photos / "photos", "--backbone", "squeezenet1.1")
        assert named.exit_code == 1
        assert "give the same weights" in named.stderr
        unnamed = run("predict", tmp_path / "other", photos / "photos")
        assert "none of those here" in unnamed.stderr
        head.with_provenance(origin={}).save(tmp_path / "plain")
        silent = run("predict", tmp_path / "plain", photos / "photos")
        assert "name it with --backbone" in silent.stderr


class TestEvaluate:
    def test_the_numbers_and_the_files(self, folder, tmp_path):
        out = tmp_path / "out"
        result = run("evaluate", folder / "head.safetensors", folder / "test.csv", "--out", out)
        assert result.exit_code == 0, result.output
        assert "100.0 %" in result.stdout
        assert "no probabilities, so there is no calibration" in result.stdout
        assert sorted(p.name for p in out.iterdir()) == [
            "classes.csv",
            "confusion.csv",
            "confusion.png",
        ]
        assert csv_of((out / "confusion.csv").read_text())[1] == {
            "true": "b",
            "a": "0",
            "b": "2",
            "c": "0",
        }

    def test_json_is_one_document_and_nothing_else(self, folder):
        result = run("evaluate", folder / "head.safetensors", folder / "test.csv", "--json")
        document = json.loads(result.stdout)
        assert document["accuracy"] == 1.0
        assert document["support"] == [2, 2, 2]

    def test_unknown_and_untested_classes_are_said(self, folder, tmp_path):
        table = write_table(tmp_path / "t.csv", np.eye(3), label=["a", "b", "fox"])
        result = run("evaluate", folder / "head.safetensors", table)
        assert "1 samples are of classes that the head does not know" in result.stdout
        assert "classes of the head without a sample here: 'c'" in result.stdout

    def test_a_calibrated_head_has_a_reliability_diagram(self, folder, tmp_path):
        LinearHead(np.eye(3), np.array(list("abc")), probabilistic=True).save(tmp_path / "head")
        out = tmp_path / "out"
        options = ["--out", out, "--figures", "svg"]
        result = run("evaluate", tmp_path / "head", folder / "test.csv", *options)
        assert "expected calibration error" in result.stdout
        assert (out / "reliability.svg").exists()
        assert (out / "confusion.svg").exists()


class TestExport:
    def test_a_head_of_plain_features_takes_features(self, folder, tmp_path):
        result = run("export", folder / "head.safetensors", "--onnx", tmp_path / "h.onnx")
        assert "from features to 3 classes" in result.stdout
        session = onnxruntime.InferenceSession(tmp_path / "h.onnx")
        [label] = session.run(["label"], {"features": np.eye(3, dtype=np.float32)})
        assert label.tolist() == list("abc")

    def test_features_and_a_backbone_exclude_each_other(self, folder, tmp_path):
        options = ["--onnx", tmp_path / "h.onnx", "--features", "--backbone", "resnet18"]
        result = run("export", folder / "head.safetensors", *options)
        assert result.exit_code == 1
        assert "--features is for a model without a backbone" in result.stderr


class TestCompare:
    def test_by_files_each_is_a_client_and_the_advice_follows(self, tmp_path):
        rng = np.random.default_rng(0)
        files = [
            write_table(tmp_path / f"{name}.csv", draw(rng, list("abc" * 9)), label=list("abc" * 9))
            for name in ("north", "south", "west")
        ]
        result = run("compare", *files, "--seeds", 2, "--out", tmp_path / "out", "--json")
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert document["facts"]["clients"] == 3
        assert document["facts"]["means_per_class"] == [3.0, 3.0, 3.0]
        methods = {line["method"] for line in document["lines"]}
        assert {"FedNCM", "Fed3R", "FedCOF, γ 1", "FedCOF, γ 0.1, 4 means", "CCVR"} <= methods
        assert any(text.startswith("Recommended: ") for text in document["advice"])
        assert (tmp_path / "out" / "comparison.png").exists()
        assert len(csv_of((tmp_path / "out" / "comparison.csv").read_text())) == len(methods)

    def test_three_clients_forty_rows_and_a_class_of_one_sample(self, tmp_path):
        labels = [*"abc" * 13, "d"]
        features = np.random.default_rng(0).normal(size=(40, 3))
        clients = [f"site {row % 3}" for row in range(40)]
        table = write_table(tmp_path / "t.csv", features, label=labels, client=clients)
        result = run("compare", table, "--seeds", 2)
        assert result.exit_code == 0, result.output
        assert "Classes with one sample, which are trained on and never tested: 1 (d)" in " ".join(
            result.stdout.split()
        )

    def test_data_without_clients_is_dealt(self, folder):
        result = run("compare", folder / "test.csv", "--seeds", 1, "--clients", 2, "--json")
        assert json.loads(result.stdout)["facts"]["clients"] == 2

    def test_all_methods_send_transformed_features_in_a_coding(self, folder):
        plain, coded = (
            json.loads(
                run(
                    "compare", folder / "test.csv", "--seeds", 1, "--clients", 2, "--json", *options
                ).stdout
            )["lines"]
            for options in ((), ("--transform", "standardize", "--coding", "int8"))
        )
        assert [f"{line['method']}, standardize, int8" for line in plain] == [
            line["method"] for line in coded
        ]
        assert [line["wire_bytes"] for line in plain] != [line["wire_bytes"] for line in coded]

    def test_nothing_that_can_be_tested_is_explained(self, tmp_path):
        table = write_table(tmp_path / "t.csv", np.eye(3), label=list("abc"))
        result = run("compare", table)
        assert result.exit_code == 1
        assert "each of the 3 classes has one sample" in result.stderr


def test_the_head_without_a_site_is_the_head_of_the_others_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("east", "north", "south"):
        labels = list("abc" * 9)
        table = write_table(tmp_path / f"{name}.csv", draw(rng, labels), label=labels)
        run("summarize", table, "--client-id", name, "--out", tmp_path)
    sites = {name: tmp_path / f"{name}.summary" for name in ("east", "north", "south")}

    def solve(*names):
        out = tmp_path / "-".join(names)
        result = run("solve", *(sites[name] for name in names), "--out", out)
        assert result.exit_code == 0, result.output
        return (out / "head.safetensors").read_bytes()

    without = solve("east", "south")
    assert solve("south", "north", "east") != without
    assert solve("south", "east") == without


def test_columns_in_another_order_than_the_clients_are_refused_instead_of_swapped(tmp_path):
    rng = np.random.default_rng(0)
    labels = list("abc" * 9)
    table = write_table(tmp_path / "site.csv", draw(rng, labels), label=labels)
    run("summarize", table, "--method", "fed3r", "--out", tmp_path)
    run("solve", tmp_path / "site.summary", "--method", "fed3r", "--out", tmp_path)
    (tmp_path / "swapped.csv").write_text("f1,f0,f2\n0,4,0\n")
    swapped = run("predict", tmp_path / "head.safetensors", tmp_path / "swapped.csv")
    assert swapped.exit_code == 1
    assert "or in another order; here they are f1, f0, f2" in swapped.stderr
    options = ["--features", "f0,f1,f2"]
    ordered = run("predict", tmp_path / "head.safetensors", tmp_path / "swapped.csv", *options)
    [row] = csv_of(ordered.stdout)
    assert row["label"] == "a"


def test_what_is_read_is_not_written_over(folder):
    head, table = folder / "head.safetensors", folder / "test.csv"
    before = head.read_bytes(), table.read_bytes()
    for arguments in (
        ("predict", head, table, "--out", table),
        ("predict", head, table, "--out", head),
        ("export", head, "--onnx", head),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert "is read and would be lost" in result.output
    assert (head.read_bytes(), table.read_bytes()) == before
