"""Files of summaries as one data set: what is read, what is set aside, and what is told of it."""

import pytest

pytest.importorskip("pyarrow")

import json
import os
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedcof import from_bytes
from fedcof.errors import SummaryError
from fedcof.methods import METHODS, get_method
from fedcof.scale import solve
from fedcof.scale.dataset import DataSet
from fedcof.scale.writing import append
from fedcof.summaries import merge
from fedcof.summaries.arrow import from_arrow, to_arrow

METHOD = get_method("fedcof")


def sent(method=METHOD, clients="abcdef", dim=5, names=False, seed=0):
    rng = np.random.default_rng(seed)
    parts = []
    for name in clients:
        labels = rng.integers(3, size=20)
        features = rng.normal(size=(20, dim)) + 4 * labels[:, None]
        texts = np.array([*"xyz"])[labels] if names else labels
        parts.append(
            from_bytes(method.summarize(features, texts, client_id=name, rng=0).to_bytes())
        )
    return parts


def write(path, parts, change=lambda table: table):
    """Write summaries with two clients in a row group."""
    table = change(to_arrow(parts))
    names = table["client"].to_pylist()
    starts = [k for k, name in enumerate(names) if k == 0 or names[k - 1] != name]
    bounds = [*starts[::2], len(names)]
    with pq.ParquetWriter(path, table.schema) as writer:
        for first, last in pairwise(bounds):
            writer.write_table(table.slice(first, last - first))
    return path


def column(table, name, values):
    return table.set_column(table.column_names.index(name), table.schema.field(name).name, values)


def with_nan(table, client):
    """Put a NaN into the first mean of a client."""
    rows = table["means"].to_pylist()
    place = table["client"].to_pylist().index(client)
    broken = np.frombuffer(rows[place], np.float32).copy()
    broken[1] = np.nan
    rows[place] = broken.tobytes()
    return column(table, "means", pa.array(rows, type=table.schema.field("means").type))


def solved(*sources, **options):
    data = DataSet.open(sources, METHOD.summary_type).without_misfits()
    found = solve(METHOD, data.fragments(**options))
    return found.head, [str(aside) for aside in [*data.set_aside, *found.set_aside]]


