"""Files as people have them: each is read as it is meant, or refused with what is wrong and where.

Never a traceback, and never fewer rows without a word.
"""

import pytest

pytest.importorskip("pyarrow")

import bz2
import gzip
import json
import struct
import warnings
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
from safetensors.numpy import save_file

from fedcof.data import Reading, read, read_image
from fedcof.errors import FedCOFError, OwnDataError, OwnDataWarning, UnreadableImageError

pandas = pytest.importorskip("pandas")

X = np.arange(8, dtype=np.float32).reshape(4, 2)
Y = np.array(["a", "b", "a", "b"])
CSV = "x,y2,label\n0,1,a\n2,3,b\n4,5,a\n6,7,b\n"


def npz(path, **arrays):
    np.savez(path / "data.npz", **arrays)
    return path / "data.npz"


def pickled(path, **arrays):
    np.savez(path / "data.npz", allow_pickle=True, **arrays)
    return path / "data.npz"


def npy(path, **arrays):
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return path


def parquet(path, name="data.parquet", **columns):
    pq.write_table(pa.table(columns), path / name)
    return path / name


def csv(path, content=CSV, name="data.csv"):
    (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return path / name


def tensors(path, header, data):
    text = json.dumps(header).encode()
    (path / "data.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path / "data.safetensors"


def cut(path, by=20):
    path.write_bytes(path.read_bytes()[:-by])
    return path


def stream():
    table = pa.table({"features": X.tolist(), "label": Y})
    with (sink := pa.BufferOutputStream()), pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def frame(**columns):
    return pandas.DataFrame(columns)


def vectors(kind=None):
    return pa.array(X.tolist(), kind)


READ = {
    # what is read: how the source is made, and the labels that are expected
    "npz": lambda p: npz(p, features=X, labels=Y),
    "npz X and y": lambda p: npz(p, X=X, y=Y),
    "npz embeddings and target": lambda p: npz(p, embeddings=X, target=Y),
    "npz category": lambda p: npz(p, features=X, category=Y),
    "npz upper case": lambda p: npz(p, FEATURES=X, Labels=Y),
    "npz upper-case suffix": lambda p: npz(p, features=X, labels=Y).rename(p / "DATA.NPZ"),
    "npz column of labels": lambda p: npz(p, features=X, labels=Y[:, None]),
    "npz bytes": lambda p: npz(p, features=X, labels=Y.astype("S")),
    "npz integers as features": lambda p: npz(p, features=X.astype(int), labels=Y),
    "npz booleans as features": lambda p: npz(p, features=X > 3, labels=Y),
    "npz float16": lambda p: npz(p, features=X.astype(np.float16), labels=Y),
    "npz big-endian": lambda p: npz(p, features=X.astype(">f4"), labels=Y),
    "npz one number a row": lambda p: npz(p, features=X[:, 0], labels=Y),
    "npz pickled array that is not needed": lambda p: pickled(
        p, features=X, labels=Y, notes=np.array([{}, None], object)
    ),
    "npy": lambda p: npy(p, features=X, labels=Y),
    "parquet": lambda p: parquet(p, features=X.tolist(), label=Y),
    "parquet upper-case suffix": lambda p: parquet(p, "D.PARQUET", features=X.tolist(), label=Y),
    "parquet fixed-size lists": lambda p: parquet(
        p, features=vectors(pa.list_(pa.float32(), 2)), label=Y
    ),
    "parquet large lists": lambda p: parquet(
        p, features=vectors(pa.large_list(pa.float64())), label=Y
    ),
    "parquet lists of integers": lambda p: parquet(
        p, features=vectors(pa.list_(pa.int16())), label=Y
    ),
    "parquet half floats": lambda p: parquet(p, features=vectors(pa.list_(pa.float16())), label=Y),
    "parquet decimals": lambda p: parquet(p, a=[Decimal("0.5")] * 4, b=X[:, 1], label=Y),
    "parquet integers and booleans": lambda p: parquet(
        p, age=[1, 2, 3, 4], ill=[True] * 4, label=Y
    ),
    "parquet categories": lambda p: parquet(
        p, features=X.tolist(), label=pa.array(Y.tolist()).dictionary_encode()
    ),
    "parquet large texts": lambda p: parquet(
        p, features=X.tolist(), label=pa.array(Y.tolist(), pa.large_string())
    ),
    "parquet bytes as labels": lambda p: parquet(
        p, features=X.tolist(), label=pa.array([b"a", b"b", b"a", b"b"])
    ),
    "feather": lambda p: (
        pa.feather.write_feather(pa.table({"features": X.tolist(), "label": Y}), p / "d.feather")
        or p / "d.feather"
    ),
    "csv": csv,
    "csv of Excel, which says its delimiter": lambda p: csv(p, "sep=;\n" + CSV.replace(",", ";")),
    "csv with a byte order mark": lambda p: csv(p, CSV.encode("utf-8-sig")),
    "csv in UTF-16": lambda p: csv(p, CSV.encode("utf-16")),
    "csv with semicolons": lambda p: csv(p, CSV.replace(",", ";")),
    "csv with decimal commas": lambda p: csv(p, "u;v;label\n0,5;1;a\n1,5;2;b\n2;3;a\n3;4,5;b\n"),
    "csv with tabs": lambda p: csv(p, CSV.replace(",", "\t"), "data.tsv"),
    "csv with carriage returns": lambda p: csv(p, CSV.replace("\n", "\r\n")),
    "csv with empty lines": lambda p: csv(p, "\n\n" + CSV + "\n\n"),
    "csv without a last line end": lambda p: csv(p, CSV.rstrip()),
    "csv with a delimiter at the end of lines": lambda p: csv(p, CSV.replace("\n", ",\n")),
    "csv with quotes": lambda p: csv(p, CSV.replace("a\n", '"a"\n')),
    "csv with pandas' index": lambda p: csv(p, frame(u=X[:, 0], v=X[:, 1], label=Y).to_csv()),
    "csv with columns of numbers": lambda p: csv(
        p, pandas.DataFrame(X).assign(label=Y).to_csv(index=False)
    ),
    "csv upper-case suffix": lambda p: csv(p, name="DATA.CSV"),
    "csv compressed": lambda p: csv(p, gzip.compress(CSV.encode()), "data.csv.gz"),
    "csv compressed otherwise": lambda p: csv(p, bz2.compress(CSV.encode()), "data.csv.bz2"),
    "csv with lists": lambda p: csv(
        p, 'embedding,label\n"[0, 1]",a\n"[2, 3]",b\n"[4, 5]",a\n"[6, 7]",b\n'
    ),
    "csv with NumPy's lists": lambda p: csv(
        p, "embedding,label\n[0. 1.],a\n[ 2.  3.],b\n[4. 5.],a\n[6. 7.],b\n"
    ),
    "csv with a thousand columns": lambda p: csv(
        p,
        pandas.DataFrame(np.ones((4, 3000))).add_prefix("f").assign(label=Y).to_csv(index=False),
    ),
    "safetensors": lambda p: (
        save_file({"features": X, "labels": np.array([0, 1, 0, 1])}, p / "d.safetensors")
        or p / "d.safetensors"
    ),
    "safetensors bfloat16": lambda p: tensors(
        p,
        {
            "features": {"dtype": "BF16", "shape": [4, 2], "data_offsets": [0, 16]},
            "labels": {"dtype": "I64", "shape": [4], "data_offsets": [16, 48]},
        },
        (X.view(np.uint32) >> 16).astype(np.uint16).tobytes() + np.array([0, 1, 0, 1]).tobytes(),
    ),
    "parts": lambda p: (
        [
            parquet(p, f"part-{i}.parquet", features=X[i : i + 2].tolist(), label=Y[i : i + 2])
            for i in (0, 2)
        ]
        and [(p / name).touch() for name in ("_SUCCESS", ".part-0.parquet.crc")]
        and p
    ),
    "parts with columns in another order": lambda p: (
        [
            parquet(p, "a.parquet", u=X[:2, 0], v=X[:2, 1], label=Y[:2]),
            parquet(p, "b.parquet", v=X[2:, 1], label=Y[2:], u=X[2:, 0]),
        ]
        and p
    ),
    "parts with other types": lambda p: (
        [
            parquet(p, "a.parquet", u=X[:2, 0], v=X[:2, 1], label=Y[:2]),
            parquet(p, "b.parquet", u=X[2:, 0].astype(int), v=X[2:, 1].astype(float), label=Y[2:]),
        ]
        and p
    ),
    "data frame": lambda p: frame(u=X[:, 0], v=X[:, 1], label=Y),
    "data frame of nullable types": lambda p: frame(u=X[:, 0], v=X[:, 1], label=Y).convert_dtypes(),
    "data frame backed by Arrow": lambda p: frame(u=X[:, 0], v=X[:, 1], label=Y).convert_dtypes(
        dtype_backend="pyarrow"
    ),
    "data frame with categories": lambda p: frame(
        u=X[:, 0], v=X[:, 1], label=pandas.Categorical(Y)
    ),
    "data frame with numbers as names": lambda p: pandas.DataFrame(X).assign(label=Y),
    "data frame whose index is the label": lambda p: frame(u=X[:, 0], v=X[:, 1], label=Y).set_index(
        "label"
    ),
    "data frame of a filtered index": lambda p: frame(
        u=[*X[:, 0], 9], v=[*X[:, 1], 9], label=[*Y, "c"]
    ).query("label != 'c'"),
    "data frame of vectors": lambda p: frame(features=list(X), label=Y),
    "table of Arrow": lambda p: pa.table({"features": X.tolist(), "label": Y}),
    "dict of arrays": lambda p: {"features": X, "labels": Y},
}


@pytest.mark.parametrize("make", READ.values(), ids=READ)
def test_a_source_of_four_rows_gives_them_all(make, tmp_path):
    own = read(make(tmp_path))
    assert len(own) == len(own.data) == len(own.labels) == len(own.places) == 4
    classes = {"a": 0, "b": 1}
    assert [classes.get(label, label) for label in own.labels.tolist()] == [0, 1, 0, 1]
    assert own.data.dtype.kind == "f"
    assert own.data.dtype.isnative


def test_decimal_commas_are_points(tmp_path):
    own = read(csv(tmp_path, "u;v;label\n0,5;1;a\n1,5;2;b\n"))
    assert own.data.tolist() == [[0.5, 1], [1.5, 2]]


def test_parts_are_aligned_by_the_names_of_their_columns(tmp_path):
    own = read(READ["parts with columns in another order"](tmp_path))
    np.testing.assert_array_equal(own.data, X)


def test_bfloat16_is_the_upper_half_of_a_float32(tmp_path):
    np.testing.assert_array_equal(read(READ["safetensors bfloat16"](tmp_path)).data, X)


def with_clients(clients):
    return lambda p: npz(p, features=X, labels=Y, clients=clients)


def columns(**other):
    return lambda p: parquet(p, **{"features": X.tolist(), "label": Y, **other})


REFUSED = {
    # what is refused: how the source is made, and what the message says
    "client empty": (with_clients(["n", "", "n", "s"]), "'clients': row 1 has no client"),
    "client white space": (with_clients(["n", " ", "n", "s"]), "row 1 has no client"),
    "client 'None'": (with_clients(["n", "None", "n", "s"]), "row 1 has no client.*'None'"),
    "client 'nan'": (with_clients(["n", "nan", "n", "nan"]), "rows 1, 3 have no client"),
    "client NaN": (with_clients([1, np.nan, 1, 2]), "row 1 has no client"),
    "client null": (columns(client=["n", None, "n", "s"]), "'client': row 1 has no client"),
    "client number null": (columns(client=[1, None, 1, 2]), "'client': row 1 has no client"),
    "client NA": (
        lambda p: frame(u=X[:, 0], v=X[:, 1], label=Y, client=pandas.array([1, None, 2, 2])),
        "row 1 has no client",
    ),
    "client fractional": (with_clients([0.5, 1, 1, 2]), "row 0 is 0.5"),
    "clients too few": (with_clients(["n", "n", "s"]), "4 rows .* 'clients' has 3 entries"),
    "clients too many": (with_clients(list("nnsss")), "4 rows .* 'clients' has 5 entries"),
    "clients 2-d": (with_clients([["n", "s"]] * 4), "clients must be 1-d"),
    "clients twice": (columns(client=Y, clients=Y), "'client', 'clients' could all be the clients"),
    "clients dates": (
        with_clients(np.array(["2020-01-01"] * 4, "datetime64[D]")),
        "datetime64.*as texts",
    ),
    "labels missing": (lambda p: npz(p, features=X), "has no labels; it has 'features'.*--label"),
    "labels too few": (lambda p: npz(p, features=X, labels=Y[:3]), "'labels' has 3 entries"),
    "labels fractional": (lambda p: npz(p, features=X, labels=[0, 0.5, 1, 1]), "row 1 is 0.5"),
    "labels NaN": (lambda p: npz(p, features=X, labels=[0, np.nan, 1, 1]), "row 1 has no label"),
    "labels null": (columns(label=["a", None, "a", "b"]), "'label': row 1 has no label"),
    "labels empty": (columns(label=["a", "", "a", "b"]), "'label': row 1 has no label"),
    "labels numbers null": (columns(label=[1, None, 1, 2]), "'label': row 1 has no label"),
    "labels uint64": (
        lambda p: npz(p, features=X, labels=np.array([2**63, 1, 2, 3], np.uint64)),
        "9223372036854775808 of row 0 is too large",
    ),
    "labels pickled": (
        lambda p: pickled(p, features=X, labels=np.array(["a", None] * 2, object)),
        "'labels' holds pickled objects, which are not loaded",
    ),
    "labels dates": (
        columns(label=pa.array([0] * 4, pa.date32())),
        "'label'.*labels must be|row 0",
    ),
    "labels of two columns": (columns(target=["x", "y", "y", "x"]), "'label' and 'target' could"),
    "labels not one-hot": (
        lambda p: npz(p, features=X, labels=[[1, 0], [1, 1], [0, 1], [1, 0]]),
        "row 1 is not one-hot",
    ),
    "labels bytes of no text": (
        columns(label=pa.array([b"a", b"\xff", b"a", b"b"])),
        "row 1 is bytes that are no text",
    ),
    "features missing": (lambda p: npz(p, labels=Y), "no features and no images"),
    "features NaN": (
        lambda p: npz(p, features=np.where(X == 3, np.nan, X), labels=Y),
        "'features', position 1, row 1 is missing or NaN.*1 of 4 rows",
    ),
    "features infinite": (
        lambda p: npz(p, features=np.where(X == 3, -np.inf, X), labels=Y),
        "row 1 is -inf",
    ),
    "features null in a column": (
        lambda p: parquet(p, u=[0.0, None, 1, 2], v=X[:, 1], label=Y),
        "column 'u', row 1 is missing or NaN",
    ),
    "features null in an integer column": (
        lambda p: parquet(p, u=[0, None, 1, 2], v=X[:, 1], label=Y),
        "column 'u', row 1 is missing or NaN",
    ),
    "features of two lengths": (
        columns(features=[[0.0, 1.0], [2.0], [4.0, 5.0], [6.0, 7.0]]),
        "'features', row 1 has 1 numbers, row 0 has 2",
    ),
    "features row null": (columns(features=[[0.0], None, [1.0], [2.0]]), "row 1 is empty"),
    "features number null": (columns(features=[[0.0], [None], [1.0], [2.0]]), "row 1 is missing"),
    "features nested": (columns(features=[[[0.0]], [[1.0]], [[2.0]], [[3.0]]]), "lists of lists"),
    "features empty lists": (columns(features=pa.array([[]] * 4, pa.list_(pa.float32()))), "shape"),
    "features of no columns": (lambda p: npz(p, features=X[:, :0], labels=Y), r"shape \(4, 0\)"),
    "features twice": (columns(embedding=X.tolist()), "'features', 'embedding' could all be"),
    "features complex": (lambda p: npz(p, features=X * 1j, labels=Y), "complex128|complex64"),
    "features pickled": (
        lambda p: pickled(p, features=np.array([[1], [1, 2], 3, 4], object), labels=Y),
        "'features' holds pickled objects|no features",
    ),
    "no rows": (lambda p: npz(p, features=X[:0], labels=Y[:0]), "no rows"),
    "no rows in parquet": (
        lambda p: parquet(p, u=pa.array([], pa.float32()), label=pa.array([], pa.string())),
        "no rows",
    ),
    "csv empty": (lambda p: csv(p, ""), "is empty; expected a line with the names"),
    "csv header alone": (lambda p: csv(p, "x,y2,label\n"), "no rows|no features"),
    "csv header missing": (
        lambda p: csv(p, "0.1,0.2,a\n0.3,0.4,b\n"),
        "no labels.*names of the columns missing",
    ),
    "csv name twice": (lambda p: csv(p, "x,x,label\n1,2,a\n"), "several columns of one name: 'x'"),
    "csv name missing": (lambda p: csv(p, "x,,label\n1,2,a\n"), "column 1 has no name"),
    "csv row too long": (lambda p: csv(p, CSV + "8,9,a,c\n"), "row 4 has 4 fields.*has 3"),
    "csv row too short": (lambda p: csv(p, CSV + "8,9\n"), "row 4 has 2 fields.*has 3"),
    "csv word among numbers": (
        lambda p: csv(p, CSV.replace("2,3,b", "2,unknown,b")),
        "'y2'.*row 1 is 'unknown'",
    ),
    "csv value missing": (
        lambda p: csv(p, CSV.replace("2,3,b", "2,,b")),
        "'y2', row 1 is missing or NaN",
    ),
    "csv label missing": (lambda p: csv(p, CSV.replace("2,3,b", "2,3,")), "row 1 has no label"),
    "csv quote not closed": (lambda p: csv(p, 'x,label\n1,"a\n2,b\n'), "line 2 a quote is opened"),
    "csv quotes not closed": (
        lambda p: csv(p, 'x,label\n1,"a\n2,"b\n3,c\n'),
        "line 2 a quote is opened",
    ),
    "csv of numbers with thousands": (
        lambda p: csv(p, "x;label\n1.234,5;a\n1.000,0;b\n"),
        "'x', row 0 is '1.234,5'|no features",
    ),
    "npz ward too short": (
        lambda p: npz(p, features=X, labels=Y, ward=["n", "s"]),
        "'ward' has 2 entries",
    ),
    "data frame with a name twice": (
        lambda p: pandas.DataFrame(X, columns=["u", "u"]).assign(label=Y),
        "several columns of one name: 'u'",
    ),
    "data frame with intervals as labels": (
        lambda p: frame(u=X[:, 0], label=pandas.cut(X[:, 0], 2)),
        "'label' holds .*interval",
    ),
    "dict of mixed labels": (
        lambda p: {"features": X, "labels": ["a", 1, "a", "b"]},
        "row 1 is 1, a int",
    ),
    "dict of vectors of two lengths": (
        lambda p: {"features": [[1, 2], [3], [4, 5], [6, 7]], "labels": Y},
        "'features'",
    ),
    "csv zero bytes": (lambda p: csv(p, b"x\0y"), "is no text"),
    "csv that is a workbook": (lambda p: csv(p, b"PK\3\4\0\0"), "is no text"),
    "csv not compressed": (lambda p: csv(p, CSV, "data.csv.gz"), "cannot be read"),
    "csv compressed and cut": (
        lambda p: cut(csv(p, gzip.compress(CSV.encode()), "data.csv.gz"), 8),
        "cannot be read",
    ),
    "npz cut": (lambda p: cut(npz(p, features=X, labels=Y)), "cannot be read"),
    "npz that is none": (lambda p: csv(p, "x", "data.npz"), "cannot be read"),
    "npz empty": (lambda p: csv(p, "", "data.npz"), "cannot be read"),
    "npy cut": (
        lambda p: cut(npy(p, features=X, labels=Y) / "labels.npy", 3).parent,
        "labels.npy cannot",
    ),
    "npy without labels": (lambda p: npy(p, features=X), "has no labels"),
    "npy without features": (lambda p: npy(p, labels=Y), "no features"),
    "parquet cut": (lambda p: cut(parquet(p, features=X.tolist(), label=Y)), "cannot be read"),
    "parquet empty": (lambda p: csv(p, "", "data.parquet"), "cannot be read"),
    "arrow that is none": (lambda p: csv(p, "text", "data.arrow"), "cannot be read"),
    "safetensors cut": (lambda p: cut(READ["safetensors"](p)), "cannot be read"),
    "safetensors float8": (
        lambda p: tensors(
            p, {"features": {"dtype": "F8_E4M3", "shape": [1, 1], "data_offsets": [0, 1]}}, b"1"
        ),
        "no labels|F8",
    ),
    "parts without a column": (
        lambda p: (
            [
                parquet(p, "a.parquet", u=X[:, 0], v=X[:, 1], label=Y),
                parquet(p, "b.parquet", u=X[:, 0], w=X[:, 1], label=Y),
            ]
            and p
        ),
        "b.parquet has other features than .*a.parquet: it lacks 'v' and only it has 'w'",
    ),
    "parts of two lengths": (
        lambda p: (
            [
                parquet(p, "a.parquet", features=X.tolist(), label=Y),
                parquet(p, "b.parquet", features=X[:, :1].tolist(), label=Y),
            ]
            and p
        ),
        "b.parquet has features of length 1, but .*a.parquet of 2",
    ),
    "parts with labels of two types": (
        lambda p: (
            [
                parquet(p, "a.parquet", features=X.tolist(), label=Y),
                parquet(p, "b.parquet", features=X.tolist(), label=[0, 1, 2, 3]),
            ]
            and p
        ),
        "b.parquet are integers, such as 0, but texts in .*a.parquet",
    ),
    "parts of which one has clients": (
        lambda p: (
            [
                parquet(p, "a.parquet", features=X.tolist(), label=Y, client=Y),
                parquet(p, "b.parquet", features=X.tolist(), label=Y),
            ]
            and p
        ),
        "b.parquet has no clients, but .*a.parquet has",
    ),
    "parts in folders that hold a column": (
        lambda p: (p / "client=n").mkdir() or (parquet(p / "client=n", u=X[:, 0], label=Y) and p),
        "client=n is a folder that holds a column's value in its name",
    ),
    "tables of two kinds": (
        lambda p: parquet(p, features=X.tolist(), label=Y) and csv(p) and p,
        "tables of several kinds: 1 .csv, 1 .parquet",
    ),
    "a file of another kind": (lambda p: csv(p, "", "data.xlsx"), "of no kind that is read"),
    "data frame of mixed types": (
        lambda p: frame(u=[1.0, "x", 2.0, 3.0], v=X[:, 0], label=Y),
        "data frame.*'?u'?",
    ),
    "data frame of mixed labels": (lambda p: frame(u=X[:, 0], label=[1, "a", 1, "a"]), "label"),
    "thousands in German": (
        lambda p: csv(p, "label;u;v\na;1.234,5;1,5\nb;3,0;4,5\n"),
        "'u' holds numbers.*rows 0, 1 are '1.234,5'",
    ),
    "numbers with a point beside some with a comma": (
        lambda p: csv(p, "label;tags;u\na;1,2;1.5\nb;3,4;2.5\n"),
        "column 'u' has numbers with a point, such as '1.5'",
    ),
    "thousands, all of them": (
        lambda p: csv(p, 'u,v,label\n"1,234.5",1,a\n"3,000.0",2,b\n'),
        "'u' holds numbers.*rows 0, 1",
    ),
    "percent": (lambda p: csv(p, "u,v,label\n12%,1,a\n13 %,2,b\n"), "'u' holds numbers.*rows 0, 1"),
    "blanks for what is missing": (
        lambda p: csv(p, "u,v,label\n , 1,a\n ,2,b\n3.0,2,b\n"),
        "'u' holds numbers.*rows 0, 1",
    ),
    "a second line of names": (
        lambda p: csv(p, "u,label\n1,a\nu,label\n2,b\n"),
        "row 1 is 'u' .is the line.*twice",
    ),
    "comments before the names": (
        lambda p: csv(p, "# by us\nu,label\n1,a\n"),
        "take out the lines before the names",
    ),
    "names of rows without a name": (
        lambda p: csv(p, '"u","label"\n"1",2,"a"\n'),
        "name the first column too",
    ),
    "labels that R calls missing": (
        lambda p: csv(p, "u,label\n1,NA\n2,b\n"),
        "row 0 has no label .it reads 'NA'",
    ),
    "another encoding": (
        lambda p: csv(p, "u,label\n1,良性\n".encode("shift_jis")),
        "neither in UTF-8 nor",
    ),
    "integers that no float is": (
        lambda p: parquet(p, u=[2**53, 2**53 + 1], label=["a", "b"]),
        "'u', row 1 is 9007199254740993",
    ),
    "integers in vectors that no float is": (
        lambda p: npz(p, features=[[1, 2], [3, 2**60 + 1]], labels=["a", "b"]),
        "row 1 is 115292150",
    ),
    "pickled features": (
        lambda p: pickled(p, features=X.astype(object), labels=Y),
        "'features' holds pickled",
    ),
    "matrices side by side": (
        lambda p: parquet(p, u=X[:, 0], w=X[:, 1], label=Y) and {"a": X, "b": X, "label": Y},
        "'a', 'b' could all be the features",
    ),
    "masked features": (
        lambda p: {"features": np.ma.masked_array(X, mask=X > 6), "labels": Y},
        "row 3 is missing",
    ),
    "masked labels": (
        lambda p: {"features": X, "labels": np.ma.masked_array([0, 1, 1, 1], mask=[0, 0, 1, 0])},
        "row 2 has no label",
    ),
    "labels that are periods": (
        lambda p: frame(u=X[:, 0], label=pandas.period_range("2020", periods=4, freq="Y")),
        "holds extension.*not read",
    ),
    "Feather of the first version": (
        lambda p: (p / "a.feather").write_bytes(b"FEA1" + bytes(64)) and p / "a.feather",
        "Feather's version 1",
    ),
    "parts of other names": (
        lambda p: (
            parquet(p, "a.parquet", u=X[:, 0], label=Y)
            and parquet(p, "b.parquet", v=X[:, 0], label=Y)
            and p
        ),
        "it lacks 'u' and only it has 'v'",
    ),
    "several data sets": (lambda p: {"train": object()}, "several data sets"),
    "a list": (lambda p: [1, 2], "is no source of data"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_a_source_that_cannot_be_read_says_what_and_where(make, message, tmp_path):
    source = make(tmp_path)
    with pytest.raises(FedCOFError, match=f"(?s){message}") as caught:
        read(source)
    assert isinstance(caught.value, OwnDataError)
    if hasattr(source, "name"):
        assert str(tmp_path) in str(caught.value)


WARNED = {
    "near twins": (
        lambda p: npz(p, features=X, labels=["benign", "BENIGN", "Benign", "b"]),
        "'BENIGN', 'Benign', 'benign' in column 'labels' are taken as 3",
        4,
    ),
    "white space around labels": (
        lambda p: csv(p, CSV.replace(",a", ", a")),
        "' a' in column 'label' begins or ends with white space",
        2,
    ),
    "near twins of clients": (with_clients(["North", "north", "s", "s"]), "'North', 'north'", 2),
    "near twins by a letter that is not seen": (
        lambda p: npz(p, features=X, labels=["a", "a\u200b", "a", "a"]),
        "are taken as 2",
        2,
    ),
    "near twins in two files": (
        lambda p: (
            csv(p, "u,label\n1,a\n2,b\n", "1.csv") and csv(p, "u,label\n1,A\n2,b\n", "2.csv") and p
        ),
        "labels 'A', 'a' of different files",
        3,
    ),
    "folders that may be clients": (
        lambda p: (
            [(p / name).mkdir() for name in "ns"]
            and [csv(p / name, "u,label\n1,a\n2,b\n") for name in "ns"]
            and p
        ),
        "lie in 2 folders .'n', 's'.*write a column client",
        2,
    ),
    "a label that may stand for none": (
        lambda p: csv(p, CSV.replace(",a", ",None")),
        "'None' is taken as the name of a class",
        2,
    ),
    "labels that are measured": (
        lambda p: csv(p, CSV.replace(",a", ",0.5").replace(",b", ",1.5")),
        "no measurement",
        2,
    ),
    "a stream without its end": (
        lambda p: (p / "a.arrow").write_bytes(stream()[:-8]) and p / "a.arrow",
        "may be cut short",
        2,
    ),
    "western letters": (
        lambda p: csv(p, CSV.replace(",a", ",Bösartig").encode("latin-1")),
        "not in UTF-8",
        2,
    ),
    "columns that are not used": (
        lambda p: csv(
            p, CSV.replace("label", "ward,label").replace(",a", ",1,a").replace(",b", ",2,b")
        ),
        "not used as features: 'ward'.*--client",
        2,
    ),
}


@pytest.mark.parametrize(("make", "message", "classes"), WARNED.values(), ids=WARNED)
def test_what_may_not_be_meant_is_said(make, message, classes, tmp_path):
    with pytest.warns(OwnDataWarning, match=message):
        own = read(make(tmp_path))
    assert len(own) == 4
    assert len(set(own.labels.tolist())) == classes


def test_two_forms_of_a_word_in_unicode_are_one_class_and_one_client(tmp_path):
    names = ["café", "cafe\u0301", "b", "b"]
    own = read(npz(tmp_path, features=X, labels=names, clients=names))
    assert own.labels.tolist() == own.clients.tolist() == ["café", "café", "b", "b"]


@pytest.mark.parametrize("column", ["ward", "site", "hospital", "Client name", "user"])
def test_a_column_that_could_be_the_clients_is_not_passed_over_in_silence(column, tmp_path):
    source = parquet(tmp_path, features=X.tolist(), label=Y, **{column: ["n", "n", "s", "s"]})
    with pytest.warns(OwnDataWarning, match=f"{column!r}.*--client"):
        assert list(read(source).by_client("one")) == ["one"]
    clients = read(source, Reading(client=column)).by_client("one")
    assert {name: len(labels) for name, (_, labels) in clients.items()} == {"n": 2, "s": 2}


@pytest.mark.parametrize("option", ["features", "label", "client"])
def test_a_column_that_is_not_there_is_named_with_near_ones(option, tmp_path):
    source = parquet(tmp_path, features=X.tolist(), label=Y, clients=Y)
    with pytest.raises(OwnDataError, match=rf"no column 'labell' \(--{option}\); did you mean"):
        read(source, Reading(**{option: "labell"}))


def test_leading_zeros_of_labels_and_clients_are_kept(tmp_path):
    own = read(csv(tmp_path, "x,label,client\n1,007,01\n2,7,1\n"))
    assert own.labels.tolist() == ["007", "7"]
    assert own.clients.tolist() == ["01", "1"]


def test_integers_in_csv_are_integers(tmp_path):
    assert read(csv(tmp_path, "x,label\n1,0\n2,10\n")).labels.tolist() == [0, 10]
    assert read(csv(tmp_path, "x,label\n1,0.0\n2,1.0\n")).labels.tolist() == [0, 1]


def test_large_integers_are_not_rounded(tmp_path):
    large = [2**53, 2**53 + 1, 2**53, 2**62 + 1]
    assert read(npz(tmp_path, features=X, labels=large)).labels.tolist() == large
    assert read(parquet(tmp_path, features=X.tolist(), label=large)).labels.tolist() == large
    assert read(csv(tmp_path, f"x,label\n1,{2**53 + 1}\n")).labels.tolist() == [2**53 + 1]


def test_one_hot_rows_are_labels(tmp_path):
    assert read(npz(tmp_path, X=X, y=np.eye(2)[[0, 1, 1, 0]])).labels.tolist() == [0, 1, 1, 0]


def test_whole_clients_as_floats_are_integers(tmp_path):
    own = read(npz(tmp_path, features=X, labels=Y, clients=[1.0, 2.0, 1.0, 2.0]))
    assert own.clients.tolist() == ["1", "2", "1", "2"]


def test_quoted_lines_and_delimiters_are_part_of_a_text(tmp_path):
    source = csv(tmp_path, 'x,label,note\n1,a,"one, two\nthree"\n2,b,four\n')
    assert len(read(source, Reading(features="x"))) == 2


def test_features_may_be_named_by_a_pattern_or_one_by_one(tmp_path):
    source = parquet(tmp_path, pc1=X[:, 0], pc2=X[:, 1], other=X[:, 0], label=Y)
    for features in ("pc*", "pc1, pc2"):
        np.testing.assert_array_equal(read(source, Reading(features=features)).data, X)


def test_an_index_in_pandas_metadata_is_no_feature(tmp_path):
    for index in (None, "patient"):
        table = frame(u=X[:, 0], v=X[:, 1], label=Y)
        table.index = pandas.Index([5, 6, 7, 8], name=index)
        table.to_parquet(tmp_path / "d.parquet")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OwnDataWarning)
            assert read(tmp_path / "d.parquet").feature_names == ("u", "v")


def test_what_is_no_table_beside_tables_is_counted(tmp_path):
    parquet(tmp_path, features=X.tolist(), label=Y)
    (tmp_path / "README.txt").write_text("notes")
    own = read(tmp_path)
    assert len(own) == 4
    assert own.left_out.count == 1
    assert "README.txt" in own.left_out.lines()[0]


def test_tables_to_test_on_are_counted_as_held_out(tmp_path):
    for name in ("train", "test"):
        parquet(tmp_path, f"{name}.parquet", features=X.tolist(), label=Y)
    own = read(tmp_path)
    assert len(own) == 4
    assert "not of the part to train on" in own.left_out.lines()[0]


def test_without_labels_where_none_are_needed(tmp_path):
    assert read(npz(tmp_path, features=X), labelled=False).labels is None


@pytest.mark.parametrize("names", [("train", "test"), ("my_train", "my-test-0"), ("train", "val")])
@pytest.mark.parametrize("in_folders", [True, False])
def test_tables_are_of_a_part_by_their_names_or_their_folders(names, in_folders, tmp_path):
    for value, name in enumerate(names):
        folder = tmp_path / name if in_folders else tmp_path
        folder.mkdir(exist_ok=True)
        csv(folder, f"u,label\n{value},a\n", "part-0.csv" if in_folders else f"{name}.csv")
    for value, part in enumerate(("train", "test")):
        assert read(tmp_path, part=part).data.tolist() == [[value]]


def test_what_lies_beside_tables_is_read_once_or_said(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    csv(site, "u,label\n1,a\n", "a.csv")
    csv(site, "u,label\n", "empty.csv")
    csv(site, "u,label\n1,a\n", "_old.csv")
    csv(site, b"\0", "~$a.csv")
    (site / "_SUCCESS").touch()
    (site / "again.csv").symlink_to(site / "a.csv")
    (site / "nowhere.csv").symlink_to(site / "b.csv")
    (site / "circle").symlink_to(site)
    other = tmp_path / "other"
    other.mkdir()
    csv(other, "u,label\n2,b\n", "c.csv")
    (site / "linked").symlink_to(other)
    with pytest.warns(OwnDataWarning, match="folders .'linked', 'site'"):
        own = read(site)
    assert own.labels.tolist() == ["a", "b"]
    left = {why: len(places) for why, places in own.left_out.places.items()}
    assert left == {
        "a table without rows": 1,
        "a name that begins with _": 1,
        "a folder that is read under another name": 1,
        "a file that is read under another name": 1,
        "a link that leads nowhere": 1,
    }
    assert list(own.left_out.passed_over) == ["hidden, or put there by a program"]


def test_columns_behind_the_last_name_are_empty_and_no_features(tmp_path):
    own = read(csv(tmp_path, "u,label,,,\n1,a,,,\n2,b,,,\n"))
    assert own.data.tolist() == [[1], [2]]
    with pytest.raises(OwnDataError, match="column 3 has no name"):
        read(csv(tmp_path, "u,label,,\n1,a,,3\n2,b,,\n"))


def test_a_delimiter_in_a_quoted_name_is_none(tmp_path):
    own = read(csv(tmp_path, '"u, mm";"v, mm";label\n1.5;2;a\n2;3;b\n'))
    assert own.feature_names == ("u, mm", "v, mm")


def test_a_decimal_comma_far_down_is_one(tmp_path):
    own = read(csv(tmp_path, "label;u\n" + "a;1\n" * 300 + "b;3,5\n"))
    assert own.data[-1].tolist() == [3.5]


@pytest.mark.parametrize("name", ["PatientID", "level_0", "Unnamed: 0.1", "caseId"])
def test_numbers_that_say_which_are_no_features(name, tmp_path):
    source = parquet(tmp_path, u=[1.0, 2.0], label=["a", "b"], **{name: [7, 8]})
    with pytest.warns(OwnDataWarning, match=name):
        assert read(source).data.tolist() == [[1], [2]]


def test_a_named_level_of_an_index_is_a_column_whatever_the_others(tmp_path):
    index = pandas.MultiIndex.from_tuples([("n", 1), ("s", 2)], names=["client", None])
    own = read(frame(u=[1.0, 2.0], label=["a", "b"]).set_index(index))
    assert own.clients.tolist() == ["n", "s"]
    assert own.data.tolist() == [[1], [2]]


def test_clients_that_are_numbered_have_their_names(tmp_path):
    datasets = pytest.importorskip("datasets")
    kinds = datasets.Features(
        {
            "u": datasets.Value("float64"),
            "label": datasets.ClassLabel(names=["café", "cafe\u0301"]),
            "client": datasets.ClassLabel(names=["north", "south"]),
        }
    )
    columns = {"u": [1.0, 2.0], "label": [0, 1], "client": [1, 0]}
    own = read(datasets.Dataset.from_dict(columns, features=kinds))
    assert own.clients.tolist() == ["south", "north"]
    assert own.labels.tolist() == ["café", "café"]
    assert own.classes == ("café",)
    with pytest.raises(OwnDataError, match="IterableDataset is no source"):
        read(datasets.Dataset.from_dict(columns, features=kinds).to_iterable_dataset())


def test_a_pattern_does_not_take_the_label_or_the_client(tmp_path):
    source = csv(tmp_path, "label,u,v,client\na,1,2,n\nb,3,4,s\n")
    assert read(source, Reading(features="*")).feature_names == ("u", "v")


def test_a_window_of_pixels_is_not_passed_over_where_there_are_none(tmp_path):
    with pytest.raises(OwnDataError, match="features, no pixels: take out --window"):
        read(npz(tmp_path, features=X, labels=Y), Reading(window="0:1"))


def test_a_path_that_leads_nowhere_is_said_and_an_empty_one_is_no_folder(tmp_path):
    own = read(parquet(tmp_path, image_path=["", "no.png"], label=["a", "b"]))
    assert own.data[0] == b""
    with pytest.raises(UnreadableImageError, match="there is no such file"):
        read_image(own.data[1])


def test_a_date_with_points_is_no_number_in_a_file_with_decimal_commas(tmp_path):
    source = csv(tmp_path, "label;visit;u\na;01.02.2020;1,5\nb;02.03.2021;2,5\n")
    with pytest.warns(OwnDataWarning, match="not used as features: 'visit'"):
        assert read(source).data.tolist() == [[1.5], [2.5]]
