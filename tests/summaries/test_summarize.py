from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedcof
from fedcof import Summarizer, SummaryError, summarize
from fedcof.summaries import Gram

X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 0.0]])


def test_means_and_counts_of_three_samples():
    summary = summarize(X, ["b", "a", "b"], client_id="ward-7")
    assert summary.classes.tolist() == ["a", "b"]
    assert summary.counts.tolist() == [1, 2]
    assert summary.means.tolist() == [[3.0, 4.0], [3.0, 1.0]]
    assert summary.client_ids == ("ward-7",)
    assert (summary.total, summary.dim) == (3, 2)


class TestFeatures:
    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_of_every_float_type_are_averaged_in_float64(self, dtype):
        summary = summarize(X.astype(dtype), [1, 1, 1])
        assert summary.means.dtype == np.float64
        assert summary.means.tolist() == [[3.0, 2.0]]

    def test_of_float16_do_not_overflow_in_their_sum(self):
        summary = summarize(np.full((5000, 2), 60_000, dtype=np.float16), np.zeros(5000, dtype=int))
        assert summary.means.tolist() == [[60_000.0, 60_000.0]]

    def test_of_float32_do_not_lose_digits_in_a_long_sum(self):
        features = np.full((100_000, 1), 0.1, dtype=np.float32)
        summary = summarize(features, np.zeros(100_000, dtype=int))
        np.testing.assert_allclose(summary.means, np.float64(np.float32(0.1)), rtol=1e-12)

    def test_in_lists_are_taken(self):
        assert summarize(X.tolist(), [0, 0, 0]).means.tolist() == [[3.0, 2.0]]

    def test_of_anything_that_numpy_takes_are_taken(self):
        class Tensor:
            def __array__(self, dtype=None, copy=None):
                return X

        assert summarize(Tensor(), [0, 0, 0]).means.tolist() == [[3.0, 2.0]]

    def test_with_strides_are_taken(self):
        wide = np.zeros((6, 4))
        wide[::2, ::2] = X
        assert summarize(wide[::2, ::2], [0, 0, 0]).means.tolist() == [[3.0, 2.0]]

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_that_are_not_finite_are_refused_with_their_place(self, bad, dtype):
        features = X.astype(dtype)
        features[2, 1] = features[1, 0] = bad
        with pytest.raises(
            SummaryError,
            match=r"client 'a': features holds NaN or infinity in 2 of 3 rows, first at \(1, 0\)",
        ) as caught:
            summarize(features, [0, 1, 1], client_id="a")
        assert caught.value.code == "non-finite"

    def test_with_infinities_that_cancel_are_refused(self):
        with pytest.raises(SummaryError, match=r"first at \(0, 0\)"):
            summarize([[np.inf, -np.inf], [1.0, 1.0]], [0, 1])

    @pytest.mark.parametrize("features", [np.ones(3), np.ones((3, 2, 2)), np.ones((3, 0))])
    def test_of_another_shape_are_refused(self, features):
        with pytest.raises(SummaryError, match=r"shape \(n, dim\)") as caught:
            summarize(features, [0, 1, 1])
        assert caught.value.code == "shape"

    def test_may_be_whole_numbers(self):
        assert summarize([[1, 2], [3, 6]], [0, 0]).means.tolist() == [[2.0, 4.0]]

    def test_may_be_of_the_other_byte_order(self):
        assert summarize(X.astype(">f4"), [0, 1, 1]).means[0].tolist() == X[0].tolist()

    @pytest.mark.parametrize("dtype", [np.complex128, "U8"])
    def test_that_are_not_numbers_are_refused(self, dtype):
        with pytest.raises(SummaryError, match="must be numbers") as caught:
            summarize(X.astype(dtype), [0, 1, 1])
        assert caught.value.code == "dtype"

    def test_whose_sum_overflows_float64_are_refused(self):
        with pytest.raises(SummaryError, match="means holds NaN or infinity"):
            summarize(np.full((3, 2), 1e308), [0, 0, 0])

    def test_of_no_sample_are_refused(self):
        with pytest.raises(SummaryError, match="no samples") as caught:
            summarize(np.ones((0, 2)), [])
        assert caught.value.code == "empty"


