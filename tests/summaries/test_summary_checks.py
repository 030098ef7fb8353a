import copy
import pickle

import numpy as np
import pytest

import fedcof
from fedcof import FedCOFError, SummaryError
from fedcof.summaries import (
    ClassCovariances,
    ClassMeans,
    ClassVariances,
    Gram,
    check_classes,
    ordered,
)


def class_means(classes=("cat", "dog"), counts=(1, 2), means=((1.0, 2.0), (3.0, 4.0)), **others):
    return ClassMeans(classes=classes, counts=counts, means=np.array(means), **others)


class TestTheFieldsOfASummary:
    @pytest.mark.parametrize(
        ("counts", "message"),
        [
            ([1, 0], "a count is 0; a class without samples must be left out"),
            ([1, -2], "a count is -2"),
            ([1, 1.5], "whole numbers"),
            ([1, np.nan], "whole numbers"),
            ([1, np.inf], "above the limit of 2"),
            ([1, 2.0**60], "above the limit of 2"),
            (np.array([1, 2**64 - 1], dtype=np.uint64), "above the limit of 2"),
            ([[1, 2]], r"1-d whole numbers, not int64 of shape \(1, 2\)"),
            (["1", "2"], "1-d whole numbers"),
        ],
    )
    def test_counts_that_are_no_counts_are_refused(self, counts, message):
        with pytest.raises(SummaryError, match=message) as caught:
            class_means(counts=counts)
        assert caught.value.code == "counts"

    def test_whole_counts_in_floats_are_taken(self):
        assert class_means(counts=[1.0, 2.0]).counts.dtype == np.int64

    def test_another_number_of_counts_than_classes_is_refused(self):
        with pytest.raises(SummaryError, match="2 classes but 3 counts") as caught:
            class_means(counts=[1, 2, 3])
        assert caught.value.code == "shape"

    def test_a_client_with_no_samples_is_refused(self):
        with pytest.raises(SummaryError, match="the client has no samples") as caught:
            ClassMeans(classes=[], counts=[], means=np.zeros((0, 2)), client_ids=("ward-7",))
        assert caught.value.code == "empty"

    def test_means_of_another_shape_are_refused_with_the_shape_expected(self):
        with pytest.raises(SummaryError, match=r"shape \(3, 2\), expected \(2, 2\)") as caught:
            class_means(means=np.ones((3, 2)))
        assert caught.value.code == "shape"

    def test_means_of_length_zero_are_refused(self):
        with pytest.raises(SummaryError, match="means is empty") as caught:
            class_means(means=np.ones((2, 0)))
        assert caught.value.code == "shape"

    @pytest.mark.parametrize("dtype", [np.int64, np.float16, np.complex128, object])
    def test_means_that_are_not_float32_or_float64_are_refused(self, dtype):
        with pytest.raises(SummaryError, match="must be float32 or float64") as caught:
            class_means(means=np.ones((2, 2), dtype=dtype))
        assert caught.value.code == "dtype"

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_a_mean_that_is_not_finite_is_refused_with_its_place(self, bad):
        with pytest.raises(SummaryError, match=r"1 of 2 rows, first at \(1, 0\)") as caught:
            class_means(means=[[1.0, 2.0], [bad, 4.0]])
        assert caught.value.code == "non-finite"

    def test_finite_means_whose_sum_overflows_are_taken(self):
        assert class_means(means=np.full((2, 2), 1e308)).means.max() == 1e308

    def test_covariances_that_are_not_square_are_refused(self):
        with pytest.raises(SummaryError, match=r"expected \(1, 2, 2\)"):
            ClassCovariances(
                classes=[0], counts=[1], means=np.ones((1, 2)), covariances=np.ones((1, 2, 3))
            )

    def test_a_gram_matrix_of_another_dim_than_the_sums_is_refused(self):
        with pytest.raises(SummaryError, match=r"gram has shape \(3, 3\), expected \(2, 2\)"):
            Gram(classes=[0], counts=[1], sums=np.ones((1, 2)), gram=np.eye(3))

    def test_a_class_has_one_row_in_a_gram_and_in_moments(self):
        with pytest.raises(SummaryError, match="class 5 appears twice"):
            Gram(classes=[5, 5], counts=[1, 1], sums=np.ones((2, 2)), gram=np.eye(2))
        with pytest.raises(SummaryError, match="class 'b' appears twice"):
            ClassVariances(
                classes=["b", "b"], counts=[1, 1], means=np.eye(2), covariances=np.eye(2)
            )

    def test_the_client_is_named(self):
        with pytest.raises(SummaryError, match="client 'ward-7': a count is 0") as caught:
            class_means(counts=[0, 1], client_ids=("ward-7",))
        assert caught.value.client_id == "ward-7"

    @pytest.mark.parametrize("client_ids", [(), ("b", "a"), ("a", "a")])
    def test_client_ids_out_of_order_or_doubled_are_refused(self, client_ids):
        with pytest.raises(SummaryError, match="ascending order, each once") as caught:
            class_means(client_ids=client_ids, rows_per_client=[1, 1])
        assert caught.value.code == "client-ids"

    def test_clients_without_a_name_may_be_many(self):
        assert class_means(client_ids=("", ""), rows_per_client=[1, 1]).client_ids == ("", "")

    @pytest.mark.parametrize(
        "rows",
        [None, [1], [1, 2], [2, 0], [1, 1.5], [[1, 1]], [2**63 - 1, 2**63 + 3]],
    )
    def test_rows_that_are_not_dealt_to_the_clients_are_refused(self, rows):
        with pytest.raises(SummaryError):
            class_means(client_ids=("a", "b"), rows_per_client=rows)

    @pytest.mark.parametrize("rows", [None, [2], [1, 0], [3, 1], [1, 1, 1]])
    def test_rows_that_cannot_have_been_merged_to_those_here_are_refused(self, rows):
        merged = {"classes": [0, 1], "counts": [3, 1], "sums": np.eye(2), "gram": np.eye(2)}
        assert Gram(client_ids=("a", "b"), rows_per_client=[2, 1], **merged).formula_bytes == 56
        with pytest.raises(SummaryError):
            Gram(client_ids=("a", "b"), rows_per_client=rows, **merged)

    def test_rows_per_client_whose_sum_wraps_around_are_refused(self):
        # 2 (2^63 - 1) + 5 is 3 in 64 bits.
        with pytest.raises(SummaryError, match="above the limit of 2"):
            ClassMeans(
                classes=[0, 1, 1],
                counts=[1, 1, 1],
                means=np.ones((3, 2)),
                client_ids=("a", "b", "c"),
                rows_per_client=np.array([2**63 - 1, 2**63 - 1, 5]),
            )


