"""What a site's operator sees before anything leaves, and what the policy keeps there."""

import numpy as np
import pytest
from typer.testing import CliRunner

import fedcof
from fedcof.cli import app
from fedcof.commands.shared import EXIT_LEFT_OUT
from fedcof.privacy.ledger import Budget, Ledger
from fedcof.privacy.policy import Guarantee

SIZES = {"cat": 8, "dog": 6, "fox": 2, "elk": 1}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in a folder with a table."""
    labels = np.repeat(list(SIZES), list(SIZES.values()))
    features = np.random.default_rng(0).normal(size=(len(labels), 4))
    np.savez(tmp_path / "a.npz", features=features, labels=labels)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, ["summarize", "a.npz", *arguments])


def test_what_leaves_is_printed_and_a_dry_run_stops_there(run, tmp_path):
    done = run("--min-samples", "5", "--dry-run", "--out", "sent")
    assert done.exit_code == 0, done.output
    assert "site: class-means of 2 classes: cat (8), dog (6); 8 numbers and 2 counts" in done.output
    assert "withheld: 2 classes and 3 samples; steps: MinSamples(min_samples=5" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_small_classes_are_withheld_or_merged(run):
    assert run("--min-samples", "5").exit_code == 0
    assert fedcof.load("site.summary").counts_by_class == {"cat": 8, "dog": 6}
    merging = ["--min-samples", "3", "--small-classes", "merge", "--other-class", "rest", "--force"]
    assert run(*merging).exit_code == 0
    assert fedcof.load("site.summary").counts_by_class == {"cat": 8, "dog": 6, "rest": 3}


def test_a_site_of_small_classes_alone_writes_no_file(run, tmp_path):
    done = run("--min-samples", "9")
    assert (done.exit_code, "nothing is left to send" in done.output) == (EXIT_LEFT_OUT, True)
    assert not list(tmp_path.glob("*.summary"))


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("methods = ['fedncm']", [], "'fedcof' is not among the methods of the site's policy"),
        ("codings = ['float16']", [], "'float32' is not among the codings"),
        ("transforms = ['none']", ["--transform", "power:0.5"], "'power' is not among"),
        ("means-per-class = 1", ["--means-per-class", "2"], "2 means or components of a class"),
        ("classes = 'hidden'", [], "a summary of its own shows them"),
        ("epsilon = 1.0\ndelta = 0.0", [], "this job has no differential privacy"),
        ("min-sample = 5", [], "did you mean min-samples?"),
        ("min-samples = 'five'", [], "min-samples must be an integer, at least 1"),
    ],
)
def test_the_policy_keeps_it_at_the_site(run, tmp_path, text, options, said):
    (tmp_path / "policy.toml").write_text(text)
    done = run("--policy", "policy.toml", *options)
    assert done.exit_code == 1
    assert said in " ".join(done.output.split())
    assert not list(tmp_path.glob("*.summary"))


def test_a_policy_that_is_not_there_keeps_everything_at_the_site(run, tmp_path):
    done = run("--policy", "policy.toml")
    assert (done.exit_code, "nothing is allowed" in done.output) == (1, True)
    assert not list(tmp_path.glob("*.summary"))


def test_the_larger_threshold_counts(run, tmp_path):
    (tmp_path / "policy.toml").write_text("min-samples = 7")
    assert run("--policy", "policy.toml", "--min-samples", "2").exit_code == 0
    assert fedcof.load("site.summary").counts_by_class == {"cat": 8}
    assert run("--policy", "policy.toml", "--steps", "min-samples:1", "--force").exit_code == 0
    assert fedcof.load("site.summary").counts_by_class == {"cat": 8}


def test_noise_spends_the_budget_of_the_policy(run, tmp_path):
    pytest.importorskip("opendp")
    (tmp_path / "policy.toml").write_text("epsilon = 60.0\ndelta = 1e-5")
    noise = ["--method", "fedncm", "--transform", "clip:1", "--policy", "policy.toml"]
    noise += ["--steps", "local-privacy:50:1e-5:cat,dog,elk,fox", "--force"]
    assert run(*noise, "--dry-run").exit_code == 0
    assert run(*noise).exit_code == 0
    assert (tmp_path / "privacy.db").exists()
    again = run(*noise)
    assert (again.exit_code, "epsilon 50 of 60 by sample" in again.output) == (1, True)


def test_only_clients_whose_summary_is_written_lose_of_their_budget(tmp_path, monkeypatch):
    # All that were summarized together did, though none of them was written.
    pytest.importorskip("opendp")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.toml").write_text("epsilon = 60.0\ndelta = 1e-5")
    features, labels = np.ones((9, 4)) / 4, np.repeat(["cat", "dog", "cat"], 3)
    clients = np.repeat(["a", "b", "c"], 3)
    np.savez("site.npz", features=features, labels=labels, clients=clients)
    noise = ["summarize", "site.npz", "--method", "fedncm", "--transform", "clip:1"]
    noise += ["--policy", "policy.toml", "--steps", "local-privacy:50:1e-5:cat,dog"]
    ledger, budget = Ledger(tmp_path / "privacy.db"), Budget(60.0, 1e-5)
    ledger.spend("b", Guarantee(50.0, 1e-5).rho, budget, release="before")
    assert CliRunner().invoke(app, [*noise, "--append", "data"]).exit_code == 1
    assert [ledger.spent(name) > 0 for name in "abc"] == [False, True, False]
    assert CliRunner().invoke(app, noise).exit_code == 1
    assert [path.name for path in tmp_path.glob("*.summary")] == ["a.summary"]
    assert [ledger.spent(name) > 0 for name in "abc"] == [True, True, False]
