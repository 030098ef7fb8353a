import numpy as np
import pytest

from fedcof.data import (
    ByColumn,
    Central,
    ClassWise,
    Dirichlet,
    Iid,
    dealings,
    dirichlet,
    get_dealing,
    hsu_dirichlet,
    iid,
)
from fedcof.errors import SettingError

LABELS = np.repeat([0, 1, 2], 20)
COLUMNS = {"user": np.arange(60) % 7}


@pytest.mark.parametrize(
    ("dealing", "expected"),
    [
        (Dirichlet(5, 0.5), dirichlet(LABELS, 5, 0.5, seed=3)),
        (ClassWise(5, 0.5), hsu_dirichlet(LABELS, 5, 0.5, seed=3)),
        (Iid(5), iid(60, 5, seed=3)),
    ],
)
def test_scheme_deals_as_its_function(dealing, expected):
    dealt = dealing.deal(LABELS, COLUMNS, 3)
    assert dealt.client_ids == expected.client_ids
    np.testing.assert_array_equal(dealt.assignment, expected.assignment)


def test_column_gives_a_client_for_every_value():
    assert len(ByColumn("user").deal(LABELS, COLUMNS, 0).client_ids) == 7


def test_column_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ValueError, match="no column 'site' to deal by; it has user"):
        ByColumn("site").deal(LABELS, COLUMNS, 0)
    with pytest.raises(ValueError, match="it has no columns"):
        ByColumn("site").deal(LABELS, {}, 0)


def test_central_has_one_client_with_everything():
    [(_, rows)] = Central().deal(LABELS, {}, 0)
    assert len(rows) == 60
    assert Central().clients == 1


@pytest.mark.parametrize(
    ("scheme", "settings", "message"),
    [
        (Dirichlet, {"alpha": 0.0}, "alpha must be a finite number, above 0, it is 0.0"),
        (ClassWise, {"alpha": float("nan")}, "alpha must be a finite number, above 0, it is nan"),
        (Iid, {"clients": 0}, "clients must be an integer, at least 1, it is 0"),
    ],
)
def test_a_setting_out_of_range_is_refused_before_any_data_is_dealt(scheme, settings, message):
    with pytest.raises(SettingError, match=message):
        scheme(**settings)


def test_names_of_the_command_line():
    known = dealings(["user", "iid"], clients=4, alpha=0.2)
    assert known == {
        "dirichlet": Dirichlet(4, 0.2),
        "class-wise": ClassWise(4, 0.2),
        "iid": Iid(4),
        "user": ByColumn("user"),
    }
    assert [dealing.title for dealing in known.values()] == [
        "Dirichlet 0.2",
        "class-wise 0.2",
        "iid",
        "by user",
    ]
    assert get_dealing("user", ["user"]) == ByColumn("user")


def test_name_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="'site'; there are dirichlet, class-wise, iid, user"):
        get_dealing("site", ["user"])


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("user", {"clients": 4}, "clients is no setting of the partition user: the column user"),
        ("user", {"alpha": 0.2}, "alpha is no setting of the partition user: the column user"),
        ("iid", {"alpha": 0.2}, "alpha is no setting of the partition iid: it has clients"),
    ],
)
def test_a_setting_that_a_way_to_deal_lacks_is_refused_and_not_ignored(name, settings, message):
    with pytest.raises(SettingError, match=message):
        get_dealing(name, ["user"], **settings)