def close(first, second):
    np.testing.assert_array_equal(first.classes, second.classes)
    np.testing.assert_allclose(first.slopes, second.slopes, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("coding", ["float32", "int8", "int4"])
def test_any_kind_comes_back_from_a_table(name, coding):
    parts = sent(get_method(name), clients="cab")
    table = to_arrow(parts, coding)
    back = from_arrow(table)
    assert [part.client_ids for part in back] == [("a",), ("b",), ("c",)]
    assert to_arrow(back, coding).equals(table)
    if coding == "float32":
        for before, after in zip(sorted(parts, key=lambda p: p.client_ids), back, strict=True):
            assert after.to_bytes() == before.to_bytes()


def test_a_merged_summary_is_taken_apart():
    for name in ("fedcof", "fedcof-sketch", "fed3r-lossless"):
        parts = sent(get_method(name))
        assert to_arrow([merge(parts)]).equals(to_arrow(parts))
    with pytest.raises(SummaryError, match="keeps no client apart"):
        to_arrow([merge(sent(get_method("fed3r")))])


def test_a_client_without_a_name_has_no_rows():
    with pytest.raises(SummaryError, match="without a name"):
        METHOD.summarize(np.eye(2), [0, 1]).to_arrow()


def test_files_of_both_kinds_and_folders_are_one_data_set(tmp_path):
    parts = sent()
    write(tmp_path / "one.parquet", parts[:3])
    folder = tmp_path / "folder"
    folder.mkdir()
    for part in parts[3:]:
        part.save(folder / f"{part.client_ids[0]}.summary")
    for hidden in (".x.parquet", "_x.parquet", ".x.summary", "notes.txt"):
        (folder / hidden).write_bytes(b"nothing")
    head, aside = solved(tmp_path / "one.parquet", folder)
    close(head, METHOD.solve(parts))
    assert aside == []
    assert head.provenance.clients == 6
    other, _ = solved(folder, tmp_path / "one.parquet")
    assert other.to_bytes() == head.to_bytes()


def test_a_bad_client_is_named_with_file_and_row_group(tmp_path):
    parts = sent()
    path = write(tmp_path / "x.parquet", parts, change=lambda table: with_nan(table, "d"))
    head, aside = solved(path)
    assert len(aside) == 1
    assert aside[0].startswith(f"{path}, row group 1: client 'd': means holds NaN")
    close(head, METHOD.solve([part for part in parts if part.client_ids != ("d",)]))
    assert head.provenance.clients == 5


def test_a_client_of_whom_rows_are_missing_is_set_aside(tmp_path):
    parts = sent()
    path = write(tmp_path / "x.parquet", parts, change=lambda table: table.slice(1))
    head, aside = solved(path)
    assert "x.parquet, row group 0: client 'a': has " in aside[0]
    assert "are all of its rows there?" in aside[0]
    close(head, METHOD.solve(parts[1:]))


@pytest.mark.parametrize(
    ("what", "change", "reason"),
    [
        ("no metadata", lambda t: t.replace_schema_metadata({}), "no metadata of fedcof"),
        ("a column less", lambda t: t.drop_columns(["count"]), "without the column 'count'"),
        ("no rows", lambda t: t.slice(0, 0), "holds no row"),
    ],
)
def test_a_file_that_is_no_table_of_summaries_is_set_aside(what, change, reason, tmp_path):
    write(tmp_path / "good.parquet", sent())
    path = tmp_path / "bad.parquet"
    pq.write_table(change(to_arrow(sent(clients="xyz"))), path)
    head, aside = solved(tmp_path)
    assert head.provenance.clients == 6, what
    assert len(aside) == 1
    assert aside[0].startswith(f"{path}: ")
    assert reason in aside[0]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all"])
def test_a_file_that_is_not_parquet_is_set_aside(content, tmp_path):
    write(tmp_path / "good.parquet", sent())
    (tmp_path / "bad.parquet").write_bytes(content)
    head, aside = solved(tmp_path)
    assert head.provenance.clients == 6
    assert aside[0].startswith(f"{tmp_path / 'bad.parquet'}: ")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_set_aside(share, tmp_path):
    write(tmp_path / "good.parquet", sent())
    whole = write(tmp_path / "whole.parquet", sent(clients="xyz")).read_bytes()
    (tmp_path / "whole.parquet").write_bytes(whole[: int(share * len(whole))])
    head, aside = solved(tmp_path)
    assert head.provenance.clients == 6
    assert len(aside) == 1


def test_files_of_another_length_origin_or_type_of_labels_are_set_aside(tmp_path):
    write(tmp_path / "good.parquet", sent())
    others = {
        "dim": sent(clients="x", dim=4),
        "labels": sent(clients="y", names=True),
        "origin": [part.with_origin({"backbone": "b"}) for part in sent(clients="z")],
        "kind": sent(get_method("fed3r"), clients="w"),
    }
    for name, parts in others.items():
        write(tmp_path / f"{name}.parquet", parts)
    write(
        tmp_path / "more.parquet",
        [part.with_origin({"backbone": "a"}) for part in sent(clients="uv")],
    )
    head, aside = solved(tmp_path)
    assert head.provenance.clients == 8
    assert len(aside) == 4
    assert any("origin.parquet: backbone b; " in reason for reason in aside)


def test_no_majority_makes_no_head(tmp_path):
    write(tmp_path / "a.parquet", sent(clients="a"))
    write(tmp_path / "b.parquet", sent(clients="b", names=True))
    with pytest.raises(SummaryError, match="No majority"):
        DataSet.open([tmp_path]).without_misfits()


def test_a_client_in_two_files_is_named_with_both(tmp_path):
    write(tmp_path / "a.parquet", sent(clients="abc"))
    write(tmp_path / "b.parquet", sent(clients="cde", seed=1))
    with pytest.raises(SummaryError, match="client 'c': appears 2 times, in ") as caught:
        solved(tmp_path)
    assert "a.parquet, row group 1 and " in str(caught.value)
    assert "b.parquet, row group 0; a client may" in str(caught.value)


def test_a_copy_of_a_file_is_set_aside(tmp_path):
    path = write(tmp_path / "a.parquet", sent())
    (tmp_path / "b.parquet").write_bytes(path.read_bytes())
    head, aside = solved(tmp_path)
    assert head.provenance.clients == 6
    assert aside == [f"{tmp_path / 'b.parquet'}: the same summary as {path}"]


def test_one_client_alone_and_a_class_with_a_single_mean(tmp_path):
    parts = sent(clients="a")
    with pytest.warns(match="every class has one mean"):
        head, _ = solved(write(tmp_path / "one.parquet", parts))
    with pytest.warns(match="every class has one mean"):
        close(head, METHOD.solve(parts))
    lone = METHOD.summarize(np.ones((1, 5)), [9], client_id="lone")
    parts = [*sent(clients="abc"), from_bytes(lone.to_bytes())]
    head, _ = solved(write(tmp_path / "two.parquet", parts))
    close(head, METHOD.solve(parts, screened=True))


def test_the_cut_of_the_files_changes_little_and_none_of_the_bits_of_one_cut(tmp_path):
    parts = sent(clients=[f"client {k:03}" for k in range(50)])
    path = write(tmp_path / "x.parquet", parts)
    first, _ = solved(path, most=1)
    again, _ = solved(path, most=1)
    assert first.to_bytes() == again.to_bytes()
    whole, _ = solved(path)
    close(first, whole)


def test_a_file_that_changes_while_it_is_read_is_told(tmp_path):
    path = write(tmp_path / "x.parquet", sent())
    data = DataSet.open([path])
    write(path, sent(clients="abcdefgh"))
    with pytest.raises(SummaryError, match="was changed while it was read"):
        solve(METHOD, data.fragments())


def test_what_is_added_is_one_more_file(tmp_path):
    parts = sent()
    first = append(tmp_path, parts[:2])
    second = append(tmp_path, parts[2:], coding="float32")
    assert sorted(tmp_path.iterdir()) == sorted([first, second])
    head, _ = solved(tmp_path)
    close(head, METHOD.solve(parts))
    with pytest.raises(SummaryError, match=r"client 'c': is in .*part-.*, row group 0 already"):
        append(tmp_path, parts[2:3])
    assert sorted(tmp_path.iterdir()) == sorted([first, second])
    assert append(tmp_path, []) is None


def test_a_write_that_fails_leaves_nothing_behind(tmp_path):
    def failing():
        yield from sent(clients="ab")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        append(tmp_path, failing())
    assert list(tmp_path.iterdir()) == []


def test_tables_written_elsewhere_are_read(tmp_path):
    """With texts as a dictionary, means as lists of float32 or as plain bytes."""
    table = to_arrow(sent())
    data = np.frombuffer(b"".join(table["means"].to_pylist()), np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(data), 5)
    plain = pa.array(table["means"].to_pylist(), type=pa.binary())
    coded = column(table, "client", table["client"].dictionary_encode())
    for other in (column(coded, "means", lists), column(table, "means", plain)):
        pq.write_table(other, tmp_path / "x.parquet")
        head, aside = solved(tmp_path)
        assert aside == []
        close(head, METHOD.solve(sent()))


def named_first(table, name):
    return column(table, "client", pa.array([name, *table["client"].to_pylist()[1:]]))


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("rows apart", lambda t: t.take([*range(1, len(t)), 0])),
        ("no n", lambda t: column(t, "n", pa.array([None, *t["n"].to_pylist()[1:]], pa.int64()))),
        ("no class", lambda t: column(t, "class", pa.array([None, *t["class"].to_pylist()[1:]]))),
        ("no client", lambda t: named_first(t, None)),
        ("no name", lambda t: named_first(t, "")),
    ],
)
def test_rows_that_are_wrong_cost_their_client_alone(what, change, tmp_path):
    table = change(to_arrow(sent()))
    pq.write_table(table, tmp_path / "x.parquet")  # one row group
    head, aside = solved(tmp_path)
    assert head.provenance.clients == 5, what
    assert any("client 'a'" in text and "row group 0" in text for text in aside)


