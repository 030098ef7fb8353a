import sqlite3

import numpy as np
import pytest

from fedcof.errors import RunFolderError
from fedcof.federation.store import SummaryStore
from fedcof.methods import METHODS, FedCOF, get_method
from fedcof.scale import solve
from fedcof.summaries import from_bytes

JOB = {"method": "fedcof", "classes": [], "seed": 0}


def summary(client_id, *, dim=2, labels=(0, 1), value=1.0):
    features = np.full((2, dim), value, np.float32)
    return FedCOF().summarize(features, list(labels), client_id=client_id)


def add(store, client_id, **options):
    made = summary(client_id, **options)
    return client_id in store.add({client_id: (made, made.to_bytes())})


@pytest.fixture
def store(tmp_path):
    with SummaryStore(tmp_path / "run" / "summaries.sqlite", JOB) as store:
        yield store


def again(store):
    return SummaryStore(store._path, JOB)


def test_summaries_come_back_in_the_order_of_their_clients(store):
    for client_id in ("c", "a", "b"):
        assert add(store, client_id)
    assert [kept.client_ids for kept in store.summaries()] == [("a",), ("b",), ("c",)]


def test_a_summary_that_fits_into_memory_is_decoded_once(store, monkeypatch):
    for client_id in ("a", "b"):
        add(store, client_id)
    decoded = []
    monkeypatch.setattr(
        "fedcof.federation.store.from_bytes", lambda data: decoded.append(data) or from_bytes(data)
    )
    for _ in range(2):
        assert [kept.client_ids for kept in store.summaries()] == [("a",), ("b",)]
    assert not decoded
    store.withdraw(["a"])
    assert [kept.client_ids for kept in store.summaries()] == [("b",)]


def test_summaries_that_do_not_fit_into_memory_are_decoded_when_they_are_read(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("fedcof.federation.store.IN_MEMORY", 6000)  # one, and not two
    with SummaryStore(tmp_path / "summaries.sqlite", JOB) as store:
        for client_id in ("a", "b"):
            add(store, client_id)
        store.drop(["b"])
        add(store, "c")
        assert [kept.client_ids for kept in store.summaries()] == [("a",), ("c",)]
        first, second = (next(iter(store.summaries())) for _ in range(2))
        assert first is not second


@pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning")
@pytest.mark.filterwarnings("ignore::fedcof.errors.FewMeansWarning")
@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if m.__module__[:7] == "fedcof."])
def test_every_method_is_streamed_from_the_store(name, tmp_path, monkeypatch):
    monkeypatch.setattr("fedcof.federation.store.IN_MEMORY", 0)
    monkeypatch.setattr("fedcof.federation.store._FRAGMENT", 2000)
    method, rng = get_method(name), np.random.default_rng(0)
    with SummaryStore(tmp_path / "summaries.sqlite", {"method": name}) as store:
        sent = []
        for client_id in "gabfcde":
            labels = np.arange(24) % 3
            features = rng.normal(size=(24, 4)) + 3 * np.eye(3, 4)[labels]
            made = method.summarize(features, labels, client_id=client_id, rng=0).to_bytes()
            sent.append(from_bytes(made))
            store.add({client_id: (sent[-1], made)})
        fragments = store.summaries().fragments()
        assert len(fragments) > 1
        streamed = solve(method, fragments).head
    np.testing.assert_allclose(streamed.slopes, method.solve(sent).slopes, rtol=1e-9, atol=1e-10)


def test_of_many_clients_a_key_is_told_those_that_it_names(store):
    store.bind(["a", "c"], "one")
    assert store.bind(["b", "d"], "two") == {"b": "two", "d": "two"}
    assert store.bind(["a", "b"], "two") == {"a": "one", "b": "two"}
    assert store.bind([], "two") == {}


def test_what_was_added_is_there_for_the_next_process(store):
    add(store, "a")
    with again(store) as other:
        assert other.client_ids() == {"a"}


def test_same_summary_again_changes_nothing(store):
    assert add(store, "a")
    assert add(store, "a")
    assert len(list(store.summaries())) == 1


def test_another_summary_of_a_client_is_not_taken_even_from_another_process(store):
    add(store, "a")
    with again(store) as other:
        assert not add(other, "a", value=2.0)
        assert other.holds("a", summary("a").to_bytes())
        assert not other.holds("a", summary("a", value=2.0).to_bytes())
        assert not other.holds("b", summary("b").to_bytes())


def test_of_two_processes_on_one_file_the_first_summary_of_a_client_counts_in_both(store):
    with again(store) as other:
        add(store, "a")
        assert not add(other, "a", value=2.0)
        for each in (store, other):
            assert [kept.means[0, 0] for kept in each.summaries()] == [1.0]


