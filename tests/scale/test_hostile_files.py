"""Data sets as other programs write, damage and change them: what is read, and what is told."""

import pytest

pytest.importorskip("pyarrow")

import os
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from test_dataset import METHOD, close, column, sent, solved, with_nan, write

from fedcof.errors import SummaryError
from fedcof.files import locked
from fedcof.scale import dataset, solve, writing
from fedcof.scale.dataset import DataSet
from fedcof.scale.writing import append
from fedcof.summaries.arrow import to_arrow

TABLE = to_arrow(sent())
BYTES = TABLE["means"].to_pylist()
MEANS = [np.frombuffer(row, np.float32) for row in BYTES]


def of_type(name, kind):
    return column(TABLE, name, TABLE[name].cast(kind))


# What other programs write


@pytest.mark.parametrize(
    ("what", "table"),
    [
        ("texts of polars", of_type("client", pa.string_view())),
        ("long texts", of_type("client", pa.large_string())),
        ("names in a dictionary", column(TABLE, "client", TABLE["client"].dictionary_encode())),
        ("classes in a dictionary", column(TABLE, "class", TABLE["class"].dictionary_encode())),
        ("bytes of polars", column(TABLE, "means", pa.array(BYTES, pa.binary_view()))),
        ("long bytes", column(TABLE, "means", pa.array(BYTES, pa.large_binary()))),
        ("bytes in a dictionary", column(TABLE, "means", pa.array(BYTES).dictionary_encode())),
        ("lists", column(TABLE, "means", pa.array(MEANS, pa.list_(pa.float32())))),
        ("long lists", column(TABLE, "means", pa.array(MEANS, pa.large_list(pa.float32())))),
        ("lists of float64", column(TABLE, "means", pa.array(MEANS, pa.list_(pa.float64())))),
        ("rows of float64", column(TABLE, "means", pa.array(MEANS, pa.list_(pa.float64(), 5)))),
        ("small counts", of_type("count", pa.int32())),
        ("counts without a sign", of_type("count", pa.uint64())),
        ("counts of pandas", of_type("count", pa.float64())),
        ("sums of pandas", of_type("n", pa.float64())),
        ("another order", TABLE.select(["means", "n", "count", "class", "client"])),
        ("more columns", TABLE.append_column("more", pa.array([{"a": [1]}] * len(TABLE)))),
    ],
)
def test_any_type_that_holds_the_same_values_is_read(what, table, tmp_path):
    pq.write_table(table, tmp_path / "x.parquet")
    head, aside = solved(tmp_path)
    assert aside == [], what
    close(head, METHOD.solve(sent()))


def test_numbers_of_two_bytes_are_read_as_they_are(tmp_path):
    halves = [row.astype(np.float16) for row in MEANS]
    pq.write_table(
        column(TABLE, "means", pa.array(halves, pa.list_(pa.float16()))), tmp_path / "x.parquet"
    )
    head, aside = solved(tmp_path)
    assert (head.provenance.clients, aside) == (6, [])
    np.testing.assert_allclose(head.slopes, METHOD.solve(sent()).slopes, atol=1e-2)


@pytest.mark.parametrize(
    "options",
    [
        {"write_page_index": True, "compression": "zstd"},
        {"data_page_version": "2.0", "compression": "gzip"},
        {"data_page_size": 10},
        {"version": "1.0", "use_dictionary": False},
    ],
)
def test_any_way_to_write_a_file_is_read(options, tmp_path):
    pq.write_table(TABLE, tmp_path / "x.parquet", **options)
    head, aside = solved(tmp_path)
    assert aside == []
    close(head, METHOD.solve(sent()))


def test_regression_metadata_of_the_file_alone_is_enough(tmp_path):
    # polars writes the schema of Arrow without metadata, and what it is given beside the file's.
    with pq.ParquetWriter(tmp_path / "x.parquet", TABLE.schema.remove_metadata()) as writer:
        writer.write_table(TABLE.replace_schema_metadata(None))
        writer.add_key_value_metadata(TABLE.schema.metadata)
    assert not pq.read_schema(tmp_path / "x.parquet").metadata
    head, aside = solved(tmp_path)
    assert aside == []
    close(head, METHOD.solve(sent()))


def test_row_groups_without_rows_are_passed_over(tmp_path):
    with pq.ParquetWriter(tmp_path / "x.parquet", TABLE.schema) as writer:
        for table in (TABLE.slice(0, 0), TABLE, TABLE.slice(0, 0)):
            writer.write_table(table)
    head, aside = solved(tmp_path)
    assert aside == []
    close(head, METHOD.solve(sent()))


# Single rows


