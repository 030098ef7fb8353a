import pytest

from fedcof.files import cache_folder, fetch, store, write_atomically


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


def test_without_an_override_the_cache_is_the_platforms(monkeypatch):
    monkeypatch.delenv("FEDCOF_CACHE", raising=False)
    assert cache_folder().name.lower() == "fedcof"
