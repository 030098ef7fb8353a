import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors import numpy as safetensors

import fedcof
from fedcof import METHODS, SummaryError, from_bytes, summarize
from fedcof.summaries import load
from fedcof.wire import encode

METADATA = {"kind": "class-means", "schema": 1, "client_ids": ["a"]}
ARRAYS = {
    "classes": np.array([0, 1]),
    "counts": np.array([1, 2]),
    "means": np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32),
}


def arrays_of(summary):
    return {name: getattr(summary, name) for name in ("classes", "counts", *summary.axes)}


@pytest.fixture(scope="module", params=sorted(METHODS))
def summary(request):
    features = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    labels = ["b", "a", "c"] * 3
    return METHODS[request.param]().summarize(features, labels, client_id="ward-7", rng=0)


class TestRoundTrip:
    def test_float32_content_comes_back_to_the_last_bit(self, summary):
        once = from_bytes(summary.to_bytes())
        twice = from_bytes(once.to_bytes())
        assert type(once) is type(twice) is type(summary)
        assert twice.client_ids == once.client_ids == ("ward-7",)
        for name, array in arrays_of(once).items():
            assert array.tobytes() == getattr(twice, name).tobytes()
            assert array.dtype == getattr(twice, name).dtype

    def test_float64_content_is_rounded_to_float32(self, summary):
        received = from_bytes(summary.to_bytes())
        for name in summary.axes:
            assert getattr(received, name).dtype == np.float32
            np.testing.assert_array_equal(
                getattr(received, name), getattr(summary, name).astype(np.float32)
            )

    def test_one_summary_is_one_string_of_bytes(self, summary):
        assert len({summary.to_bytes() for _ in range(5)}) == 1

    def test_a_merged_summary_keeps_its_clients(self, summary):
        parts = [
            type(summary)(client_ids=(name,), **arrays_of(summary)) for name in ("b", "Ärztin", "a")
        ]
        merged = fedcof.merge(parts)
        received = from_bytes(merged.to_bytes())
        assert received.client_ids == merged.client_ids == ("a", "b", "Ärztin")
        np.testing.assert_array_equal(received.rows_per_client, merged.rows_per_client)
        assert received.formula_bytes == 3 * summary.formula_bytes

    @pytest.mark.parametrize(
        "labels", [[5, -3, 5], [2**62, 0, 1], ["é", " a", "犬"], [True, False, True]]
    )
    def test_labels_come_back_as_they_were(self, labels):
        summary = summarize(np.eye(3), labels)
        assert from_bytes(summary.to_bytes()).classes.tolist() == summary.classes.tolist()

    def test_what_arrives_is_frozen(self, summary):
        received = from_bytes(summary.to_bytes())
        for array in arrays_of(received).values():
            assert not array.flags.writeable

    def test_a_file_holds_the_same(self, summary, tmp_path):
        summary.save(tmp_path / "summary")
        assert load(tmp_path / "summary").to_bytes() == summary.to_bytes()


class TestSizes:
    CLASSES, DIM = 5, 7

    @pytest.mark.parametrize(
        ("name", "numbers"),
        [
            ("fedncm", CLASSES * DIM),
            ("fedcof", CLASSES * DIM),
            ("fed3r", CLASSES * DIM + DIM**2),
            ("ccvr", CLASSES * (DIM + DIM**2)),
            ("fedcof-oracle", CLASSES * (DIM + DIM**2)),
            ("fedcof-diagonal", CLASSES * (DIM + DIM)),
            ("fedcof-spherical", CLASSES * (DIM + 1)),
        ],
    )
    def test_a_client_sends_what_the_paper_says(self, rng, name, numbers):
        summary = METHODS[name]().summarize(
            rng.normal(size=(20, self.DIM)), np.arange(20) % self.CLASSES
        )
        assert summary.formula_bytes == 4 * numbers

    def test_several_means_are_counted_one_by_one(self, rng):
        summary = summarize(rng.normal(size=(20, 7)), [0, 1] * 10, means_per_class=4, rng=0)
        assert summary.formula_bytes == 4 * (2 * 4 * 7)

    def test_the_formula_of_a_federation_is_that_of_its_clients(self, rng):
        # K clients with M means in all send M d + K d^2 with Fed3R, whatever the server merges.
        method, features = fedcof.Fed3R(), rng.normal(size=(6, 3))
        parts = [
            method.summarize(features[:4], [0, 1, 2, 0], client_id="a"),
            method.summarize(features[4:], [1, 1], client_id="b"),
        ]
        for sent in (parts, [fedcof.merge(parts)]):
            assert method.solve(sent).provenance.formula_bytes == 4 * (4 * 3 + 2 * 3**2)

    @pytest.mark.parametrize("label", [int, "class number {}".format])
    def test_the_wire_adds_less_than_five_per_cent(self, rng, label):
        labels = [label(i % 29) for i in range(58)]
        summary = summarize(rng.normal(size=(58, 512)), labels, client_id="client-0001")
        assert summary.formula_bytes == 4 * 29 * 512
        assert summary.formula_bytes < len(summary.to_bytes()) < 1.05 * summary.formula_bytes


