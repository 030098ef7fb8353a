"""Entries by name, and the plugins that add some."""

import importlib
import sys
from importlib.metadata import EntryPoint

import pytest

from fedcof import registry
from fedcof.codings import CODINGS, Coding
from fedcof.errors import PluginWarning
from fedcof.registry import Registry


@pytest.fixture
def plugins(monkeypatch):
    """Entry points that are not loaded yet."""
    declared = []
    monkeypatch.setattr(registry, "entry_points", lambda group: declared)
    registry._load_plugins.cache_clear()
    yield declared
    registry._load_plugins.cache_clear()


def test_a_broken_plugin_is_left_out_and_named_and_the_others_are_loaded(
    plugins, tmp_path, monkeypatch
):
    (tmp_path / "broken_plugin.py").write_text("import nothing_of_that_name")
    (tmp_path / "good_plugin.py").write_text("from test_registry import KNOWN\nKNOWN.add('a', 1)")
    monkeypatch.syspath_prepend(tmp_path)
    plugins += [EntryPoint(name, name, "fedcof.methods") for name in BROKEN_AND_GOOD]
    with pytest.warns(PluginWarning, match=r"the plugin broken_plugin = .* ModuleNotFoundError"):
        assert KNOWN.find("a") == 1


KNOWN = Registry[int]("number")
BROKEN_AND_GOOD = ("broken_plugin", "good_plugin")


def test_a_coding_that_is_defined_again_takes_the_place_of_the_first(monkeypatch):
    monkeypatch.setattr(registry, "entry_points", lambda group: [])

    def define():
        class Twice(Coding):
            name = "twice"

            def encode(self, array):
                return {"": array}

            def decode(self, parts):
                return parts[""]

            def layout(self, shape):
                return {}

        return Twice

    define()
    second = define()
    assert type(CODINGS.pop("twice")) is second


def test_a_class_without_a_name_is_a_base_of_codings_and_is_not_registered():
    known = set(CODINGS)

    class WholeNumbers(Coding):
        pass

    assert set(CODINGS) == known


def test_a_new_file_in_a_room_is_known_without_an_edit(tmp_path, monkeypatch):
    # A method in methods/ was not in the registry until __init__ named its file.
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").write_text(
        "from fedcof.registry import import_modules\nimport_modules(__name__, __path__)\n"
    )
    (room / "new.py").write_text("LOADED = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("room")
    assert sys.modules["room.new"].LOADED
