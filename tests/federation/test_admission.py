"""A hostile or broken client is told from a good one, whatever its bytes are."""

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from fedcof.errors import SummaryError
from fedcof.federation.admission import Admission
from fedcof.methods import CCVR, FedCOF, FedNCM
from fedcof.summaries import ClassMeans, merge
from fedcof.transforms import parse
from fedcof.wire import decode, encode


def class_means(client_id="a", classes=(0, 1), counts=(3, 4), dim=2):
    means = np.arange(len(classes) * dim, dtype=np.float64).reshape(-1, dim)
    return ClassMeans(
        client_ids=(client_id,), classes=np.array(classes), counts=np.array(counts), means=means
    )


GOOD = class_means().to_bytes()


def forge(**changes):
    """The good summary with other arrays or metadata, as only a hostile client sends it."""
    arrays, metadata = decode(GOOD)
    for name, value in changes.items():
        if isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            metadata[name] = value
    return encode(arrays, metadata)


def refusal(data, admission=None):
    with pytest.raises(SummaryError) as caught:
        (admission or Admission(FedCOF())).admit("a", data)
    assert caught.value.client_id == "a"
    return caught.value.code


def test_good_summary_is_let_in():
    summary = Admission(FedCOF(), classes=(0, 1, 2)).admit("a", GOOD)
    assert summary.to_bytes() == GOOD


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "corrupt"),
        (GOOD[:-1], "corrupt"),
        (GOOD + b"0", "corrupt"),
        (forge(means=np.array([[1, np.nan], [0, 0]], np.float32)), "non-finite"),
        (forge(means=np.array([[1, np.inf], [0, 0]], np.float32)), "non-finite"),
        (forge(means=np.zeros((3, 2), np.float32)), "shape"),
        (forge(means=np.zeros((2, 0), np.float32)), "shape"),
        (forge(means=np.zeros(4, np.float32)), "shape"),
        (forge(means=np.zeros((2, 2), np.float64)), "dtype"),
        (forge(means=np.zeros((2, 2), np.int32)), "dtype"),
        (forge(counts=np.array([3, 0])), "counts"),
        (forge(counts=np.array([3, -4])), "counts"),
        (forge(counts=np.array([3, 2**62])), "counts"),
        (forge(counts=np.array([0.5, 1.0])), "counts"),
        (forge(counts=np.array([3])), "shape"),
        (forge(classes=np.array([0.0, 1.0])), "labels"),
        (forge(classes=np.array([1, 1])), "rows"),
        (forge(more=np.array([1])), "corrupt"),
        (forge(schema=0), "schema"),
        (forge(schema=2), "schema"),
        (forge(kind="pickle"), "kind"),
        (forge(kind="gram"), "corrupt"),
        (forge(client_ids=["b"]), "client-ids"),
        (forge(client_ids=[]), "client-ids"),
        (forge(client_ids=3), "corrupt"),
        (merge([class_means("a"), class_means("b")]).to_bytes(), "client-ids"),
        (CCVR().summarize(np.eye(3), [0, 1, 1], client_id="a").to_bytes(), "kind"),
    ],
)
def test_bad_summary_is_refused_with_its_fault(data, code):
    assert refusal(data) == code


def test_foreign_class_is_refused():
    assert refusal(GOOD, Admission(FedCOF(), classes=(0, 2))) == "classes"
    assert refusal(GOOD, Admission(FedCOF(), classes=("cat", "dog"))) == "classes"


def test_several_rows_for_a_class_only_where_the_method_sends_them():
    two = class_means(classes=(0, 0), counts=(2, 2)).to_bytes()
    assert Admission(FedCOF(means_per_class=2)).admit("a", two).counts.tolist() == [2, 2]
    assert refusal(two, Admission(FedNCM())) == "rows"


def test_more_samples_than_were_announced_are_refused():
    admission = Admission(FedCOF())
    assert admission.admit("a", GOOD, announced=7).total == 7
    with pytest.raises(SummaryError, match="claims 7 samples, and its SuperNode announced 6") as e:
        admission.admit("a", GOOD, announced=6)
    assert e.value.code == "samples"


def test_more_samples_than_a_client_may_claim_are_refused():
    assert Admission(FedCOF(), max_samples=7).admit("a", GOOD).total == 7
    assert refusal(GOOD, Admission(FedCOF(), max_samples=6)) == "samples"


def test_name_of_a_class_cannot_eat_the_memory():
    # NumPy gives every string of an array the length of the longest.
    arrays, metadata = decode(GOOD)
    del arrays["classes"]
    data = encode(arrays, metadata | {"classes": ["x" * 1000, "y"]})
    assert refusal(data) == "corrupt"


def test_deeply_nested_metadata_is_refused():
    assert refusal(safetensors.numpy.save(decode(GOOD)[0], {"fedcof": "[" * 100_000})) == "corrupt"


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_whole(data):
    assert refusal(data)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_an_altered_byte_breaks_nothing(position, value):
    data = bytearray(GOOD)
    data[position] = value
    try:
        summary = Admission(FedCOF()).admit("a", bytes(data))
    except SummaryError:
        return
    assert summary.client_ids == ("a",)
    assert np.isfinite(summary.means).all()
    assert summary.counts.min() >= 1


@pytest.mark.parametrize(
    ("asked", "came", "fits"),
    [
        ("none", "none", True),
        ("power:0.5", "power:0.5", True),
        ("power:0.5", "none", False),
        ("none", "power:0.5", False),
        ("random-features:2", "random-features:2:0:relu:9", True),
        ("random-features:2", "random-features:2:1:relu:9", False),
        ("random-features:2", "random-features:2:0:relu", False),
        ("random-features:2", "random-features:3:0:relu:9", False),
        ("none", "rot13", False),
    ],
)
def test_features_must_be_transformed_as_asked(asked, came, fits):
    admission = Admission(FedCOF(), transform=parse(asked))
    data = class_means().with_origin({"transform": came}).to_bytes()
    if fits:
        assert admission.admit("a", data).origin == {"transform": came}
    else:
        assert refusal(data, admission) == "transform"