@pytest.mark.parametrize(
    "change",
    [
        lambda known: known["lengths"].pop("dim"),
        lambda known: known["lengths"].update(dim=float("inf")),
        lambda known: known["lengths"].update(dim=10**30),
        lambda known: known["lengths"].update(dim=-1),
    ],
)
def test_lengths_that_no_features_have_are_set_aside(change, tmp_path):
    write(tmp_path / "good.parquet", sent())
    table = to_arrow(sent(clients="xyz"))
    known = json.loads(table.schema.metadata[b"fedcof"])
    change(known)
    table = table.replace_schema_metadata({b"fedcof": json.dumps(known)})
    pq.write_table(table, tmp_path / "bad.parquet")
    head, (aside,) = solved(tmp_path)
    assert head.provenance.clients == 6
    assert "no metadata of fedcof" in aside


def test_what_pyarrow_does_not_implement_is_set_aside(tmp_path, monkeypatch):
    write(tmp_path / "good.parquet", sent())
    bad = write(tmp_path / "bad.parquet", sent(clients="xyz"))

    class File(pq.ParquetFile):
        def iter_batches(self, *arguments, **options):
            if self.metadata.num_rows == bad_rows:
                raise pa.ArrowNotImplementedError("integers of more than 64 bits")
            return super().iter_batches(*arguments, **options)

    bad_rows = pq.read_metadata(bad).num_rows
    monkeypatch.setattr(pq, "ParquetFile", File)
    head, aside = solved(tmp_path)
    assert head.provenance.clients == 6
    assert "more than 64 bits" in aside[0]


