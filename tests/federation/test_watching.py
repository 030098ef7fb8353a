import json
import threading
import time
from dataclasses import replace
from urllib.request import urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof.errors import RunFolderError, SettingError
from fedcof.federation.status import STATUS, Status, read_status
from fedcof.federation.watching import RunWatch, Watching, as_json


@pytest.fixture
def watch(tmp_path):
    lines = []
    watch = RunWatch(tmp_path / STATUS, Watching(), lines.append)
    watch.lines = lines
    return watch


def test_status_is_read_as_it_was_written(tmp_path):
    status = Status(state="collecting", known=9, refused={"shape": 2}, timeline=((0.0, 1),))
    status.save(tmp_path / STATUS)
    read = read_status(tmp_path)
    assert (read.known, read.refused, read.settled) == (9, {"shape": 2}, 2)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"state": ', b"\xff"])
def test_a_file_that_is_no_status_is_named(tmp_path, content):
    (tmp_path / STATUS).write_bytes(content)
    with pytest.raises(RunFolderError, match=r"status\.json cannot be read"):
        read_status(tmp_path)


def test_a_folder_of_no_run_is_named(tmp_path):
    with pytest.raises(RunFolderError, match="it is no run folder, or its run has not begun"):
        read_status(tmp_path)


def test_rate_and_time_left_are_those_of_the_last_minute():
    timeline = ((0.0, 0), (100.0, 10), (130.0, 40), (160.0, 70))
    status = Status(state="collecting", waiting=30, timeline=timeline)
    assert status.rate == 1.0
    assert status.seconds_left == 30.0
    assert Status().rate == 0.0


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 1000)), max_size=5))
def test_rate_is_a_finite_number_whatever_the_clock_does(timeline):
    assert Status(timeline=tuple(timeline)).rate < float("inf")


def test_a_run_that_goes_on_but_says_nothing_is_silent():
    status = Status(state="collecting", updated=1000.0)
    assert status.silent_for(1010.0) == 0.0
    assert status.silent_for(1100.0) == 100.0
    assert replace(status, state="complete").silent_for(1e6) == 0.0


def test_the_timeline_stays_short_and_ends_with_the_last(watch):
    for answered in range(5000):
        watch.show(answered=answered)
    assert len(watch.status.timeline) <= 402
    assert watch.status.timeline[-1][1] == 4999


def test_the_file_is_written_while_the_block_runs_and_says_how_it_ended(watch, tmp_path):
    with watch:
        watch.show(state="collecting", answered=1)
        deadline = time.monotonic() + 30
        while not (tmp_path / STATUS).exists() or read_status(tmp_path).answered != 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert read_status(tmp_path).state == "complete"
    assert not [one for one in threading.enumerate() if "_keep_writing" in one.name]


def test_clients_that_are_set_aside_make_a_run_incomplete(watch, tmp_path):
    with watch:
        watch.show(missing={"its SuperNode is offline": 1})
    assert read_status(tmp_path).state == "incomplete"


def test_a_structured_line_is_json_whatever_the_numbers_are():
    line = json.loads(as_json("a\nb", event="note", accuracy=float("nan"), clients=3))
    assert (line["message"], line["accuracy"], line["clients"]) == ("a\nb", None, 3)


def test_metrics_are_those_of_the_status(tmp_path):
    pytest.importorskip("prometheus_client")
    from socket import socket

    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with RunWatch(tmp_path / STATUS, Watching(metrics_port=port), print) as watch:
        watch.show(state="collecting", answered=5, refused={"shape": 2}, classes={'a"\n': 3})
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
        assert 'fedcof_clients{outcome="answered"} 5.0' in text
        assert 'fedcof_clients_refused{code="shape"} 2.0' in text
        assert 'fedcof_run_state{state="collecting"} 1.0' in text
        assert 'fedcof_class_clients{class="a\\"\\n"} 3.0' in text
        second = RunWatch(tmp_path / "other.json", Watching(metrics_port=port), print)
        with pytest.raises(SettingError, match=f"metrics-port 127.0.0.1:{port}: "), second:
            pass
