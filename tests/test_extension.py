"""A new statistic and a new method are one new file: this one.

`ToySketch` has an axis that is neither rows nor dim. `Toy` has a hyperparameter that its clients
must know, which gives that axis its length, and one that only the server needs. Nothing else is
written for them, and all of fedcof takes them: it is what CONTRIBUTING shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import fedcof
from fedcof import LinearHead, Method, Summary, from_bytes, merge
from fedcof.client import Sender
from fedcof.errors import naming
from fedcof.heads import normalize_rows
from fedcof.methods.base import check_two_classes
from fedcof.numerics import GroupSums, sum_by_group
from fedcof.settings import setting
from fedcof.summaries.samples import check_samples


@dataclass(frozen=True, eq=False, kw_only=True)
class ToySketch(Summary):
    """The sum of every class, and of every rank-th sample: both add up."""

    kind: ClassVar[str] = "toy-sketch"
    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "sums": ("rows", "dim"),
        "sketch": ("rank", "dim"),
    }

    sums: NDArray[np.floating[Any]]
    sketch: NDArray[np.floating[Any]]

    @classmethod
    def summarize(
        cls,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        client_id: str = "",
        rng: np.random.Generator | int | None = None,
        rank: int = 2,
    ) -> Self:
        with naming(client_id):
            array, coded = check_samples(features, labels)
        classes, class_index = np.unique(coded, return_inverse=True)
        by_class = GroupSums.of([array], class_index, len(classes))
        return cls(
            client_ids=(client_id,),
            classes=classes,
            counts=by_class.rows,
            sums=by_class.sums,
            sketch=sum_by_group([array], np.arange(len(array)) % rank, rank),
        )

    @property
    def dim(self) -> int:
        return int(self.sums.shape[1])

    @property
    def scale(self) -> float:
        return float(np.abs(self.sums / self.counts[:, None]).max())

    @classmethod
    def _merge(cls, parts: Sequence[Self]) -> Self:
        labels = np.concatenate([part.classes for part in parts])
        classes, class_index = np.unique(labels, return_inverse=True)
        counts = np.zeros(len(classes), dtype=np.int64)
        np.add.at(counts, class_index, np.concatenate([part.counts for part in parts]))
        return cls(
            **cls._clients(parts),
            classes=classes,
            counts=counts,
            sums=sum_by_group([part.sums for part in parts], class_index, len(classes)),
            sketch=np.sum([part.sketch.astype(np.float64) for part in parts], axis=0),
        )


@dataclass(frozen=True)
class Toy(Method[ToySketch]):
    """The class means, less a share of the mean that the sketch tells."""

    name: ClassVar[str] = "toy"
    summary_type: ClassVar[type[Summary]] = ToySketch

    rank: int = setting(2, "Rows of the sketch.", minimum=1, client=True)
    share: float = setting(0.5, "Share of the mean that is taken off.", minimum=0, maximum=1)

    def pool(self, parts: Sequence[ToySketch]) -> ToySketch:
        return merge(parts)

    def fit(self, pooled: ToySketch) -> LinearHead:
        check_two_classes(pooled.classes)
        mean = pooled.sketch.sum(axis=0) / pooled.total
        weight = pooled.sums / pooled.counts[:, None] - self.share * mean
        return LinearHead(normalize_rows(weight), pooled.classes)


# All that follows tests; the method is whole.


def make_clients(number: int = 4) -> dict[str, tuple[NDArray[np.float32], NDArray[np.int64]]]:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=(number, 9))
    return {
        f"c{k}": ((rng.normal(size=(9, 5)) + 4 * np.eye(3, 5)[y]).astype(np.float32), y)
        for k, y in enumerate(labels)
    }


@pytest.fixture
def summaries():
    sender = Sender(Toy(rank=3))
    return [
        from_bytes(sender.send(x, y, client_id=name).data)
        for name, (x, y) in make_clients().items()
    ]


def test_in_process_and_over_the_wire(summaries):
    head = Toy(rank=3, share=0.25).solve(summaries)
    features, labels = (np.concatenate(part) for part in zip(*make_clients().values(), strict=True))
    assert head.score(features, labels) > 0.9
    assert head.provenance.hyperparameters == {"rank": 3, "share": 0.25}
    assert fedcof.get_method("toy", rank=3, share=0.25) == Toy(3, 0.25)


def test_merged_summaries_give_what_their_parts_give(summaries):
    left = merge([merge(summaries[:2]), *summaries[2:]])
    right = merge([*summaries[:1], merge(summaries[1:])])
    for merged in (left, right, from_bytes(left.to_bytes())):
        np.testing.assert_allclose(
            Toy(3).solve([merged]).weight, Toy(3).solve(summaries).weight, rtol=1e-5
        )
        assert merged.formula_bytes == sum(summary.formula_bytes for summary in summaries)


def test_clients_with_another_rank_are_named_by_the_server(summaries):
    from fedcof.federation.admission import Admission

    other = Toy(rank=2).summarize(*make_clients()["c1"], client_id="c1")
    with pytest.raises(fedcof.SummaryError, match="client 'c1': the axis 'rank' has length 2"):
        Toy(rank=3).solve([summaries[0], other])
    with pytest.raises(fedcof.SummaryError, match="the axis 'rank' has length 2, expected 3"):
        Admission(Toy(rank=3)).admit("c1", other.to_bytes())


def test_the_cost_is_known_without_the_samples(summaries):
    sender = Sender(Toy(rank=3))
    for summary in summaries:
        rows = len(summary.classes)
        name = summary.client_ids[0]
        expected = sender.expected_bytes(summary.classes, 5, client_id=name)
        assert expected == (4 * (rows * 5 + 3 * 5), len(summary.to_bytes()))


def test_the_client_needs_the_client_side_setting_alone():
    settings = json.loads(json.dumps(Sender(Toy(rank=3, share=0.1)).settings()))
    assert settings["client_settings"] == {"rank": 3}
    assert Sender.from_settings(settings).method == Toy(rank=3)


def test_a_setting_out_of_range_is_refused_by_name():
    with pytest.raises(ValueError, match="rank must be an integer, at least 1, it is 0"):
        Toy(rank=0)


def test_the_command_line(tmp_path):
    from typer.testing import CliRunner

    from fedcof.cli import app

    def run(*arguments):
        return CliRunner().invoke(app, [*map(str, arguments), "--out", str(tmp_path)])

    (features, labels), *_ = make_clients().values()
    np.savez(tmp_path / "site.npz", features=features, labels=labels)
    done = run("summarize", tmp_path / "site.npz", "--method", "toy", "--rank", 3)
    assert done.exit_code == 0, done.output
    assert "--rank must be" in run("summarize", "x.npz", "--method", "toy", "--rank", 0).output
    assert run("summarize", "x.npz", "--method", "toy", "--share", 0.1).exit_code == 2
    done = run("solve", tmp_path / "site.summary", "--method", "toy", "--rank", 3, "--share", 0.25)
    assert done.exit_code == 0, done.output
    head = LinearHead.load(tmp_path / "head.safetensors")
    assert head.provenance.hyperparameters == {"rank": 3, "share": 0.25}
    assert "fedncm has no rank" in run("solve", "x", "--method", "fedncm", "--rank", 3).output


def test_the_run_configuration_of_the_flower_app():
    from fedcof.federation.run_config import check_keys
    from fedcof.federation.serving import Settings

    config = {"method": "toy", "rank": 3, "share": 0.25, "shrinkage": 1.0}
    check_keys(config)
    assert Settings.from_run_config(config).job.sender.method == Toy(3, 0.25)


def test_admission(summaries):
    pytest.importorskip("flwr")
    from fedcof.federation.admission import Admission

    data = summaries[0].to_bytes()
    assert Admission(Toy(3)).admit("c0", data).kind == "toy-sketch"
    doubled = replace(
        summaries[0],
        classes=np.repeat(summaries[0].classes, 2),
        counts=np.repeat(summaries[0].counts, 2),
        sums=np.repeat(summaries[0].sums, 2, axis=0),
        rows_per_client=None,
    )
    with pytest.raises(fedcof.SummaryError, match="2 rows for one class, at most 1"):
        Admission(Toy(3)).admit("c0", doubled.to_bytes())


def test_experiment_with_its_cache_resumed_and_its_report(tmp_path, monkeypatch):
    from fedcof.data import Dirichlet, FeatureTable
    from fedcof.experiments import (
        EXPERIMENTS,
        Experiment,
        FeatureSet,
        Results,
        SettingGrid,
        one_round,
        run,
    )
    from fedcof.report.page import as_page
    from fedcof.report.sections import gather
    from fedcof.report.tables import tabulate

    features, labels = (np.concatenate(part) for part in zip(*make_clients().values(), strict=True))
    table = FeatureTable(features, labels, tuple("abc"))
    methods = Toy(2), Toy(3), Toy(3, share=0.1)
    grid = SettingGrid(("toys",), ("none",), (Dirichlet(4, 1.0),), one_round(*methods))
    experiment = Experiment("toys", "", (grid,), metrics=("accuracy", "formula_bytes"))
    run([experiment], Results(tmp_path), lambda *_: FeatureSet(table, table, ""), seeds=1)
    rows = Results(tmp_path).rows()
    sizes = [row.measured["formula_bytes"] for row in rows]
    assert sizes[0] + 4 * 4 * 5 == sizes[1] == sizes[2]  # one row more of the sketch at 4 clients
    run([experiment], Results(tmp_path), pytest.fail, seeds=1)
    assert [line.shown["method"] for line in tabulate(experiment, rows).lines] == [
        "toy",
        "toy, rank 3",
        "toy, rank 3, share 0.1",
    ]
    monkeypatch.setitem(EXPERIMENTS, "toys", experiment)
    assert "rank 3, share 0.1" in as_page(gather([tmp_path]), "Toys")


@pytest.mark.slow
def test_flower_at_sites_that_declare_it_as_a_plugin(tmp_path):
    """The command in a process of its own, Ray's workers in others; a used folder is refused."""
    pytest.importorskip("ray")
    pytest.importorskip("flwr")
    declared = tmp_path / "plugins" / "toys-1.0.dist-info"
    declared.mkdir(parents=True)
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (declared / "entry_points.txt").write_text(f"[fedcof.methods]\ntoy = {Path(__file__).stem}\n")
    paths = [declared.parent, Path(__file__).parent, Path(fedcof.__file__).parents[1]]

    def federate(*arguments):
        command = [
            sys.executable,
            "-c",
            "from fedcof.cli import app; app()",
            "federate",
            "--method",
            "toy",
        ]
        size = ["--images", "200", "--clients", "4", "--nodes", "1", "--alpha", "1"]
        return subprocess.run(
            [*command, "--method", "toy", *size, *arguments, "--out", str(tmp_path / "run")],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    done = federate("--rank", "3", "--share", "0.25")
    assert done.returncode == 0, done.stderr
    head = LinearHead.load(tmp_path / "run" / "head.safetensors")
    assert head.provenance.hyperparameters == {"rank": 3, "share": 0.25}
    assert head.provenance.clients == 4
    assert head.provenance.sending["client_settings"] == {"rank": 3}
    refused = federate("--rank", "4")
    assert refused.returncode == 1
    assert "holds summaries made with rank = 3, this run has rank = 4" in " ".join(
        refused.stderr.split()
    )