def test_a_label_that_int64_cannot_hold_does_not_wrap_around(tmp_path):
    write(tmp_path / "good.parquet", sent())
    table = to_arrow(sent(clients="xyz"))
    labels = [2**63 + value for value in table["class"].to_pylist()]
    pq.write_table(column(table, "class", pa.array(labels, pa.uint64())), tmp_path / "bad.parquet")
    head, aside = solved(tmp_path)
    assert head.classes.tolist() == [0, 1, 2]
    assert len(aside) == 1


def test_from_arrow_misses_rows_that_are_lost():
    with pytest.raises(SummaryError, match="are all of its rows there"):
        from_arrow(to_arrow(sent()).slice(1))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
def test_links_that_lead_nowhere_pipes_and_folders_are_set_aside(tmp_path):
    path = write(tmp_path / "good.parquet", sent())
    (tmp_path / "circle.parquet").symlink_to("circle.parquet")
    (tmp_path / "broken.summary").symlink_to("nowhere")
    (tmp_path / "again.parquet").symlink_to(path.name)
    (tmp_path / "folder.summary").mkdir()
    os.mkfifo(tmp_path / "pipe.summary")
    head, aside = solved(tmp_path)
    assert head.provenance.clients == 6
    assert len(aside) == 4


def test_two_who_add_the_same_client_at_once_do_not_both_add_it(tmp_path):
    def interrupted():
        yield from sent(clients="ab")
        append(tmp_path, sent(clients="bc"))

    with pytest.raises(SummaryError, match=r"client 'b': is in .*part-.*, row group 0 already"):
        append(tmp_path, interrupted())
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    class Full(pq.ParquetWriter):
        def write_table(self, *arguments, **options):
            raise OSError(28, "No space left on device")

        def close(self):
            super().close()
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "ParquetWriter", Full)
    with pytest.raises(OSError, match="No space left"):
        append(tmp_path, sent())
    assert list(tmp_path.iterdir()) == []