class TestASummaryIsFrozen:
    def test_no_array_can_be_written_through_it(self):
        summary = class_means()
        for array in (summary.means, summary.counts, summary.classes, summary.rows_per_client):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = array[-1]

    def test_no_field_can_be_set(self):
        with pytest.raises(AttributeError):
            class_means().counts = np.array([9, 9])

    def test_the_callers_own_array_stays_writable(self):
        means, counts = np.ones((2, 2)), np.array([1, 2])
        ClassMeans(classes=[0, 1], counts=counts, means=means)
        means[0, 0], counts[0] = 5.0, 5
        assert means[0, 0] == counts[0] == 5


class TestSummariesThatDoNotFitTogether:
    def test_another_dim_is_refused_with_both_clients(self):
        parts = [
            class_means(client_ids=("a",)),
            class_means(means=np.ones((2, 3)), client_ids=("b",)),
        ]
        with pytest.raises(
            SummaryError, match="client 'b': features of length 3, but client 'a' has 2"
        ) as caught:
            ordered(parts, ClassMeans)
        assert caught.value.code == "dim"

    def test_labels_of_another_type_are_refused_with_both_clients(self):
        parts = [class_means(client_ids=("a",)), class_means(classes=[0, 1], client_ids=("b",))]
        with pytest.raises(
            SummaryError, match="client 'b': labels of type int64, but client 'a' has <U3"
        ) as caught:
            ordered(parts, ClassMeans)
        assert caught.value.code == "classes"

    def test_the_same_client_twice_is_refused_with_both_places(self):
        parts = [class_means(client_ids=(name,)) for name in ("a", "b", "c", "b")]
        with pytest.raises(
            SummaryError, match="client 'b': appears twice: in summary 1 and in summary 3"
        ) as caught:
            ordered(parts, ClassMeans)
        assert caught.value.code == "duplicate-client"
        assert caught.value.client_id == "b"

    def test_a_client_that_is_in_a_merged_summary_already_is_refused(self):
        merged = fedcof.merge([class_means(client_ids=("a",)), class_means(client_ids=("b",))])
        with pytest.raises(SummaryError, match="client 'b': appears twice"):
            fedcof.merge([merged, class_means(client_ids=("b",))])

    def test_another_kind_is_refused_with_both_kinds(self):
        gram = fedcof.Fed3R().summarize(np.eye(2), [0, 1], client_id="g")
        with pytest.raises(
            SummaryError, match="client 'g': a summary of kind 'gram', expected 'class-means'"
        ) as caught:
            fedcof.FedCOF().solve([class_means(), gram])
        assert caught.value.code == "kind"

    def test_what_is_no_summary_is_refused(self):
        with pytest.raises(SummaryError, match="a bytes, expected a summary") as caught:
            fedcof.FedCOF().solve([class_means().to_bytes()])
        assert caught.value.code == "kind"

    @pytest.mark.parametrize("function", [fedcof.merge, fedcof.FedCOF().solve])
    def test_no_summary_at_all_is_refused(self, function):
        with pytest.raises(SummaryError, match="no summary") as caught:
            function(iter([]))
        assert caught.value.code == "empty"

    def test_a_class_that_is_not_of_the_federation_is_refused_with_its_name(self):
        check_classes(class_means(), ["cat", "cow", "dog"])
        with pytest.raises(
            SummaryError, match=r"client 'a': the classes \['dog'\] are not among the 2"
        ) as caught:
            check_classes(class_means(client_ids=("a",)), ["cat", "cow"])
        assert caught.value.code == "classes"

    def test_labels_of_another_type_are_foreign(self):
        with pytest.raises(SummaryError, match=r"\['cat', 'dog'\]"):
            check_classes(class_means(), [0, 1])


