"""Settings: declared once, checked in one dialect, read from a flat mapping."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import pytest

from fedcof.errors import SettingError
from fedcof.settings import Auto, check_settings, read_settings, setting, settings_of


@dataclass(frozen=True)
class Toy:
    share: float = setting(1.0, "Share of the clients.", above=0, maximum=1)
    rounds: int = setting(3, "Rounds.", minimum=1)
    target: float | None = setting(None, "Stop here.", minimum=0)
    how: Literal["fast", "slow"] = setting("fast", "How.", client=True)
    loud: bool = setting(False, "Whether it tells.")
    note: str = ""

    def __post_init__(self) -> None:
        check_settings(self)
        if self.how == "slow" and self.rounds > 5:
            raise SettingError("rounds", f"is at most 5 with slow, it is {self.rounds}")


def test_what_is_declared_is_known() -> None:
    known = settings_of(Toy)
    assert list(known) == ["share", "rounds", "target", "how", "loud"]
    assert known["how"].choices == ("fast", "slow")
    assert known["target"].optional
    assert [s.name for s in known.values() if s.client] == ["how"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"share": 0.0}, "share must be a finite number, above 0 and at most 1, it is 0.0"),
        ({"share": float("nan")}, "share must be a finite number"),
        ({"share": "all"}, "it is 'all'"),
        ({"rounds": 0}, "rounds must be an integer, at least 1, it is 0"),
        ({"rounds": 2.5}, "rounds must be an integer, at least 1, it is 2.5"),
        ({"rounds": True}, "it is True"),
        ({"target": -1.0}, "target must be a finite number, at least 0"),
        ({"how": "well"}, "how must be one of fast, slow, it is 'well'"),
        ({"loud": 1}, "loud must be true or false, it is 1"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(bad: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Toy(**bad)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers() -> None:
    assert Toy(share=np.float32(0.5), rounds=np.int64(2)).rounds == 2


def test_a_flat_mapping_is_read_with_either_dash() -> None:
    given = {"train-rounds": 2, "train_share": 1, "rounds": 9, "train-note": "not a setting"}
    toy = read_settings(Toy, given, prefix="train-", note="fixed")
    assert toy == Toy(share=1.0, rounds=2, note="fixed")
    assert isinstance(toy.share, float)


@pytest.mark.parametrize("bad", [{"train-rounds": 0}, {"train-how": "slow", "train-rounds": 6}])
def test_the_whole_key_is_named(bad: dict[str, object]) -> None:
    with pytest.raises(SettingError, match=r"^train-rounds "):
        read_settings(Toy, bad, prefix="train-")


def test_numbers_of_numpy_become_those_of_json() -> None:
    toy = Toy(share=np.float32(0.5), rounds=np.int64(4))
    assert json.loads(json.dumps(asdict(toy)))["rounds"] == 4
    assert type(toy.share) is float


def test_an_integer_is_the_same_setting_as_the_float() -> None:
    assert json.dumps(asdict(Toy(share=1))) == json.dumps(asdict(Toy(share=1.0)))


@pytest.mark.parametrize("bad", [{"share": 10**400}, {"rounds": 10**400}])
def test_an_integer_above_every_float_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(SettingError, match="it is 1000"):
        Toy(**bad)


def test_a_key_in_both_spellings_is_refused() -> None:
    with pytest.raises(SettingError, match="a_rounds is given twice: also as a-rounds"):
        read_settings(Toy, {"a-rounds": 2, "a_rounds": 3}, prefix="a-")


def test_a_class_with_settings_that_is_no_dataclass_is_refused() -> None:
    class Forgotten(Toy):
        width: int = setting(3, "Forgotten.")

    with pytest.raises(TypeError, match=r"Forgotten declares settings: it needs @dataclass"):
        Forgotten()


@dataclass(frozen=True)
class Tuned:
    shrinkage: float | Auto = setting(1.0, "On the diagonal.", minimum=0)
    rank: int | Auto | None = setting("auto", "Rank.", minimum=1)

    def __post_init__(self) -> None:
        check_settings(self)


def test_a_number_may_be_a_word() -> None:
    known = settings_of(Tuned)["shrinkage"]
    assert (known.kind, known.words, known.choices) == (float, ("auto",), ())
    assert Tuned("auto").shrinkage == "auto"
    assert json.dumps(asdict(Tuned(np.float32(0.5), 3))) == '{"shrinkage": 0.5, "rank": 3}'
    assert Tuned(rank=None).rank is None
    assert read_settings(Tuned, {"shrinkage": "auto", "rank": 2}) == Tuned("auto", 2)


@pytest.mark.parametrize("bad", ["automatic", "", "0.5", -1.0, float("nan"), True])
def test_another_word_or_number_is_refused(bad: object) -> None:
    expected = "shrinkage must be a finite number, at least 0 or 'auto', it is "
    with pytest.raises(SettingError, match=expected):
        Tuned(bad)  # type: ignore[arg-type]