class TestBrokenBytes:
    def test_a_value_too_large_for_float32_is_refused_by_the_sender(self):
        summary = summarize(np.array([[1e39, 0.0], [0.0, 1.0]]), [0, 1], client_id="a")
        with pytest.raises(
            SummaryError, match="client 'a': means holds a value too large for float32"
        ) as caught:
            summary.to_bytes()
        assert caught.value.code == "overflow"

    def test_bytes_cut_anywhere_are_refused(self, summary):
        data = summary.to_bytes()
        for length in range(len(data)):
            with pytest.raises(SummaryError, match="not a whole summary") as caught:
                from_bytes(data[:length])
            assert caught.value.code == "corrupt"

    def test_bytes_with_more_behind_are_refused(self, summary):
        with pytest.raises(SummaryError, match="not a whole summary"):
            from_bytes(summary.to_bytes() + b"\0")

    @given(st.binary(max_size=200))
    @example(struct.pack("<Q", 2**63) + b"{}")
    @example(struct.pack("<Q", 2) + b"{}")
    @example(struct.pack("<Q", 4) + b"null")
    @example(b"\xff" * 64)
    def test_garbage_is_refused(self, data):
        with pytest.raises(SummaryError, match="not a whole summary") as caught:
            from_bytes(data)
        assert caught.value.code == "corrupt"

    @given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
    def test_altered_bytes_are_a_valid_summary_or_an_error_for_people(self, changes):
        data = bytearray(encode(ARRAYS, METADATA))
        for place, value in changes:
            data[place % len(data)] = value
        try:
            received = from_bytes(bytes(data))
        except SummaryError:
            return
        assert np.isfinite(received.means).all()
        assert (received.counts >= 1).all()

    def test_a_tensor_that_ends_beyond_the_bytes_is_refused(self):
        header = (
            b'{"means":{"dtype":"F32","shape":[1099511627776,4],"data_offsets":[0,17592186044416]}}'
        )
        with pytest.raises(SummaryError, match="not a whole summary"):
            from_bytes(struct.pack("<Q", len(header)) + header)

    def test_safetensors_of_others_are_refused(self):
        with pytest.raises(SummaryError, match="not a whole summary"):
            from_bytes(safetensors.save(ARRAYS, {"format": "pt"}))

    @pytest.mark.parametrize("text", ["[" * 100_000, "not JSON", "[]", "7", '"\\ud800"'])
    def test_metadata_that_is_no_object_is_refused(self, text):
        with pytest.raises(SummaryError, match="not a whole summary") as caught:
            from_bytes(safetensors.save(ARRAYS, {"fedcof": text}))
        assert caught.value.code == "corrupt"


class TestBytesThatLie:
    def received(self, metadata=(), **arrays):
        kept = {name: array for name, array in {**ARRAYS, **arrays}.items() if array is not None}
        return from_bytes(encode(kept, {**METADATA, **dict(metadata)}))

    def test_this_helper_makes_a_valid_summary(self):
        assert self.received().means.tolist() == [[1.0, 2.0], [3.0, 4.0]]

    @pytest.mark.parametrize("schema", [None, 0, 2, "1", [1]])
    def test_another_schema_is_refused(self, schema):
        with pytest.raises(SummaryError, match="this fedcof reads 1") as caught:
            self.received({"schema": schema})
        assert caught.value.code == "schema"

    @pytest.mark.parametrize("kind", ["class-medians", None, ["gram"]])
    def test_an_unknown_kind_is_refused_with_those_known(self, kind):
        with pytest.raises(SummaryError, match=r"known are .*'class-means'") as caught:
            self.received({"kind": kind})
        assert caught.value.code == "kind"

    @pytest.mark.parametrize("client_ids", [7, None, [], ["b", "a"], ["a", "a"], ["a", "b"]])
    def test_client_ids_that_are_none_are_refused(self, client_ids):
        with pytest.raises(SummaryError):
            self.received({"client_ids": client_ids})

    @pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
    def test_means_of_another_type_than_float32_are_refused(self, dtype):
        with pytest.raises(SummaryError, match=r"client 'a': means .* float32") as caught:
            self.received(means=ARRAYS["means"].astype(dtype))
        assert caught.value.code == "dtype"

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_a_number_that_is_not_finite_is_refused(self, bad):
        means = ARRAYS["means"].copy()
        means[1, 0] = bad
        with pytest.raises(SummaryError, match=r"client 'a': .* first at \(1, 0\)") as caught:
            self.received(means=means)
        assert caught.value.code == "non-finite"

    @pytest.mark.parametrize("counts", [[0, 1], [-1, 1], [1, 2**62]])
    def test_counts_that_are_none_are_refused(self, counts):
        with pytest.raises(SummaryError, match="client 'a': a count is") as caught:
            self.received(counts=np.array(counts))
        assert caught.value.code == "counts"

    @pytest.mark.parametrize(
        "classes", [[0, 1, 2], [[0], [1]], "cat", 7, {"cat": 1}, ["cat"], [1.5, 2.5], [[1], [1, 2]]]
    )
    def test_classes_that_do_not_fit_are_refused(self, classes):
        with pytest.raises(SummaryError):
            self.received({"classes": classes}, classes=None)

    @pytest.mark.parametrize("name", ["classes", "counts", "means"])
    def test_an_array_that_is_missing_is_named(self, name):
        with pytest.raises(SummaryError, match="class-means' with the arrays") as caught:
            self.received(**{name: None})
        assert caught.value.code == "corrupt"

    @pytest.mark.parametrize("name", ["covariances", "client_ids", "self"])
    def test_an_array_too_many_is_refused(self, name):
        with pytest.raises(SummaryError, match="with the arrays") as caught:
            from_bytes(encode({**ARRAYS, name: np.ones(2)}, METADATA))
        assert caught.value.code == "corrupt"


class TestFiles:
    def test_a_broken_file_is_named(self, tmp_path):
        path = tmp_path / "ward-7.summary"
        path.write_bytes(summarize(np.eye(2), [0, 1]).to_bytes()[:-1])
        with pytest.raises(SummaryError, match=r"ward-7\.summary: not a whole summary") as caught:
            load(path)
        assert caught.value.code == "corrupt"

    def test_a_file_that_is_not_there_is_not_called_broken(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            load(tmp_path / "nothing")