@pytest.mark.parametrize(
    ("name", "values", "kind", "reason"),
    [
        ("means", [*BYTES[:7], None, *BYTES[8:]], pa.binary(20), "a row lacks its 'means'"),
        ("means", [*BYTES[:7], b"short", *BYTES[8:]], pa.binary(), "has 5 bytes in a row"),
        ("means", [*MEANS[:7], None, *MEANS[8:]], pa.list_(pa.float32()), "lacks its 'means'"),
        ("means", [*MEANS[:7], [1.0], *MEANS[8:]], pa.list_(pa.float32()), "has 1 numbers in"),
        ("count", [*[7.0] * 7, 2.5, *[7.0] * 10], pa.float64(), "'count' is no whole number"),
        ("count", [*[7.0] * 7, np.inf, *[7.0] * 10], pa.float64(), "'count' is no whole number"),
    ],
)
def test_regression_one_bad_row_costs_its_client_alone(name, values, kind, reason, tmp_path):
    # All clients of the row group were set aside, and the one was not named.
    table = column(TABLE, name, pa.array(values, kind))
    pq.write_table(table, tmp_path / "x.parquet")
    data = DataSet.open([tmp_path], METHOD.summary_type)
    (piece,) = data.files[0].pieces
    told = {
        aside.client_id: str(aside)
        for read in piece.read(counts_alone=False, left_out=frozenset())
        for aside in read.set_aside
    }
    assert told["c"].startswith(f"{tmp_path / 'x.parquet'}, row group 0: client 'c': ")
    assert reason in told["c"]
    assert name != "means" or list(told) == ["c"]


@pytest.mark.parametrize("kind", ["client", "means"])
def test_regression_one_bad_row_of_polars_costs_its_client_alone(kind, tmp_path):
    # Arrow cannot filter its texts and bytes, so the row group was set aside.
    table = with_nan(TABLE, "c")
    values = pa.array(table[kind].to_pylist())
    view = pa.string_view() if kind == "client" else pa.binary_view()
    counts = pa.array([*[None], *TABLE["count"].to_pylist()[1:]], pa.int64())
    table = column(column(table, kind, values.cast(view)), "count", counts)
    pq.write_table(table, tmp_path / "x.parquet")
    head, aside = solved(tmp_path)
    assert head.provenance.clients == 4
    assert sorted(text.split("client ")[1][:3] for text in aside) == ["'a'", "'c'"]


def test_rows_of_a_client_in_two_row_groups_and_in_two_files_are_named_with_both(tmp_path):
    write(tmp_path / "good.parquet", sent(clients="uvwxyz", seed=1))
    pq.write_table(TABLE, tmp_path / "x.parquet", row_group_size=4)  # of three rows a client
    pq.write_table(TABLE.slice(0, 2), tmp_path / "y.parquet")
    head, aside = solved(tmp_path)
    assert head.provenance.clients == 9
    of_b = [text for text in aside if "client 'b'" in text]
    assert [text.split(": ")[0].rpartition(", ")[2] for text in of_b] == [
        "row group 0",
        "row group 1",
    ]
    assert all("one after the other, in one row group" in text for text in of_b)
    assert any(f"{tmp_path / 'y.parquet'}, row group 0: client 'a'" in text for text in aside)


def test_regression_where_nobody_is_left_the_reasons_are_told(tmp_path):
    pq.write_table(TABLE, tmp_path / "x.parquet", row_group_size=1)
    with pytest.raises(
        SummaryError, match=r"no client is left\. .*x.parquet, row group 0: client 'a'"
    ):
        solved(tmp_path)


# Row groups of any size


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.setattr(dataset, "_PART", 400)


def reads_of(path):
    (piece,) = DataSet.open([path], METHOD.summary_type).files[0].pieces
    return [*piece.read(counts_alone=False, left_out=frozenset())]


def test_a_large_row_group_is_read_in_parts(parts, tmp_path):
    pq.write_table(TABLE, tmp_path / "x.parquet")
    reads = reads_of(tmp_path / "x.parquet")
    assert len(reads) > 3
    assert [name for read in reads for part in read.parts for name in part.client_ids] == [
        *"abcdef"
    ]
    head, aside = solved(tmp_path)
    assert aside == []
    close(head, METHOD.solve(sent()))


@pytest.mark.parametrize("most", [1, 100, 300, 700, 10_000])
def test_parts_of_any_size_cut_no_client(most, monkeypatch, tmp_path):
    monkeypatch.setattr(dataset, "_PART", most)
    table = with_nan(TABLE, "d")
    pq.write_table(table.slice(1), tmp_path / "x.parquet")  # a row of a is lost
    head, aside = solved(tmp_path)
    assert [text.split("client ")[1][:3] for text in sorted(aside)] == ["'a'", "'d'"]
    close(head, METHOD.solve([p for p in sent() if p.client_ids[0] not in "ad"]))