class TestLabels:
    @pytest.mark.parametrize(
        ("labels", "classes"),
        [
            ([2, -1, 2], [-1, 2]),
            (np.array([2, 1, 2], dtype=np.uint8), [1, 2]),
            ([True, False, True], [0, 1]),
            (["b", "a", "b"], ["a", "b"]),
            (["Straße", "犬", "Straße"], ["Straße", "犬"]),
            (np.array(["b", "a", "b"], dtype=object), ["a", "b"]),
            (np.array([2, 1, 2], dtype=object), [1, 2]),
            (np.array([True, False, True], dtype=object), [0, 1]),
            (("b", "a", "b"), ["a", "b"]),
        ],
    )
    def test_may_be_ints_bools_or_strings(self, labels, classes):
        assert summarize(X, labels).classes.tolist() == classes

    @pytest.mark.parametrize(
        "labels",
        [
            [1.5, 2.0, 2.0],
            [None, None, None],
            ["a", None, "b"],
            np.array([1, "a", 2], dtype=object),
            [b"a", b"\xff", b"b"],
        ],
    )
    def test_of_another_type_are_refused(self, labels):
        with pytest.raises(SummaryError, match="row") as caught:
            summarize(X, labels)
        assert caught.value.code == "labels"

    def test_too_large_for_int64_are_refused_and_do_not_become_negative(self):
        with pytest.raises(SummaryError, match="18446744073709551615 of row 2 is too large"):
            summarize(X, np.array([1, 1, 2**64 - 1], dtype=np.uint64))

    def test_in_a_column_are_refused(self):
        with pytest.raises(SummaryError, match=r"must be 1-d, these have shape \(3, 1\)"):
            summarize(X, [[0], [1], [1]])

    @pytest.mark.parametrize("labels", [[0, 1], []])
    def test_of_another_length_are_refused(self, labels):
        with pytest.raises(SummaryError, match=f"3 features but {len(labels)} labels") as caught:
            summarize(X, labels)
        assert caught.value.code == "labels"

    def test_that_are_no_text_are_carried_as_they_are(self):
        # What os.fsdecode makes of a folder whose name is not UTF-8.
        summary = summarize(X, ["a\udcff", "b", "b"], means_per_class=2, rng=0)
        assert fedcof.from_bytes(summary.to_bytes()).classes.tolist() == ["a\udcff", "b"]


class TestStreaming:
    @given(st.lists(st.integers(0, 40), max_size=6), st.integers(1, 4), st.randoms())
    def test_the_cuts_into_batches_change_nothing(self, cuts, means_per_class, random):
        rng = np.random.default_rng(random.randrange(2**32))
        features, labels = rng.normal(size=(40, 3)) + 50.0, rng.integers(3, size=40)
        whole = summarize(features, labels, means_per_class=means_per_class, rng=5)
        summarizer = Summarizer(means_per_class=means_per_class, rng=5)
        edges = [0, *sorted(set(cuts) - {0, 40}), 40]
        for start, stop in pairwise(edges):
            summarizer.update(features[start:stop], labels[start:stop])
        streamed = summarizer.finish()
        assert streamed.classes.tolist() == whole.classes.tolist()
        assert streamed.counts.tolist() == whole.counts.tolist()
        np.testing.assert_allclose(streamed.means, whole.means, rtol=1e-12)

    def test_long_features_are_summed_in_blocks(self, rng, monkeypatch):
        features, labels = rng.normal(size=(50, 3)), rng.integers(2, size=50)
        whole, gram = summarize(features, labels), Gram.summarize(features, labels)
        monkeypatch.setattr("fedcof.numerics._BLOCK_BYTES", 7 * 3 * 8)
        np.testing.assert_allclose(summarize(features, labels).means, whole.means, rtol=1e-13)
        blocked = Gram.summarize(features, labels)
        np.testing.assert_allclose(blocked.gram, gram.gram, rtol=1e-13)
        np.testing.assert_allclose(blocked.sums, gram.sums, rtol=1e-13)

    def test_a_bad_batch_leaves_what_was_there(self):
        summarizer = Summarizer()
        summarizer.update(X, [0, 1, 1])
        for features, labels in [
            (X * np.nan, [0, 1, 2]),
            (np.ones((1, 3)), [7]),
            (X, ["a", "b", "c"]),
            (X, [0]),
        ]:
            with pytest.raises(SummaryError):
                summarizer.update(features, labels)
        summary, expected = summarizer.finish(), summarize(X, [0, 1, 1])
        assert summary.classes.tolist() == expected.classes.tolist()
        np.testing.assert_array_equal(summary.means, expected.means)

    def test_a_batch_of_another_dim_is_refused(self):
        summarizer = Summarizer(client_id="a")
        summarizer.update(X, [0, 1, 1])
        with pytest.raises(
            SummaryError, match="client 'a': features of length 3 after 2"
        ) as caught:
            summarizer.update(np.ones((1, 3)), [0])
        assert caught.value.code == "dim"

    def test_nothing_added_is_refused(self):
        with pytest.raises(SummaryError, match="client 'a': no samples were added") as caught:
            Summarizer(client_id="a").finish()
        assert caught.value.code == "empty"


