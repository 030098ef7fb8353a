import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof.client import Sender
from fedcof.errors import AnswerError, SummaryError
from fedcof.federation.records import Answer, Job, Roster, checked_code, code_of
from fedcof.methods import FedCOF

client_ids = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)
GOOD = Answer({"a": b"12", "b": b"345"}, {"c": "raised:ValueError"}).to_record()


@given(
    st.dictionaries(client_ids, st.binary(min_size=1, max_size=9), max_size=5),
    st.dictionaries(client_ids, st.just("raised:ValueError"), max_size=3),
)
def test_answer_is_what_was_sent(summaries, failed):
    answer = Answer(summaries, failed)
    assert Answer.from_record(answer.to_record(), limit=100) == answer


def test_job_is_what_was_sent():
    job = Job(Sender(FedCOF(means_per_class=2), seed=3), backbone="squeezenet1.1", data="x")
    assert Job.from_record(job.to_record()) == job


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": [2]},
        {"sizes": [2, 4]},
        {"sizes": [6, -1]},
        {"sizes": [5, 0]},
        {"sizes": [2.0, 3.0]},
        {"sizes": "23"},
        {"blob": "12345"},
        {"blob": b"1234"},
        {"answered": ["a"]},
        {"answered": [1, 2]},
        {"answered": ["a", ""]},
        {"answered": ["a", "b" * 201]},
        {"answered": ["a", "b\n"]},
        {"codes": []},
        {"codes": 1},
        {"withheld": [1, 2]},
        {"withheld": [0, 0, 1, -1]},
        {"withheld": [0, 0, 1, 1.0]},
        {"failed": 1.0},
    ],
)
def test_malformed_answer_is_refused(change):
    with pytest.raises(AnswerError):
        Answer.from_record(GOOD | change, limit=100)


@pytest.mark.parametrize("missing", sorted(GOOD))
def test_incomplete_answer_is_refused(missing):
    record = {name: value for name, value in GOOD.items() if name != missing}
    with pytest.raises(AnswerError):
        Answer.from_record(record, limit=100)


def test_answer_larger_than_allowed_is_refused():
    assert Answer.from_record(GOOD, limit=5)
    with pytest.raises(AnswerError, match="at most 4 bytes"):
        Answer.from_record(GOOD, limit=4)


def test_roster_names_each_client_once_and_not_too_many():
    record = {"clients": ["b", "a", "b"]}
    assert Roster.from_record(record, limit=3).client_ids == ("a", "b")
    with pytest.raises(AnswerError, match="at most 2"):
        Roster.from_record(record, limit=2)


def test_roster_is_what_was_sent():
    roster = Roster(("a", "b"), samples={"b": 7}, classes={"a": 2}, version="0.2.0", clock=1.5)
    assert Roster.from_record(roster.to_record(), limit=2) == roster


@pytest.mark.parametrize(
    "change",
    [
        {"samples": [1]},
        {"samples": [1, -1]},
        {"samples": [1, 2.0]},
        {"classes": "ab"},
        {"version": 1},
        {"version": "0.2\nforged line"},
        {"clock": "now"},
        {"clock": float("nan")},
    ],
)
def test_malformed_roster_is_refused(change):
    with pytest.raises(AnswerError):
        Roster.from_record({"clients": ["a", "b"], **change}, limit=2)


def test_code_of_an_error_has_no_text_of_it():
    assert code_of(ValueError("patient 42")) == "raised:ValueError"
    assert code_of(SummaryError("non-finite", "patient 42")) == "non-finite:SummaryError"


def test_code_with_data_in_it_does_not_travel():
    assert code_of(SummaryError("patient 42", "")) == "unclear"
    assert code_of(type("Patient 42", (Exception,), {})()) == "unclear"


@pytest.mark.parametrize("code", ["patient 42", "a:b:c", "", "x" * 41, "raised:\n", 3, None, b"a"])
def test_code_that_could_be_anything_is_not_taken(code):
    assert checked_code(code) == "unclear"


def test_numpy_sizes_do_not_go_over_the_wire():
    with pytest.raises(AnswerError):
        Answer.from_record(GOOD | {"sizes": [np.int64(2), np.int64(3)]}, limit=100)


def test_a_roster_and_an_answer_go_into_one_record():
    roster, answer = Roster(("a", "b", "c")), Answer({"a": b"12"}, {"c": "raised:ValueError"})
    record = {**roster.to_record(), **answer.to_record()}
    assert Roster.from_record(record, limit=3) == roster
    assert Answer.from_record(record, limit=2) == answer
