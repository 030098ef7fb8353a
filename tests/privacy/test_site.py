"""No statistic of a few samples leaves a site."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fedcof import FedCOF, FedNCM, SummaryError, from_bytes
from fedcof.client import Sender, Step, Withheld, parse_steps
from fedcof.methods import METHODS
from fedcof.privacy import CountNoise, MinSamples
from fedcof.summaries.class_mixtures import ClassDiagonalMixtures, ClassSphericalMixtures
from fedcof.summaries.client_rows import joining

METHODS.load_plugins()

RNG = np.random.default_rng(0)
LABELS = np.array([0] * 20 + [1] * 9 + [2] * 3 + [3, 4])
FEATURES = RNG.normal(size=(len(LABELS), 6))


def sent(step, labels=LABELS, method=None, features=FEATURES):
    return Sender(method or FedNCM(), steps=(step,)).send(features, labels, client_id="a")


def with_several(method):
    """A method with several rows a class, where it can have them."""
    several = {"means_per_class", "components"} & set(method.__dataclass_fields__)
    return method(**dict.fromkeys(several, 3))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
@pytest.mark.parametrize("small_classes", ["withhold", "merge"])
def test_no_row_of_any_method_is_of_fewer_samples(method, small_classes):
    found = sent(MinSamples(5, small_classes), method=with_several(method))
    assert found.summary.counts.min() >= 5
    merged = {-1} if small_classes == "merge" else set()
    assert set(found.summary.classes.tolist()) == {0, 1} | merged


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_what_is_sent_is_what_a_site_without_these_samples_would_send(method):
    method, big = method(), LABELS < 2
    found = sent(MinSamples(4), method=method)
    alone = Sender(method).send(FEATURES[big], LABELS[big], client_id="a")
    assert found.data == alone.data
    assert found.withheld == Withheld(classes=3, samples=5)


def test_every_class_that_is_large_enough_goes_unchanged():
    assert sent(MinSamples(1)).data == Sender(FedNCM()).send(FEATURES, LABELS, client_id="a").data
    assert not sent(MinSamples(1)).withheld


def test_a_client_of_small_classes_alone_sends_nothing():
    assert sent(MinSamples(21)) is None
    assert sent(MinSamples(len(LABELS) + 1, "merge")) is None


def test_merged_classes_are_one_class_of_integers_or_texts():
    step = MinSamples(5, "merge")
    assert sent(step).summary.counts_by_class == {-1: 5, 0: 20, 1: 9}
    texts = np.array(["a", "b", "c", "d", "e"])[LABELS]
    assert sent(step, texts).summary.counts_by_class == {"a": 20, "b": 9, "other": 5}
    mean = sent(step, texts).summary.means[-1]
    np.testing.assert_allclose(mean, FEATURES[LABELS >= 2].mean(axis=0))
    named = MinSamples(5, "merge", "rest of them")
    assert "rest of them" in sent(named, texts).summary.counts_by_class
    assert sent(MinSamples(5, "merge", "99")).summary.counts_by_class == {0: 20, 1: 9, 99: 5}


def test_merged_classes_that_are_few_samples_together_are_withheld():
    found = sent(MinSamples(6, "merge"))
    assert found.summary.counts_by_class == {0: 20, 1: 9}
    assert found.withheld == Withheld(classes=3, samples=5)


def test_one_small_class_is_not_sent_under_another_name():
    labels = np.array(["a"] * 9 + ["b"] * 4)
    found = sent(MinSamples(5, "merge"), labels, features=FEATURES[:13])
    assert found.summary.counts_by_class == {"a": 9}


@pytest.mark.parametrize(
    ("labels", "step", "said"),
    [
        (np.array(["other"] * 30 + ["b"] * 4), MinSamples(5, "merge"), "'other', which is a class"),
        (np.array(["other"] * 4 + ["b"] * 30), MinSamples(5, "merge"), "'other', which is a class"),
        (LABELS - 1, MinSamples(5, "merge"), "-1, which is a class"),
        (LABELS, MinSamples(5, "merge", "others"), "the labels are integers"),
    ],
)
def test_another_class_that_cannot_be_is_refused(labels, step, said):
    with pytest.raises(SummaryError, match=said) as caught:
        sent(step, labels)
    assert caught.value.code == "other-class"


def test_noise_on_counts_does_not_lift_a_class_over_the_threshold():
    steps = parse_steps("min-samples:5+count-noise:gaussian:0.0001")
    sender = Sender(FedCOF(means_per_class=3), steps=steps)
    for seed in range(5):
        noise = np.random.default_rng(seed)
        found = sender.send(FEATURES, LABELS, client_id="a", noise=noise)
        assert found is None or set(found.summary.classes.tolist()) <= {0, 1}
        assert found is None or len(found.summary.classes) <= 4  # 20 = 7 + 7 + 6; 9 stays one mean


def test_the_first_step_is_the_last_on_samples():
    class Halving(Step):
        def samples(self, labels):
            return np.arange(len(labels)) % 2 == 0, labels[::2]

        def __call__(self, summary, rng):
            return summary

    sender = Sender(FedNCM(), steps=(MinSamples(5), Halving()))
    found = sender.send(FEATURES, LABELS)
    assert found.summary.counts_by_class == {0: 10, 1: 5}  # not the class of 9, halved to 4


def test_rows_are_joined_and_none_is_lost():
    counts = np.array([2, 9, 3, 1, 2])
    assert joining(np.zeros(5, int), counts, 4).tolist() == [1, 0, 1, 1, 1]
    assert joining(np.array([0, 0, 1, 1, 1]), counts, 100).tolist() == [0, 0, 1, 1, 1]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=12),
    st.integers(1, 12),
)
def test_sets_have_enough_samples_unless_their_class_has_not(rows, least):
    classes, counts = np.array(sorted(rows)).T
    sets = joining(classes, counts, least)
    assert sorted(set(sets.tolist())) == list(range(sets.max() + 1))
    for number in set(sets.tolist()):
        [label] = set(classes[sets == number].tolist())
        in_class = counts[classes == label].sum()
        assert counts[sets == number].sum() >= min(least, in_class)


def test_joined_means_are_the_means_of_all_their_samples():
    several = FedCOF(means_per_class=3).summarize(FEATURES, LABELS, client_id="a", rng=0)
    one = FedCOF().summarize(FEATURES, LABELS, client_id="a")
    joined = several.joined(100)
    assert joined.counts.tolist() == one.counts.tolist()
    np.testing.assert_allclose(joined.means, one.means)


@pytest.mark.parametrize("kind", [ClassDiagonalMixtures, ClassSphericalMixtures])
def test_joined_components_have_mean_and_variance_of_all(kind):
    arrays = {
        "means": np.array([[0.0, 0.0], [4.0, 0.0]]),
        "covariances": np.array([[1.0, 2.0], [3.0, 2.0]])
        if kind is ClassDiagonalMixtures
        else np.array([1.5, 2.5]),
    }
    joined = kind(classes=[7, 7], counts=[1, 3], client_ids=("a",), **arrays).joined(4)
    assert joined.means.tolist() == [[3.0, 0.0]]
    expected = [2.5 + 3.0, 2.0] if kind is ClassDiagonalMixtures else 2.25 + 1.5
    np.testing.assert_allclose(joined.covariances[0], expected)


def test_what_leaves_is_said_in_a_line():
    text = str(sent(MinSamples(5)))
    assert "class-means of 2 classes: 0 (20), 1 (9); 12 numbers and 2 counts, float32" in text
    assert "withheld: 3 classes and 5 samples" in text


def test_the_step_goes_over_the_wire():
    sender = Sender(FedNCM(), steps=(MinSamples(5, "merge"), CountNoise()))
    assert Sender.from_settings(sender.settings()) == sender
    assert parse_steps("min-samples:5:merge:rest") == (MinSamples(5, "merge", "rest"),)
    assert from_bytes(sent(MinSamples(5)).data).total == 29
