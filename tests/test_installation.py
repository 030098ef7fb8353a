import json
from importlib import metadata

import pytest

from fedcof.installation import install_line


class Installed:
    def __init__(self, origin):
        self.origin = origin

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.origin and json.dumps(self.origin)


@pytest.fixture
def installed(monkeypatch):
    def from_(origin):
        monkeypatch.setattr(metadata, "distribution", lambda name: Installed(origin))
        return install_line("data")

    return from_


def test_from_an_index_the_extra_is_asked_of_the_index(installed):
    assert installed(None) == 'pip install "fedcof[data]"'


def test_from_a_clone_the_extra_is_asked_of_the_clone(installed, tmp_path):
    clone = tmp_path / "my clone"
    clone.mkdir()
    url = clone.as_uri()
    editable = {"url": url, "dir_info": {"editable": True}}
    assert installed(editable) == f'pip install -e "{clone}[data]"'
    assert installed({"url": url, "dir_info": {}}) == f'pip install "fedcof[data] @ {url}"'


def test_from_a_repository_the_extra_is_asked_of_the_same_commit(installed):
    url = "https://example.org/fedcof.git"
    origin = {"url": url, "vcs_info": {"vcs": "git", "commit_id": "abc123"}}
    assert installed(origin) == f'pip install "fedcof[data] @ git+{url}@abc123"'


def test_a_wheel_is_named_while_it_is_there(installed, tmp_path):
    wheel = tmp_path / "fedcof-1-py3-none-any.whl"
    origin = {"url": wheel.as_uri(), "archive_info": {}}
    assert installed(origin) == 'pip install "fedcof[data]"'
    wheel.touch()
    assert installed(origin) == f'pip install "fedcof[data] @ {wheel.as_uri()}"'


def test_run_from_its_sources_the_extra_is_named(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    assert install_line("data") == 'pip install "fedcof[data]"'