@pytest.mark.parametrize(
    ("key", "value"), [("method", "fedncm"), ("classes", [0, 1]), ("seed", 1), ("new", "x")]
)
def test_another_job_is_refused_and_the_difference_named(store, key, value):
    with pytest.raises(RunFolderError, match=f"{key} = "):
        SummaryStore(store._path, JOB | {key: value})


def test_the_setting_of_a_method_is_named_and_another_method_before_it(tmp_path):
    job = {"method": "fedcof", "client_settings": {"means_per_class": 1}}
    path = tmp_path / "summaries.sqlite"
    SummaryStore(path, job).close()
    with pytest.raises(RunFolderError, match="means-per-class = 1, this run has"):
        SummaryStore(path, job | {"client_settings": {"means_per_class": 4}})
    with pytest.raises(RunFolderError, match='method = "fedcof", this run has method = "fedncm"'):
        SummaryStore(path, {"method": "fedncm", "client_settings": {}})


def test_another_version_of_the_tables_is_refused(store):
    store._database.execute("PRAGMA user_version = 99")
    with pytest.raises(RunFolderError, match="written by a later version; this version"):
        again(store)


def test_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "summaries.sqlite"
    path.write_bytes(b"something else" * 100)
    with pytest.raises(RunFolderError, match="cannot be read"):
        SummaryStore(path, JOB)


def test_process_that_dies_in_the_middle_of_opening_leaves_nothing_behind(tmp_path, monkeypatch):
    path = tmp_path / "summaries.sqlite"
    monkeypatch.setattr("fedcof.federation.store._TABLES", "CREATE TABLE job (key); NONSENSE")
    with pytest.raises(RunFolderError):
        SummaryStore(path, JOB)
    monkeypatch.undo()
    with SummaryStore(path, JOB) as store:
        assert add(store, "a")


def test_rounds_remember_whom_they_asked(store):
    store.open_round(1, {"b", "c"})
    store.open_round(2, {"a"})
    with again(store) as other:
        assert other.rounds() == [{"b", "c"}, {"a"}]


def test_client_is_in_one_round_only(store):
    store.open_round(1, {"a"})
    with pytest.raises(sqlite3.IntegrityError):
        store.open_round(2, {"b", "a"})
    assert store.rounds() == [{"a"}]


def test_summaries_that_do_not_fit_the_most_do_not_count(store):
    add(store, "a", dim=3)
    add(store, "b")
    add(store, "c", labels=("cat", "dog"))
    add(store, "d")
    assert list(store.misfits()) == ["a", "c"]
    assert "features of length 3" in store.misfits()["a"]
    assert [kept.client_ids for kept in store.summaries()] == [("b",), ("d",)]


@pytest.fixture
def six(tmp_path):
    """Keep the summaries of six clients, one of which has its features multiplied."""

    def six(factor, name="fedcof", accept=()):
        rng, labels = np.random.default_rng(0), np.arange(40) % 2
        store = SummaryStore(tmp_path / f"{factor}", JOB, accept)
        for client_id in "abcdef":
            features = 2 + labels[:, None] + 0.5 * rng.normal(size=(40, 3))
            features *= factor if client_id == "c" else 1
            made = METHODS[name]().summarize(features, labels, client_id=client_id, rng=0)
            store.add({client_id: (made, made.to_bytes())})
        return store

    return six


@pytest.mark.parametrize("name", sorted(METHODS))
def test_client_with_absurdly_large_features_does_not_count_whatever_it_sends(six, name):
    with six(1e12, name) as store:
        assert list(store.misfits()) == ["c"]
        assert store.misfits()["c"].startswith("scale 9")
        assert [kept.client_ids[0] for kept in store.summaries()] == [*"abdef"]


def test_an_odd_client_counts_and_is_named(six):
    with six(3.0) as store:
        assert store.misfits() == {}
        assert list(store.odd()) == ["c"]


def test_a_client_that_is_accepted_counts_however_odd(six):
    with six(1000.0, accept=["c"]) as store:
        assert store.misfits() == {}
        assert store.odd()["c"].startswith("scale 9")


def test_of_two_clients_neither_is_the_usual(store):
    add(store, "a")
    add(store, "b", value=1e12)
    assert list(store.misfits()) == ["a", "b"]


def test_features_that_are_all_zero_set_no_scale(store):
    for client_id in ("a", "b", "c"):
        add(store, client_id, value=0.0)
    assert store.misfits() == {}


def test_dropped_summary_may_come_again(store):
    add(store, "a")
    store.drop(["a"])
    assert store.client_ids() == set()
    assert add(store, "a", value=2.0)


