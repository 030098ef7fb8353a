"""`fedcof collect`, `summarize --append`, and `solve` of what they write."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from fedcof import Fed3R, FedCOF, LinearHead, merge
from fedcof.cli import app
from fedcof.scale.writing import append
from fedcof.summaries.arrow import to_arrow


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def summaries(names, factor=1.0):
    rng = np.random.default_rng(0)
    parts = []
    for name in names:
        labels = np.arange(60) % 3
        features = (rng.normal(size=(60, 6)) + 4 * np.eye(3, 6)[labels] + 2).astype(np.float32)
        features *= factor if name == "c" else 1
        parts.append(FedCOF().summarize(features, labels, client_id=name))
    return parts


def solved(folder):
    return LinearHead.load(folder / "head.safetensors")


def test_files_become_a_data_set_whose_head_is_theirs(tmp_path):
    files = tmp_path / "files"
    for part in summaries("abcdef"):
        part.save(files / f"{part.client_ids[0]}.summary")
    data = tmp_path / "data"
    collected = run("collect", files, "--out", data)
    assert collected.exit_code == 0, collected.output
    assert [path.suffix for path in data.iterdir()] == [".parquet"]
    for out, source, engine in (
        ("1", files, "memory"),
        ("2", data, "memory"),
        ("3", data, "stream"),
        ("4", files, "stream"),
    ):
        done = run("solve", source, "--engine", engine, "--out", tmp_path / out)
        assert done.exit_code == 0, done.output
    first = solved(tmp_path / "1")
    assert solved(tmp_path / "2").to_bytes() == first.to_bytes()
    for other in "34":
        head = solved(tmp_path / other)
        np.testing.assert_allclose(head.weight, first.weight, rtol=0, atol=1e-7)  # float32
        assert head.provenance == first.provenance
    again = run("collect", files, "--out", data)
    assert again.exit_code == 1
    assert "client 'a': is in " in again.output


def test_a_site_appends_to_a_data_set(tmp_path):
    for seed, site in enumerate(("north", "south")):
        rng = np.random.default_rng(seed)
        labels = np.arange(40) % 2
        features = rng.normal(size=(40, 4)) + 3 * labels[:, None]
        np.savez(tmp_path / f"{site}.npz", features=features, labels=labels)
        done = run(
            *("summarize", tmp_path / f"{site}.npz", "--client-id", site),
            *("--append", tmp_path / "data", "--coding", "int8"),
        )
        assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "data").iterdir())) == 2
    assert run("solve", tmp_path / "data", "--out", tmp_path).exit_code == 0
    assert solved(tmp_path).provenance.clients == 2


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_a_bad_row_is_named_and_the_others_are_solved(engine, tmp_path):
    table = to_arrow(summaries("abcdef"))
    rows = table["means"].to_pylist()
    rows[7] = np.full(6, np.nan, np.float32).tobytes()  # of c
    column = pa.array(rows, type=table.schema.field("means").type)
    path = tmp_path / "x.parquet"
    pq.write_table(table.set_column(4, table.schema.field("means"), column), path)
    done = run("solve", path, "--engine", engine, "--out", tmp_path, "--json")
    assert done.exit_code == 3, done.output
    document = json.loads(done.stdout)
    assert document["provenance"]["clients"] == 5
    (aside,) = document["set_aside"]
    assert f"{path}, row group 0" in aside["file"]
    assert "client 'c': means holds NaN" in aside["reason"]
    strict = run("solve", path, "--engine", engine, "--out", tmp_path / "strict", "--strict")
    assert strict.exit_code == 1
    assert not (tmp_path / "strict").exists()


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_a_client_that_is_too_large_is_set_aside_unless_it_is_accepted(engine, tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(to_arrow(summaries("abcdef", factor=1000.0)), path)
    done = run("solve", path, "--engine", engine, "--out", tmp_path / "1")
    assert done.exit_code == 3, done.output
    assert "client 'c': its features are " in done.output
    assert solved(tmp_path / "1").provenance.clients == 5
    taken = run("solve", path, "--engine", engine, "--accept", "c", "--out", tmp_path / "2")
    assert taken.exit_code == 0
    assert solved(tmp_path / "2").provenance.clients == 6


def test_a_client_outside_of_the_sample_that_is_too_large_is_set_aside(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcof.scale.screening.SAMPLE", 4)
    parts = summaries("abcdefghij", factor=1000.0)
    pq.write_table(to_arrow(parts), tmp_path / "x.parquet")
    done = run("solve", tmp_path / "x.parquet", "--engine", "stream", "--out", tmp_path)
    assert done.exit_code == 3, done.output
    assert "client 'c': its features are " in done.output
    others = [part for part in parts if part.client_ids != ("c",)]
    expected = FedCOF().solve(others, screened=True)
    assert solved(tmp_path).provenance.clients == 9
    np.testing.assert_allclose(solved(tmp_path).weight, expected.weight, rtol=0, atol=1e-6)


def check_withdrawn(client, sources, out):
    """Of six clients, one does not count, and that is told."""
    for engine in ("memory", "stream"):
        done = run("solve", *sources, "--engine", engine, "--out", out / engine)
        assert done.exit_code == 3, done.output
        assert f"client '{client}' has withdrawn" in done.output
        assert solved(out / engine).provenance.clients == 5


def test_a_client_that_has_withdrawn_does_not_count(tmp_path):
    pq.write_table(to_arrow(summaries("abcdef")), tmp_path / "x.parquet")
    (tmp_path / "withdrawn.json").write_text('{"withdrawn": ["b"]}')
    check_withdrawn("b", [tmp_path], tmp_path)


def test_an_accepted_client_that_is_not_there_is_told(tmp_path):
    pq.write_table(to_arrow(summaries("abc")), tmp_path / "x.parquet")
    for engine in ("memory", "stream"):
        done = run("solve", tmp_path, "--engine", engine, "--accept", "nobody", "--out", tmp_path)
        assert done.exit_code == 1
        assert "nobody" in done.output
        assert "there is no such client" in done.output


def test_a_site_that_has_nothing_to_append_adds_no_file(tmp_path):
    np.savez(tmp_path / "s.npz", features=np.eye(4), labels=np.arange(4) % 2)
    done = run("summarize", tmp_path / "s.npz", "--append", tmp_path / "d", "--min-samples", 9)
    assert done.exit_code == 3, done.output
    assert "d: 0 clients added" in done.output
    assert list((tmp_path / "d").iterdir()) == []


def test_a_parquet_file_is_inspected(tmp_path):
    pq.write_table(to_arrow(summaries("abc"), "int8"), tmp_path / "x.parquet")
    done = run("inspect", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    (known,) = json.loads(done.stdout)
    assert (known["clients"], known["samples"], known["rows"]) == (3, 180, 9)
    assert (known["kind"], known["coding"], known["dim"]) == ("class-means", "int8", 6)
    assert known["counts"] == {"0": 60, "1": 60, "2": 60}
    assert "x.parquet" in "".join(run("inspect", tmp_path).output.split())


def test_a_client_is_taken_out_of_parquet_files_and_the_head_is_that_of_the_others(tmp_path):
    data, never = tmp_path / "data", tmp_path / "never"
    parts = summaries("abcdef")
    for folder, left_out in ((data, ""), (never, "bf")):
        for group in ("abc", "de", "f"):
            if kept := [p for p in parts if p.client_ids[0] in set(group) - set(left_out)]:
                append(folder, kept, coding="int8")
    (data / "withdrawn.json").write_text('{"withdrawn": ["b", "f"]}')  # noted, not erased
    noted = run("solve", data, "--engine", "stream", "--out", tmp_path / "noted")
    assert noted.exit_code == 3, noted.output
    for client in "bf":
        done = run("withdraw", client, data)
        assert done.exit_code == 0, done.output
    assert len(list(data.glob("*.parquet"))) == 2
    assert {path.name for path in data.iterdir() if path.suffix != ".parquet"} == {"withdrawn.json"}
    for out, folder, engine in (
        ("memory", data, "memory"),
        ("never", never, "memory"),
        ("stream", data, "stream"),
    ):
        solving = run("solve", folder, "--engine", engine, "--strict", "--out", tmp_path / out)
        assert solving.exit_code == 0, solving.output  # what is not there is not set aside
    assert solved(tmp_path / "memory").to_bytes() == solved(tmp_path / "never").to_bytes()
    assert solved(tmp_path / "stream").to_bytes() == solved(tmp_path / "noted").to_bytes()


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_regression_a_table_of_another_program_is_whole_without_a_client(
    kind, tmp_path, monkeypatch
):
    # Metadata that stood beside the schema of Arrow was lost, and with it all other clients.
    monkeypatch.setattr("fedcof.scale.dataset._PART", 500)
    table = to_arrow(summaries("abcdef"))
    names = table["client"]
    names = names.dictionary_encode() if kind == "dictionary" else names.cast(kind)
    other = table.set_column(0, "client", names).replace_schema_metadata(None)
    with pq.ParquetWriter(tmp_path / "x.parquet", other.schema) as writer:
        writer.write_table(other)
        writer.add_key_value_metadata(table.schema.metadata)
    assert run("withdraw", "c", tmp_path).exit_code == 0
    done = run("solve", tmp_path, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    others = FedCOF().solve([p for p in summaries("abcdef") if p.client_ids != ("c",)])
    np.testing.assert_allclose(solved(tmp_path).weight, others.weight, atol=1e-6)


def test_a_broken_client_is_erased_as_well(tmp_path):
    table = to_arrow(summaries("abc"))
    pq.write_table(table.slice(1), tmp_path / "x.parquet")  # a row of a is lost
    assert run("withdraw", "a", tmp_path).exit_code == 0
    assert set(pq.read_table(tmp_path / "x.parquet")["client"].to_pylist()) == {"b", "c"}


def test_what_needs_all_summaries_says_so(tmp_path):
    pq.write_table(to_arrow(summaries("abc")), tmp_path / "x.parquet")
    robust = run("solve", tmp_path, "--robust", "--engine", "stream", "--out", tmp_path)
    influence = run("solve", tmp_path, "--max-influence", 1, "--engine", "stream")
    assert (robust.exit_code, influence.exit_code) == (1, 1)
    assert "cannot be solved without all summaries in memory" in robust.output
    assert "--max-influence needs all summaries in memory" in influence.output


def test_a_method_that_needs_all_summaries_holds_them_and_says_so(tmp_path, monkeypatch):
    pq.write_table(to_arrow(summaries("abc")), tmp_path / "x.parquet")
    monkeypatch.setattr("fedcof.commands.solve._ROWS_IN_MEMORY", 1)
    held = run("solve", tmp_path, "--robust", "--out", tmp_path / "robust")
    assert held.exit_code == 0, held.output
    assert "all summaries are held in memory, 0.0 GB: with robust, medians" in held.output
    streamed = run("solve", tmp_path, "--out", tmp_path / "plain")
    assert "held in memory" not in streamed.output
    assert "; streamed, " in streamed.output


def test_who_has_withdrawn_from_one_folder_has_withdrawn_from_all(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    append(one, summaries("abc"))
    append(two, summaries("def"))
    (one / "withdrawn.json").write_text('{"withdrawn": ["e", "nobody"]}')
    check_withdrawn("e", [one, two], tmp_path)
    collected = run("collect", one, two, "--out", tmp_path / "data")
    assert collected.exit_code == 3, collected.output
    assert "set aside " in collected.output
    assert "client 'e' has withdrawn" in collected.output
    assert "nobody" not in collected.output
    (path,) = (tmp_path / "data").iterdir()
    assert set(pq.read_table(path)["client"].to_pylist()) == set("abcdf")


def test_who_has_withdrawn_from_a_folder_has_withdrawn_from_those_in_it(tmp_path):
    data = tmp_path / "data"
    append(data / "round=1", summaries("abc"))
    append(data / "round=2" / "late", summaries("def"))
    (data / "withdrawn.json").write_text('{"withdrawn": ["e"]}')
    check_withdrawn("e", [data], tmp_path)
    assert run("withdraw", "a", data).exit_code == 0
    again = run("collect", data, "--out", tmp_path / "more")
    assert again.exit_code == 3, again.output
    (path,) = (tmp_path / "more").iterdir()
    assert set(pq.read_table(path)["client"].to_pylist()) == set("bcdf")
    for client in "ae":
        assert run("withdraw", client, data, "--readmit").exit_code == 0
    assert run("solve", data, "--out", tmp_path / "all").exit_code == 0
    assert solved(tmp_path / "all").provenance.clients == 5  # the rows of a are gone


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_regression_what_is_wrong_is_told_where_nothing_is_left(engine, tmp_path):
    # A stream said that no client is left, and not why.
    table = to_arrow(summaries("abc"))
    pq.write_table(table, tmp_path / "split.parquet", row_group_size=1)
    done = run("solve", tmp_path, "--engine", engine, "--out", tmp_path)
    assert done.exit_code == 1
    assert "split.parquet, row group 0" in done.output
    assert "are all of its rows there?" in done.output
    pq.write_table(table.replace_schema_metadata(None), tmp_path / "split.parquet")
    done = run("solve", tmp_path, "--engine", engine, "--out", tmp_path)
    assert done.exit_code == 1
    assert "must keep what the old one has under 'fedcof'" in done.output


def test_a_sum_of_several_clients_is_set_aside_by_its_file_alone(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(20) % 2
    parts = [
        Fed3R().summarize(rng.normal(size=(20, 3)), labels, client_id=name) for name in "abcdef"
    ]
    merge(parts[:2]).save(tmp_path / "sum.summary")
    for part in parts[2:]:
        part.save(tmp_path / f"{part.client_ids[0]}.summary")
    done = run("collect", tmp_path, "--out", tmp_path / "data")
    assert done.exit_code == 3, done.output
    assert f"set aside {tmp_path / 'sum.summary'}: " in done.output
    (path,) = (tmp_path / "data").iterdir()
    assert set(pq.read_table(path)["client"].to_pylist()) == set("cdef")


@pytest.mark.parametrize(
    ("command", "where", "told"),
    [
        ("solve", "fedcof.scale.solving.work", "no head is written"),
        ("collect", "fedcof.scale.writing.to_arrow", "nothing is added"),
    ],
)
def test_a_command_that_is_stopped_leaves_nothing_and_says_so(
    command, where, told, tmp_path, monkeypatch
):
    pq.write_table(to_arrow(summaries("abc")), tmp_path / "x.parquet")

    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(where, stop)
    engine = ["--engine", "stream"] if command == "solve" else []
    done = run(command, tmp_path / "x.parquet", *engine, "--out", tmp_path / "out")
    assert done.exit_code == 130, done.output
    assert told in done.output
    assert "goes on from here" not in done.output
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_a_disk_that_is_full_adds_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcof.scale.writing.secrets.token_hex", lambda length: "full")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / ".part-full").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as caught:
        append(tmp_path / "data", summaries("abc"))
    assert caught.value.filename == str(tmp_path / "data")  # which pyarrow did not say
    assert list((tmp_path / "data").iterdir()) == []


def test_what_other_programs_write_is_read(tmp_path):
    table = to_arrow(summaries(["a", "Zürich", "東京", "b" * 2000]))
    plain = tmp_path / "plain.parquet"
    pq.write_table(table, plain)
    types = {
        "client": pa.large_string(),
        "class": pa.int32(),
        "count": pa.uint16(),
        "n": pa.int32(),
        "means": pa.large_binary(),
    }
    other = pa.table({name: table[name].cast(types[name]) for name in reversed(types)})
    coded = pa.table(
        {**{n: table[n] for n in types}, "client": table["client"].dictionary_encode()}
    )
    run("solve", plain, "--engine", "stream", "--out", tmp_path / "plain")
    for name, written in {"other": other, "coded": coded}.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(written.replace_schema_metadata(table.schema.metadata), path)
        done = run("solve", path, "--engine", "stream", "--out", tmp_path / name)
        assert done.exit_code == 0, done.output
        assert solved(tmp_path / name).to_bytes() == solved(tmp_path / "plain").to_bytes()
