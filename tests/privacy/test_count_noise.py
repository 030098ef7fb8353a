"""The paper's noise on class counts."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedcof
from fedcof.client import Sender, parse_steps
from fedcof.errors import SettingError, SummaryError
from fedcof.methods import METHODS, get_method
from fedcof.privacy import CountNoise
from fedcof.privacy.count_noise import noisy_counts
from fedcof.summaries.class_sums import ClassSums

KINDS = ("uniform", "gaussian", "laplace")
EPSILONS = (0.1, 0.5, 0.9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    ("noise", "distribution"),
    [
        ("uniform", lambda n, epsilon: stats.uniform(-(1 - epsilon) * n, 2 * (1 - epsilon) * n)),
        ("gaussian", lambda n, epsilon: stats.norm(0, np.sqrt(1 / epsilon))),
        ("laplace", lambda n, epsilon: stats.laplace(0, 1 / epsilon)),
    ],
)
def test_noise_has_the_distribution_of_the_paper(noise, epsilon, distribution):
    count = 1000  # nothing is clipped
    drawn = noisy_counts(np.full(4000, count), noise, epsilon, np.random.default_rng(0)) - count
    assert stats.kstest(drawn, distribution(count, epsilon).cdf).pvalue > 1e-3


def test_a_gaussian_of_the_deviation_one_over_epsilon_would_be_told_apart():
    drawn = noisy_counts(np.full(4000, 1000), "gaussian", 0.5, np.random.default_rng(0)) - 1000
    assert stats.kstest(drawn, stats.norm(0, 1 / 0.5).cdf).pvalue < 1e-3


@pytest.mark.parametrize("noise", KINDS)
def test_counts_are_clipped_at_zero(noise):
    drawn = noisy_counts(np.ones(2000, np.int64), noise, 0.1, np.random.default_rng(0))
    assert drawn.min() == 0 or noise == "uniform"  # uniform noise stays below the count
    assert (drawn >= 0).all()


def client(sizes, **settings):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    features = np.random.default_rng(0).normal(size=(len(labels), 3))
    return fedcof.summarize(features, labels, client_id="a", rng=0, **settings)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=6),
    st.sampled_from(KINDS),
    st.sampled_from(EPSILONS),
    st.integers(0, 50),
)
def test_only_counts_change_and_classes_whose_count_is_not_above_zero_are_left_out(
    sizes, noise, epsilon, seed
):
    summary = client(sizes)
    noisy = noisy_counts(np.array(sizes), noise, epsilon, np.random.default_rng(seed))
    sent = CountNoise(noise, epsilon)(summary, np.random.default_rng(seed))
    if not (noisy > 0).any():
        assert sent is None
        return
    np.testing.assert_array_equal(sent.classes, np.flatnonzero(noisy > 0))
    np.testing.assert_array_equal(sent.means, summary.means[noisy > 0])
    np.testing.assert_array_equal(sent.counts, np.maximum(np.rint(noisy[noisy > 0]), 1))
    assert fedcof.from_bytes(sent.to_bytes()).rows_sent == len(sent.counts)


def test_of_several_means_of_a_class_the_count_gets_the_noise_once():
    summary = client([40, 7, 9], means_per_class=4)
    counts = np.array([40, 7, 9])
    noisy = noisy_counts(counts, "laplace", 0.1, np.random.default_rng(0))
    assert (noisy > 0).tolist() == [True, True, False]
    sent = CountNoise("laplace", 0.1)(summary, np.random.default_rng(0))
    rows = summary.classes < 2
    np.testing.assert_array_equal(sent.means, summary.means[rows])
    shares = summary.counts[rows] * (noisy / counts)[summary.classes[rows]]
    np.testing.assert_array_equal(sent.counts, np.maximum(np.rint(shares), 1))


def test_names_of_classes_that_are_left_out_leave_no_trace():
    summary = fedcof.summarize(np.eye(2), ["a", "a-very-long-name"], client_id="k")
    assert summary.select(np.array([True, False])).classes.dtype == np.dtype("<U1")


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_kind_that_holds_its_classes_mixed_is_refused_before_anything_is_sent(name):
    method = get_method(name)
    if method.summary_type.shared_arrays():
        with pytest.raises(SettingError, match=r"count-noise cannot be done.*class means"):
            Sender(method, steps=(CountNoise(),))
    else:
        features, labels = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
        sender = Sender(method, steps=(CountNoise("uniform", 0.5),))
        sent = fedcof.from_bytes(sender.send(features, labels, client_id="a").data)
        plain = fedcof.from_bytes(Sender(method).send(features, labels, client_id="a").data)
        np.testing.assert_array_equal(sent.row_means, plain.row_means)
        assert sent.counts.tolist() != plain.counts.tolist()


def test_a_kind_whose_means_are_sums_over_counts_is_refused():
    @dataclass(frozen=True, eq=False, kw_only=True)
    class Sums(ClassSums):
        axes = {"sums": ("rows", "dim")}  # noqa: RUF012
        scale = 1.0

    Sums.kind = "test-sums"  # known to this test alone

    summary = Sums(classes=[0, 1], counts=[50, 50], sums=np.eye(2), client_ids=("a",))
    with pytest.raises(SummaryError, match=r"client 'a'.*would change its means"):
        CountNoise("uniform", 0.1)(summary, np.random.default_rng(0))


def test_a_merged_summary_is_refused():
    with pytest.raises(SummaryError, match="for one client"):
        CountNoise()(
            fedcof.merge([client([2]), fedcof.summarize(np.eye(2, 3), [0, 1], client_id="b")]),
            np.random.default_rng(0),
        )


def test_steps_have_texts():
    assert parse_steps("count-noise:uniform:0.3") == (CountNoise("uniform", 0.3),)
    assert parse_steps("count-noise+count-noise:gaussian") == (
        CountNoise(),
        CountNoise("gaussian", 0.5),
    )
    assert parse_steps("none") == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("count-noise:uniform:1.5", "at most 1 where the noise is uniform"),
        ("count-noise:laplace:0", "epsilon must be a finite number, above 0"),
        ("count-noise:normal:1", "one of uniform, gaussian, laplace"),
        ("counts:1", "no step is called"),
        ("count-noise:uniform:0.3:7", "the settings of count-noise are: noise, epsilon"),
    ],
)
def test_a_text_that_is_no_step_is_refused(text, says):
    with pytest.raises(SettingError, match=f"steps is .*{says}"):
        parse_steps(text)


def test_a_site_draws_noise_that_the_seed_does_not_give_away():
    features, labels = np.eye(3), [0, 1, 2]
    sender = Sender(fedcof.FedCOF(), steps=(CountNoise("laplace", 0.01),))

    def sent(**noise):
        return sender.send(features, labels, client_id="a", **noise)

    def own():
        return np.random.default_rng(7)

    assert sent() == sent()
    assert sent(noise=own()) == sent(noise=own()) != sent()
