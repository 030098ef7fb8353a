import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedcof
from fedcof.federation.report import CollectionReport
from fedcof.files import cache_folder, fetch, file_names, store, write_atomically, write_new


def test_what_was_stored_is_fetched(tmp_path):
    store(tmp_path / "deep" / "a", b"content")
    assert fetch(tmp_path / "deep" / "a") == b"content"


def test_an_absent_file_is_none(tmp_path):
    assert fetch(tmp_path / "absent") is None


def test_a_cache_that_cannot_be_written_is_a_warning_that_says_what_to_set(tmp_path):
    (tmp_path / "file").touch()
    with pytest.warns(RuntimeWarning, match="FEDCOF_CACHE"):
        store(tmp_path / "file" / "a", b"content")
    assert fetch(tmp_path / "file" / "a") is None


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_atomically(path, b"old")

    def fail(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_regression_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(path, *arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.open", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_atomically(tmp_path / "head.safetensors", b"x")
    assert caught.value.filename == str(tmp_path / "head.safetensors")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_who_may_read_a_file_is_for_the_umask_to_say(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "a", b"content")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.name != "posix", reason="links need a right of their own elsewhere")
def test_a_link_stays_one_and_what_it_points_to_is_written(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "latest").symlink_to(tmp_path / "runs" / "3")
    write_atomically(tmp_path / "latest", b"content")
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "runs" / "3").read_bytes() == b"content"


@pytest.mark.parametrize(
    "saved",
    [
        fedcof.FedNCM().summarize(np.eye(2), [0, 1]),
        fedcof.LinearHead(np.eye(2), np.arange(2)),
        CollectionReport(),
    ],
)
def test_a_kill_while_something_is_saved_leaves_the_old_file(tmp_path, monkeypatch, saved):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(KeyboardInterrupt):
        saved.save(path)
    assert path.read_bytes() == b"old"


def test_without_an_override_the_cache_is_the_platforms(monkeypatch):
    monkeypatch.delenv("FEDCOF_CACHE", raising=False)
    assert cache_folder().name.lower() == "fedcof"


NAMES = [
    *(".", "..", "../x", "a/b", "a\\b", "[/ward]", "CON", "con", "nul.txt", "-x", ".hidden"),
    *("x.", "x ", "a:b", "~root", "*", "%", "", "new\nline", "\udc80", "é", "🏥"),
    *("北" * 29, "北" * 28 + "京", "x" * 300, "x" * 299 + "y"),
    *("North", "north", "Straße", "STRASSE"),
]


def test_every_name_gets_a_file_of_its_own_that_a_pattern_finds(tmp_path):
    names = file_names(NAMES, ".summary")
    for name in NAMES:
        write_new(tmp_path / names[name], repr(name).encode())
    assert len({name.lower() for name in names.values()}) == len(NAMES)
    assert {path.name for path in tmp_path.glob("*.summary")} == set(names.values())
    assert all(name.isascii() and len(name) < 143 for name in names.values())


@pytest.mark.parametrize("name", NAMES)
def test_no_name_is_hidden_an_option_or_a_device(name):
    stem = file_names([name], "")[name]
    assert stem[0] not in ".-~ "
    assert stem[-1] not in ". "
    assert stem.partition(".")[0].upper() not in {"CON", "NUL"}


def test_usual_names_stay_as_they_are():
    assert file_names(["north", "Ward 2", "a-b_c.d"], ".x") == {
        "north": "north.x",
        "Ward 2": "Ward 2.x",
        "a-b_c.d": "a-b_c.d.x",
    }


@given(st.sets(st.text(max_size=200), max_size=8))
def test_no_two_names_share_a_file(names):
    made = file_names(names, "").values()
    assert len({name.lower() for name in made}) == len(names)


def test_another_content_is_not_written_over_a_file_but_the_same_is(tmp_path):
    write_new(tmp_path / "a", b"1")
    write_new(tmp_path / "a", b"1")
    with pytest.raises(FileExistsError, match="--force to replace"):
        write_new(tmp_path / "a", b"2")
    assert (tmp_path / "a").read_bytes() == b"1"
    write_new(tmp_path / "a", b"2", replace=True)
    assert (tmp_path / "a").read_bytes() == b"2"
