"""What a dry run, a site's clock and its version say."""

import pytest

pytest.importorskip("flwr")

import json

import numpy as np
from grid_double import JOB, GridDouble, make_clients, run, say

from fedcof import __version__
from fedcof.errors import AnswerError
from fedcof.federation.plan import Plan
from fedcof.federation.readiness import Readiness, Site, compared, dry_run
from fedcof.federation.records import Roster, fault_record
from fedcof.federation.server_app import FlowerGrid
from fedcof.federation.skew import clock_fault, version_fault


def tried(grid, min_clients=1, timeout=60.0):
    return dry_run(
        FlowerGrid(grid),
        JOB,
        min_clients=min_clients,
        timeout=timeout,
        now=lambda: grid.time,
        sleep=grid.sleep,
    )


def test_sites_that_could_answer_are_ready_and_nothing_is_sent():
    grid = GridDouble({1: make_clients(3), 2: make_clients(2, seed=1)})
    sites = tried(grid)
    assert [(site.node_id, site.ready.clients, site.wrong) for site in sites] == [
        (1, 3, ()),
        (2, 2, ()),
    ]
    assert [site.ready.dim for site in sites] == [4, 4]
    assert {action for _, action, _ in grid.asked} == {"check"}


def test_a_site_is_ready_only_if_its_first_client_could_be_summarized():
    broken = {"a": (np.full((3, 4), np.nan, np.float32), np.array([0, 1, 2]))}
    nobody = {}
    _, nan, none, left = tried(
        GridDouble({1: make_clients(3), 2: broken, 3: nobody, 4: SystemExit(2)})
    )
    assert "non-finite:SummaryError" in nan.wrong[0]
    assert "no-data:SummaryError" in none.wrong[0]
    assert "raised:SystemExit" in left.wrong[0]


def test_a_site_that_is_not_like_most_is_named():
    names = {n: (x, np.array([f"class {i}" for i in y])) for n, (x, y) in make_clients(2).items()}
    long = make_clients(2, dim=5)
    sites = tried(GridDouble({1: make_clients(3), 2: make_clients(3), 3: long, 4: names}))
    assert [site.wrong for site in sites] == [
        (),
        (),
        ("features of length 5, most have 4",),
        ("labels of type str, most have int",),
    ]


def test_a_site_of_another_backbone_is_named():
    one, other = (Readiness(dim=4, origin=json.dumps({"backbone": name})) for name in "ab")
    [*_, last] = compared([Site(1, one), Site(2, one), Site(3, other)])
    assert last.wrong == ('features made by {"backbone": "b"}, most have {"backbone": "a"}',)


def hour_ahead(message, honest):
    record = dict(honest().content["answer"])
    return say(message, **(record | {"clock": record["clock"] + 3600.0}))


def older(message, honest):
    return say(message, **(dict(honest().content["answer"]) | {"version": "0.0.9"}))


@pytest.mark.parametrize(
    ("behave", "words"),
    [(hour_ahead, "its clock is 1:00:00 ahead of the server"), (older, "it has fedcof 0.0.9, but")],
)
def test_a_site_with_another_clock_or_version_is_named_before_it_is_asked(behave, words, tmp_path):
    nodes = {1: make_clients(3), 2: {"late": make_clients(1)["c000"]}}

    def behaves(message, honest):
        is_asked_for_summaries = message.metadata.message_type.endswith("summarize")
        return honest() if is_asked_for_summaries else behave(message, honest)

    [_, site] = tried(GridDouble(nodes, behave={2: behaves}))
    assert words in site.wrong[0]

    grid = GridDouble(nodes, behave={2: behaves})
    _, report = run(grid, tmp_path, plan=Plan(timeout=60))
    assert words in report.nodes[2]
    if behave is older:  # which could read the question in another way
        assert words in report.missing["late"]
        assert "late" not in grid.summarized()
    else:
        assert report.answered == {"late", *make_clients(3)}


def test_a_site_that_cannot_read_the_question_of_another_version_says_which_it_has(monkeypatch):
    monkeypatch.setattr("fedcof.federation.records.__version__", "0.0.9")
    record = fault_record(TypeError("unknown setting"))
    with pytest.raises(AnswerError, match=r"raised:TypeError; it has fedcof 0\.0\.9, but"):
        Roster.from_record(record, limit=10)


def test_the_dry_run_waits_for_the_clients_up_to_its_timeout():
    grid = GridDouble({1: make_clients(3)})
    assert len(tried(grid, min_clients=4, timeout=30.0)) == 1
    assert 29 <= grid.time <= 32


def test_a_site_that_stalls_or_lies_in_a_dry_run_is_named():
    def long(message, honest):
        return say(message, version="x" * 501)

    grid = GridDouble(
        {1: make_clients(3), 2: make_clients(1), 3: make_clients(1)},
        behave={2: lambda message, honest: 1e9, 3: long},
    )
    _, stalls, lies = tried(grid)
    assert stalls.wrong == ("no answer in time",)
    assert "has a version that is too long" in lies.wrong[0]


@pytest.mark.parametrize(
    "record",
    [
        {"version": 1},
        {"clients": True},
        {"clock": "now"},
        {"labels": "a\nb"},
        {"origin": "x" * 600},
    ],
)
def test_a_record_of_another_type_is_refused(record):
    with pytest.raises(AnswerError):
        Readiness.from_record(record)


@pytest.mark.parametrize(
    ("clock", "words"),
    [
        (0.0, ""),
        (1000.0, ""),
        (1014.9, ""),
        (994.0, "0:00:06 behind"),
        (1000.0 - 3600, "1:00:00 behind"),
        (1e300, "11574 days, 1:46:40 ahead"),
    ],
)
def test_a_clock_is_judged_between_question_and_answer(clock, words):
    found = clock_fault(clock, asked=1000.0, received=1010.0)
    assert words in found
    assert bool(found) == bool(words)


def test_versions_that_differ_in_the_last_number_go_together():
    major, minor, *_ = __version__.split(".")
    assert version_fault(f"{major}.{minor}.999") == ""
    assert version_fault(f"{major}.{int(minor) + 1}.0") != ""
    assert "does not say its version" in version_fault("")
