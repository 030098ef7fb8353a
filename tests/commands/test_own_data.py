"""Own data on the command line: the same names of columns in every command."""

import json

import pytest

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from fedcof.cli import app
from fedcof.summaries import load


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def table():
    kinds = np.repeat(["cat", "dog"], 20)
    features = np.random.default_rng(0).normal(size=(40, 3)) + 3.0 * (kinds == "dog")[:, None]
    wards = np.tile(["n", "s"], 20)
    return {"pc1": features[:, 0], "pc2": features[:, 1], "kind": kinds, "ward": wards}


NAMES = ("--features", "pc*", "--label", "kind", "--client", "ward")


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("prefix", ["", "table:", "parquet:"])
def test_columns_are_named_alike_in_every_kind_of_table(table, prefix, suffix, tmp_path):
    path = tmp_path / f"all{suffix}"
    if suffix == ".csv":
        pa.csv.write_csv(pa.table(table), path)
    else:
        pq.write_table(pa.table(table), path)
    result = run("summarize", f"{prefix}{path}", *NAMES, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    summaries = [load(file) for file in sorted(tmp_path.glob("*.summary"))]
    assert [summary.client_ids for summary in summaries] == [("n",), ("s",)]
    assert all(summary.counts.tolist() == [10, 10] for summary in summaries)


def test_a_column_that_is_not_there_is_one_line(table, tmp_path):
    pq.write_table(pa.table(table), tmp_path / "all.parquet")
    result = run("summarize", tmp_path / "all.parquet", "--label", "kinds", "--out", tmp_path)
    assert result.exit_code == 1
    assert "no column 'kinds' (--label); did you mean 'kind'?" in " ".join(result.output.split())


def test_a_federation_of_a_table_by_its_clients(table, tmp_path):
    pq.write_table(pa.table(table), tmp_path / "all.parquet")
    own = ("--dataset", f"table:{tmp_path / 'all.parquet'}", *NAMES, "--shrinkage", "0.1")
    result = run("federate", "--engine", "in-process", *own, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "2 clients, by ward" in " ".join(result.output.split())


def test_a_head_is_trained_on_a_table(table, tmp_path):
    pytest.importorskip("torch")
    pq.write_table(pa.table(table), tmp_path / "all.parquet")
    own = ("--dataset", f"parquet:{tmp_path / 'all.parquet'}", *NAMES)
    out = tmp_path / "[bold]x[]"
    result = run("train", "--mode", "probe", "--rounds", 1, *own, "--out", out)
    assert result.exit_code == 0, result.output
    assert f"saved in: {out}" in result.output
    again = run("train", "--mode", "probe", "--rounds", 1, *own, "--out", out, "--json")
    document = json.loads(again.stdout)
    assert [row["stage"] for row in document["rounds"]][-1] == "training"
    assert document["kept"] == document["rounds"][-1]["number"]