class TestSeveralMeans:
    def sets(self, samples, means_per_class, seed=0):
        """The sets of samples behind the means: sample i has bit i as its feature."""
        features = 2.0 ** np.arange(samples)[:, None]
        summary = summarize(
            features, np.zeros(samples, int), means_per_class=means_per_class, rng=seed
        )
        sums = np.rint(summary.means[:, 0] * summary.counts).astype(np.int64)
        return [{i for i in range(samples) if total >> i & 1} for total in sums.tolist()]

    @given(st.integers(1, 40), st.integers(2, 6), st.integers(0, 2**32))
    def test_are_of_disjoint_even_sets_of_two_and_more(self, samples, means_per_class, seed):
        sets = self.sets(samples, means_per_class, seed)
        sizes = [len(one) for one in sets]
        assert sum(sizes) == samples
        assert set().union(*sets) == set(range(samples))
        assert len(sets) == max(1, min(means_per_class, samples // 2))
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) >= 2 or samples == 1

    def test_of_three_samples_are_one_as_in_the_paper(self):
        assert self.sets(3, 4) == [{0, 1, 2}]

    def test_of_one_sample_are_that_sample(self):
        assert self.sets(1, 4) == [{0}]

    def test_are_the_same_for_the_same_seed_and_others_for_another(self):
        assert self.sets(30, 3, seed=1) == self.sets(30, 3, seed=1)
        assert self.sets(30, 3, seed=1) != self.sets(30, 3, seed=2)

    def test_draw_from_the_generator_that_is_given(self):
        rng = np.random.default_rng(3)
        assert self.sets(30, 3, seed=rng) != self.sets(30, 3, seed=rng)
        assert self.sets(30, 3, seed=np.random.default_rng(3)) == self.sets(30, 3, seed=3)

    def test_of_a_class_do_not_depend_on_the_other_classes(self):
        features = np.arange(20.0)[:, None]
        alone = summarize(features, ["b"] * 20, means_per_class=3, rng=0)
        both = summarize(
            np.vstack([features, features]), ["a"] * 20 + ["b"] * 20, means_per_class=3, rng=0
        )
        np.testing.assert_array_equal(both.means[both.classes == "b"], alone.means)
        assert both.means[both.classes == "a"].tolist() != alone.means.tolist()

    def test_average_to_the_class_mean(self, rng):
        features = rng.normal(size=(23, 4))
        summary = summarize(features, [0] * 23, means_per_class=5, rng=0)
        np.testing.assert_allclose(
            summary.counts @ summary.means / 23, features.mean(axis=0), rtol=1e-12
        )

    def test_deal_every_run_of_samples_anew(self):
        # Sample 0 is of the first run and 3 of the second, so they share one of the 3 sets with a
        # chance of 1 / 3; over 600 seeds the standard error is sqrt(1/3 2/3 / 600) < 0.02.
        together = np.mean([any({0, 3} <= s for s in self.sets(6, 3, seed)) for seed in range(600)])
        assert abs(together - 1 / 3) < 5 * 0.02

    def test_need_a_generator_or_a_seed(self):
        with pytest.raises(ValueError, match="give rng"):
            summarize(X, [0, 1, 1], means_per_class=2)

    def test_are_at_least_one(self):
        with pytest.raises(ValueError, match="at least 1, not 0"):
            summarize(X, [0, 1, 1], means_per_class=0)


def test_every_method_names_the_client_whose_features_are_bad():
    # All but the class means once left the name out.
    for name in fedcof.METHODS:
        with pytest.raises(SummaryError, match="client 'ward-7': features holds NaN"):
            fedcof.get_method(name).summarize(X * np.nan, [0, 1, 1], client_id="ward-7", rng=0)
