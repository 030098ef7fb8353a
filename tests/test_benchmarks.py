import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedcof.data.datasets import registry

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def run(script, *options):
    command = [sys.executable, BENCHMARKS / script, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def results(script, *options):
    report = json.loads(run(script, "--json", *options))
    return {row["what"]: row for row in report["results"]}


ONCE = ["--repeats", "1"]
SMALL = ["--clients", "40", "--classes", "7", "--means", "150", "--dim", "12", *ONCE]


def test_the_server_benchmark_agrees_with_the_plain_algorithm():
    found = results("server_solve.py", *SMALL)
    assert found["relative error of the weight"]["passed"]
    assert found["solve"]["value"] > 0
    assert found["peak extra memory, arrays"]["value"] > 0


def test_the_server_benchmark_compares_products_by_torch_with_those_of_scipy():
    pytest.importorskip("torch")
    found = results("server_solve.py", *SMALL, "--torch", "cpu")
    assert found["relative difference of the weights"]["passed"]
    assert found["products by SciPy / by torch"]["value"] > 0


def test_the_benchmark_of_training_runs():
    pytest.importorskip("torch")
    small = ["--size", "32", "--clients", "2", "--images", "4", "--batch", "4", *ONCE]
    found = results("training.py", *small)
    assert found["package / bare step"]["value"] > 0


def test_the_benchmark_of_extraction_runs():
    found = results("extraction.py", "--images", "4", *ONCE)
    assert found["PNG of 32 pixels: package / bare network"]["value"] > 0
    assert 0 < found["JPEG of 227 pixels: the most that Pillow leaves"]["value"] < 1


def test_the_benchmark_of_image_variants_moves_nothing_by_what_is_not_varied(
    tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for part, count in {"train": 20, "test": 6}.items():
        labels = np.arange(count, dtype=np.uint8)[:, None] % 2
        pixels = rng.integers(0, 128, (count, 3072), np.uint8) + 100 * labels
        np.hstack([labels, labels, pixels]).tofile(folder / f"{part}.bin")
    (folder / "fine_label_names.txt").write_text("dark\nlight\n")
    monkeypatch.setattr(registry, "_check_size", lambda dataset, split, data: None)
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["image_variants.py", "--data", f"{tmp_path}", "--seeds", "2"])
    runpy.run_path(str(BENCHMARKS / "image_variants.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0].strip() for line in lines[:2]] == ["FedNCM", "Fed3R, exact"]
    assert len(lines) == 11
    for line in lines:
        assert "(+0.00 ± 0.00)  flips " in line
        assert "nan" not in line


def test_the_benchmark_of_the_sketch_runs():
    found = results("sketch.py", *SMALL, "--rank", "2", "--samples", "60")
    assert found["FedCOFSketch / FedCOF"]["value"] > 0


def test_the_benchmark_of_choosing_runs(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    features = (rng.normal(size=(60, 4)) + 2 * labels[:, None]).astype(np.float32)
    file = tmp_path / "three.npz"
    np.savez(file, X=features, y=labels, Xt=features, yt=labels, domain=labels % 2)
    found = results("choosing.py", file, "--clients", "4", "--classes", "3", "--dim", "4")
    assert abs(found["three: fed3r, by domain"]["value"]) <= 100
    assert found["fedcof, seconds"]["value"] >= 0


def test_the_benchmark_of_heads_of_sites_compares_them(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for part, number in {"train": 12, "test": 4}.items():
        for k in range(3):
            folder = tmp_path / "pictures" / part / f"class {k}"
            folder.mkdir(parents=True)
            for i in range(number):
                pixels = rng.integers(80, size=(8, 8, 3)) + 80 * k
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")
    pictures = ["--dataset", f"folder:{tmp_path / 'pictures'}", "--methods", "fedcof-oracle"]
    printed = run("site_heads.py", *pictures, "--clients", "3", "--alpha", "1").splitlines()
    assert printed[0].startswith("fedcof-oracle: tau ")
    found = {line[2:14].strip(): re.findall(r"[0-9.]+", line[14:]) for line in printed[1:]}
    assert list(found) == ["of all", "of all, lda", "own priors", "own means", "own"]
    assert all(0 <= float(worst) <= float(mean) <= 100 for mean, worst in found.values())


def test_the_benchmark_of_secure_aggregation_sums_what_the_clients_send():
    found = results("secure.py", "--clients", "8", "--classes", "9", "--dim", "256")
    assert found["8 clients: a client sends, masked / open"]["passed"]
    assert found["8 clients: relative error of a sum"]["passed"]


def test_the_benchmark_of_a_million_clients_solves_those_that_it_has_written(tmp_path):
    pytest.importorskip("pyarrow")
    few = ["--clients", "300", "--means", "3", "--classes", "9", "--dim", "12"]
    points = tmp_path / "points.json"
    for coding in ("int8", "float32"):
        found = results("million.py", tmp_path, *few, "--coding", coding, "--add", points)
        assert found["solving, processor"]["value"] > 0
        assert found["peak resident"]["passed"]
    assert [point["coding"] for point in json.loads(points.read_text())] == ["int8", "float32"]
    assert list(tmp_path.iterdir()) == [points]  # the data set is deleted


def test_a_benchmark_prints_a_table():
    table = run("client_summarize.py", *ONCE, "--samples", "300", "--classes", "3", "--dim", "8")
    assert "summarize / floor" in table


def test_sizes_that_cannot_be_are_refused():
    command = [sys.executable, BENCHMARKS / "server_solve.py", "--clients", "9", "--means", "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode != 0
    assert "9 clients of 1203 classes cannot send 8 means" in done.stderr
