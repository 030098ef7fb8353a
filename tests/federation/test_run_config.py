"""Every key of a run configuration is known."""

import pytest

from fedcof.errors import SettingError
from fedcof.federation.run_config import check_keys, known_keys
from fedcof.federation.serving import Settings


def test_keys_are_known_with_either_dash():
    check_keys(["method", "run-folder", "run_folder", "max_clients", "train-timeout", "train-keep"])


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("shrinkgae", "shrinkgae is no setting of the app; did you mean shrinkage"),
        ("train-round", "train-round is no setting of the app; did you mean train-rounds"),
        ("train-seed", "train-seed is no setting of the app"),
        ("fraction", "fraction is no setting of the app; did you mean"),
        (
            "xyzzy",
            "xyzzy is no setting of the app; did you mean one of accept, attempts, backbone, ",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_the_near_ones(key, message):
    with pytest.raises(SettingError, match=message):
        check_keys(["method", key])


def test_defaults_are_those_of_the_declarations():
    known = known_keys()
    assert (known["shrinkage"], known["quorum"], known["train-mode"]) == ("default", 0, "probe")
    assert known["train-target"] is None


def test_a_key_in_both_spellings_is_refused():
    with pytest.raises(SettingError, match="run_folder is given twice: also as run-folder"):
        Settings.from_run_config({"run-folder": "a", "run_folder": "b"})
