import pytest

from fedcof import backbones


def test_a_backbone_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path))
    backbone = backbones.get("squeezenet1.1")
    assert backbone.name == "squeezenet1.1"


def test_an_unknown_name_lists_the_near_ones():
    with pytest.raises(ValueError, match=r"'squeezenet'; did you mean squeezenet1\.1"):
        backbones.get("squeezenet")


def test_a_name_near_nothing_lists_all():
    with pytest.raises(ValueError, match=r"squeezenet1\.1"):
        backbones.get("zzz")
