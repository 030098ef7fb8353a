"""`fedcof withdraw`: by files. A run folder is in tests/federation/test_withdrawing.py."""

import numpy as np
import pytest
from typer.testing import CliRunner

from fedcof import Fed3R, FedCOF, LinearHead, load, merge, site_heads
from fedcof.cli import app
from fedcof.commands.withdraw import WITHDRAWN


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def sites(tmp_path):
    """Write the files of six sites; the last alone holds a class."""
    folder = tmp_path / "sites"
    folder.mkdir()
    rng, method = np.random.default_rng(0), FedCOF()
    classes = np.array(["cat", "cow", "owl"])
    centres = 2 + rng.normal(size=(3, 8))
    for name in "abcdef":
        labels = np.arange(40) % (3 if name == "f" else 2)
        features = centres[labels] + 0.3 * rng.normal(size=(40, 8))
        summary = method.summarize(features, classes[labels], client_id=name)
        summary.save(folder / f"{name}.summary")
    return folder


def solved(source, out):
    result = run("solve", source, "--out", out, "--force")
    return result.exit_code, (out / "head.safetensors").read_bytes()


def test_the_head_is_that_of_the_others_to_the_last_byte(sites, tmp_path):
    files = sorted(sites.glob("*.summary"))[:-1]
    assert run("solve", *files, "--out", tmp_path / "never").exit_code == 0
    result = run("withdraw", "f", sites)
    assert result.exit_code == 0, result.output
    assert not (sites / "f.summary").exists()
    expected = (tmp_path / "never" / "head.safetensors").read_bytes()
    assert solved(sites, tmp_path) == (0, expected)


def test_a_site_that_joins_later_and_a_new_class_make_the_head_grow(sites, tmp_path):
    later = tmp_path / "f.summary"
    at_once = solved(sites, tmp_path / "at-once")
    (sites / "f.summary").rename(later)
    solved(sites, tmp_path)
    head = LinearHead.load(tmp_path / "head.safetensors")
    assert head.classes.tolist() == ["cat", "cow"]
    later.rename(sites / "f.summary")
    assert solved(sites, tmp_path) == at_once
    head = LinearHead.load(tmp_path / "head.safetensors")
    assert head.classes.tolist() == ["cat", "cow", "owl"]


def test_a_file_that_turns_up_again_is_set_aside_by_name_until_it_is_taken_back(sites, tmp_path):
    data = (sites / "b.summary").read_bytes()
    everybody = solved(sites, tmp_path / "all")
    run("withdraw", "b", sites)
    others = solved(sites, tmp_path)
    (sites / "again.summary").write_bytes(data)
    result = run("solve", sites, "--out", tmp_path, "--force")
    assert result.exit_code == 3
    assert "again.summary: client 'b' has withdrawn" in result.output
    assert (tmp_path / "head.safetensors").read_bytes() == others[1]
    assert run("withdraw", "--readmit", "b", sites).exit_code == 0
    assert solved(sites, tmp_path) == everybody


def test_a_client_leaves_the_file_that_it_shares_with_others(sites, tmp_path):
    paths = sorted(sites.glob("*.summary"))
    expected = merge(load(path) for path in paths if path.stem != "c").to_bytes()
    merge(map(load, paths)).save(tmp_path / "all.summary")
    assert run("withdraw", "c", tmp_path / "all.summary").exit_code == 0
    assert (tmp_path / "all.summary").read_bytes() == expected


def test_every_site_has_a_head_of_its_own(sites, tmp_path):
    own = tmp_path / "own"
    result = run("solve", sites, "--out", tmp_path, "--per-site", own)
    assert result.exit_code == 0, result.output
    assert "6 heads of clients" in result.output
    expected = site_heads(FedCOF(), map(load, sorted(sites.glob("*.summary"))))
    assert sorted(path.stem for path in own.iterdir()) == list(expected) == list("abcdef")
    for path in own.iterdir():
        assert path.read_bytes() == expected[path.stem].to_bytes()


def test_what_a_sum_cannot_give_back_is_refused_and_nothing_changes(tmp_path):
    parts = [Fed3R().summarize(np.eye(3), [0, 1, 1], client_id=name) for name in "ab"]
    merge(parts).save(tmp_path / "all.summary")
    data = (tmp_path / "all.summary").read_bytes()
    result = run("withdraw", "a", tmp_path)
    assert result.exit_code == 1
    assert "all.summary: client 'a': cannot be taken out" in result.output
    assert (tmp_path / "all.summary").read_bytes() == data
    assert not (tmp_path / WITHDRAWN).exists()


def test_doing_it_again_ends_well(sites):
    assert run("withdraw", "a", sites).exit_code == run("withdraw", "a", sites).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["x"], "there is no client 'x' in these files, but 'a', 'b'"),
        (["--readmit", "a"], "'a' has not withdrawn from"),
    ],
)
def test_a_client_that_is_not_there_is_an_error_that_names_those_who_are(sites, arguments, reason):
    result = run("withdraw", *arguments, sites)
    assert result.exit_code == 1
    assert reason in result.output


@pytest.mark.parametrize("content", ["{", "[]", '{"withdrawn": [1]}'])
def test_a_damaged_list_is_said_and_nobody_is_let_in(sites, tmp_path, content):
    (sites / WITHDRAWN).write_text(content)
    result = run("solve", sites, "--out", tmp_path)
    assert result.exit_code == 1
    assert "withdrawn.json is damaged" in result.output