def test_rows_apart_in_two_parts_are_no_client(parts, tmp_path):
    pq.write_table(TABLE.take([*range(1, len(TABLE)), 0]), tmp_path / "x.parquet")
    head, aside = solved(tmp_path)
    assert head.provenance.clients == 5
    assert len(aside) == 2
    assert all("client 'a': has " in text for text in aside)


def test_a_part_that_is_damaged_costs_the_clients_that_follow(parts, tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(
        TABLE, path, compression="zstd", use_dictionary=False, data_page_size=1, write_batch_size=1
    )
    group = pq.read_metadata(path).row_group(0)
    means = group.column(group.num_columns - 1)
    whole = bytearray(path.read_bytes())
    place = means.data_page_offset + means.total_compressed_size * 2 // 3
    whole[place : place + 40] = b"\0" * 40
    path.write_bytes(whole)
    head, aside = solved(path)
    assert 0 < head.provenance.clients < 6
    named = {text.split("client ")[-1][:3] for text in aside}
    assert head.provenance.clients + len(aside) == 6, named
    assert all("row group 0: " in text for text in aside)


# Folders


def test_folders_in_folders_are_read_as_spark_and_hive_write_them(tmp_path):
    inner = tmp_path / "data.parquet" / "round=1"
    inner.mkdir(parents=True)
    write(inner / "part-0.snappy.parquet", sent(clients="abc"))
    (tmp_path / "round=2").mkdir()
    sent()[3].save(tmp_path / "round=2" / "d.summary")
    for name in ("_SUCCESS", "._SUCCESS.crc", ".part-0.snappy.parquet.crc", "_metadata"):
        (inner / name).write_bytes(b"")
    (inner / "_temporary").mkdir()
    write(inner / "_temporary" / "half.parquet", sent(clients="xyz"))
    (inner / "up.parquet").symlink_to(tmp_path, target_is_directory=True)
    head, aside = solved(tmp_path)
    assert head.provenance.clients == 4
    assert len(aside) == 1  # the link that leads in a circle
    close(head, METHOD.solve(sent()[:4]))


def test_a_client_in_a_file_of_its_own_and_in_a_table_is_named_with_both(tmp_path):
    write(tmp_path / "x.parquet", sent())
    sent()[2].save(tmp_path / "c.summary")
    with pytest.raises(SummaryError, match="client 'c': appears 2 times, in ") as caught:
        solved(tmp_path)
    assert "c.summary and in " in str(caught.value)
    assert "x.parquet, row group 1; " in str(caught.value)


# Files that change


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(path.read_bytes() + b"more"),
        lambda path: write(path, sent(seed=1)),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_file_that_changes_between_two_passes_is_told(first, change, tmp_path):
    path, passes = write(tmp_path / "x.parquet", sent()), []
    data = DataSet.open([path])

    def engine(task, fragments):
        passes.append(task)
        if len(passes) == (1 if first else 2):
            change(path)
            os.utime(path) if path.exists() else None
        return map(task, fragments)

    with pytest.raises(SummaryError, match=r"x\.parquet was changed while it was read"):
        solve(METHOD, data.fragments(), engine=engine)


def test_regression_a_file_that_changes_while_it_is_read_is_told(tmp_path, monkeypatch):
    # What was read of it was taken, or set aside as damaged.
    path = write(tmp_path / "x.parquet", sent())
    data = DataSet.open([path])

    class Slow(pq.ParquetFile):
        def iter_batches(self, *arguments, **options):
            for batch in super().iter_batches(*arguments, **options):
                yield batch
                path.write_bytes(path.read_bytes() + b"more")

    monkeypatch.setattr(pq, "ParquetFile", Slow)
    with pytest.raises(SummaryError, match="was changed while it was read"):
        solve(METHOD, data.fragments())


def test_a_file_that_is_added_meanwhile_is_not_seen(tmp_path):
    write(tmp_path / "x.parquet", sent())
    data = DataSet.open([tmp_path])
    append(tmp_path, sent(clients="xyz"))
    assert solve(METHOD, data.fragments()).head.provenance.clients == 6


# Several who write


def test_regression_of_two_who_add_the_same_client_at_once_one_does(tmp_path, monkeypatch):
    # Both looked before the other's file had its name.
    looked = writing.clients_in

    def slowly(paths):
        found = looked(paths)
        time.sleep(0.3)
        return found

    monkeypatch.setattr(writing, "clients_in", slowly)
    refused = []

    def add(others):
        try:
            append(tmp_path, sent(clients=f"a{others}"))
        except SummaryError as error:
            refused.append(error)

    both = [threading.Thread(target=add, args=(others,)) for others in ("b", "c")]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(refused) == 1
    assert "client 'a': is in " in str(refused[0])
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_locked_is_written_all_the_same(tmp_path):
    with locked(tmp_path / "nowhere"), locked(tmp_path):
        pass