class TestErrors:
    def test_survive_pickling(self):
        error = SummaryError("counts", "a count is 0", client_id="a")
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is SummaryError
        assert (str(copy), copy.code, copy.message, copy.client_id) == (
            "client 'a': a count is 0",
            "counts",
            "a count is 0",
            "a",
        )

    def test_are_value_errors_and_errors_of_fedcof(self):
        for kind in (fedcof.SummaryError, fedcof.HeadError):
            assert issubclass(kind, FedCOFError)
            assert issubclass(kind, ValueError)


@pytest.mark.parametrize("text", ["\x1b[2J", "two\nlines", "\ud800", "", "x" * 201, 5])
def test_an_origin_that_cannot_be_printed_is_refused(text):
    with pytest.raises(SummaryError, match="1 to 200 printable characters"):
        class_means(origin={"backbone": text})
    with pytest.raises(SummaryError, match="1 to 200 printable characters"):
        class_means(origin={text: "fingerprint"})


@pytest.mark.parametrize("again", [lambda s: pickle.loads(pickle.dumps(s)), copy.deepcopy])
def test_a_copied_summary_is_frozen_too(again):
    summary = again(class_means(origin={"backbone": "f"}))
    assert not summary.means.flags.writeable
    assert summary.origin == {"backbone": "f"}
    assert summary.to_bytes() == class_means(origin={"backbone": "f"}).to_bytes()


def test_what_is_no_summary_is_refused_by_merge() -> None:
    with pytest.raises(SummaryError, match="a int, expected a summary"):
        fedcof.merge([1])