def test_a_run_folder_of_another_version_is_refused_with_the_version_named(store):
    store._database.execute("PRAGMA user_version = 1")
    with pytest.raises(RunFolderError, match=r"written by fedcof 0\.1\.0; .* another run-folder"):
        SummaryStore(store._path, JOB)


def test_features_without_an_origin_go_with_those_of_a_backbone_as_in_solve(store):
    for client_id, origin in {"a": {"backbone": "1"}, "b": {}, "c": {"backbone": "1"}}.items():
        made = summary(client_id).with_origin(origin)
        store.add({client_id: (made, made.to_bytes())})
    assert store.misfits() == {}
    assert FedCOF().solve(store.summaries()).provenance.clients == 3


def test_the_backbone_of_most_clients_that_name_one_counts(store):
    origins = {"a": {"backbone": "2"}, "b": {}, "c": {"backbone": "1"}, "d": {"backbone": "1"}}
    for client_id, origin in origins.items():
        made = summary(client_id).with_origin(origin)
        store.add({client_id: (made, made.to_bytes())})
    assert store.misfits() == {"a": "backbone 2; 2 of 3 clients have backbone 1"}


def test_a_damaged_summary_stops_nobody_and_is_replaced_when_it_comes_again(store):
    add(store, "a")
    add(store, "b")
    with store._database:
        store._database.execute("UPDATE summaries SET data = x'00' WHERE client_id = 'a'")
    with again(store) as other:
        assert other.client_ids() == {"b"}
        assert "not a whole summary" in other.unreadable["a"]
        assert add(other, "a")
        assert other.unreadable == {}
    with again(store) as other:
        assert other.client_ids() == {"a", "b"}


def test_a_full_disk_is_named_and_what_was_kept_stays(store):
    # It was sqlite3.OperationalError, in Flower's traceback.
    add(store, "a")
    store._database.execute("PRAGMA max_page_count = 4")
    with pytest.raises(RunFolderError, match=r"database or disk is full\. The summaries that"):
        store.open_round(1, {f"client {i}" for i in range(10_000)})
    assert store.rounds() == []
    with again(store) as other:
        assert other.client_ids() == {"a"}


def test_a_database_that_breaks_while_it_is_used_is_named(store):
    store._database.close()
    with pytest.raises(RunFolderError, match="cannot be read"):
        store.rounds()


def _many(dim=64, scale_of=lambda k: 1.0):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(2, dim))
    for k in range(30):
        features = (centres[[0, 1, 0, 1]] + 0.1 * rng.normal(size=(4, dim))) * scale_of(k)
        yield FedCOF().summarize(features, [0, 1, 0, 1], client_id=f"{k:02}")


def _add_all(store, summaries):
    for kept in summaries:
        store.add({kept.client_ids[0]: (kept, kept.to_bytes())})


def test_clients_are_compared_without_reading_the_file_again(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcof.federation.store.IN_MEMORY", 0)
    with SummaryStore(tmp_path / "summaries.sqlite", JOB) as store:
        _add_all(store, _many(scale_of=lambda k: 3.0 if k == 7 else 1.0))
        monkeypatch.setattr(
            "fedcof.federation.store.from_bytes_together", lambda data: pytest.fail("read again")
        )
        assert list(store.odd()) == ["07"]


@pytest.mark.parametrize("in_memory", [0, 1 << 28])
def test_who_has_come_and_gone_does_not_show_in_what_is_compared(tmp_path, monkeypatch, in_memory):
    monkeypatch.setattr("fedcof.federation.store.IN_MEMORY", in_memory)
    monkeypatch.setattr("fedcof.screening._NUMBERS", 640)  # of 60 rows 16, of 20 rows 32
    made = list(_many(scale_of=lambda k: 3.0 if k == 7 else 1.0))
    with SummaryStore(tmp_path / "all" / "summaries.sqlite", JOB) as store:
        _add_all(store, made)
        store.withdraw([kept.client_ids[0] for kept in made[10:]])
        shrunk = store.odd()
    with SummaryStore(tmp_path / "few" / "summaries.sqlite", JOB) as store:
        _add_all(store, made[9::-1])
        assert store.odd() == shrunk
        assert list(shrunk) == ["07"]


def test_a_run_folder_with_pages_of_another_size_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "summaries.sqlite"
    monkeypatch.setattr("fedcof.federation.store._PAGE", 4096)
    with SummaryStore(path, JOB) as store:
        add(store, "a")
    monkeypatch.undo()
    with SummaryStore(path, JOB) as store:
        add(store, "b")
        assert [kept.client_ids for kept in store.summaries()] == [("a",), ("b",)]
