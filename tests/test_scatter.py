import numpy as np
import pytest

import fedcof
from fedcof import SummaryError, condition_number, estimate_class_covariances
from fedcof.numerics import scatter_about_means
from fedcof.scatter import ClassStatistics, estimator_bias, within_scatter_bias
from fedcof.summaries import ClassMeans, summarize


def wishart_standard_error(covariance, means, repeats):
    """The standard deviation of the average of independent estimates of a covariance.

    The mean of n_k Gaussian samples is N(mu, Sigma / n_k), so sqrt(n_k) times it has covariance
    Sigma, and ``(K - 1)`` times the estimate is Wishart with K - 1 degrees of freedom. Its elements
    have variance ``(K - 1) (Sigma_ij^2 + Sigma_ii Sigma_jj)``, those of the estimate that over
    (K - 1)^2, and an average of R estimates that over R.
    """
    diagonal = np.diag(covariance)
    variance = (covariance**2 + np.outer(diagonal, diagonal)) / (means - 1)
    return np.sqrt(variance / repeats)


def average_estimate(summaries):
    estimates = np.stack(list(estimate_class_covariances(summaries).values()))
    return estimates.mean(axis=0), estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))


SIGMA = np.array([[2.0, 0.6], [0.6, 0.5]])


class TestTheEstimatorIsUnbiased:
    # Every class is an independent repetition of the experiment, so one federation is the whole
    # Monte Carlo. A right estimator is off by five standard errors with a chance below 1e-6;
    # dividing by K in place of K - 1 would be off by ten and more.
    def test_over_draws_from_a_gaussian(self, rng):
        repeats, sizes = 4000, [1, 2, 5, 3]
        summaries = [
            summarize(
                rng.multivariate_normal([3.0, -1.0], SIGMA, size=repeats * size),
                np.repeat(np.arange(repeats), size),
                client_id=str(client),
            )
            for client, size in enumerate(sizes)
        ]
        average, _ = average_estimate(summaries)
        error = wishart_standard_error(SIGMA, len(sizes), repeats)
        assert (np.abs(average - SIGMA) < 5 * error).all()

    def test_over_draws_with_several_means_per_client(self, rng):
        repeats, sizes = 3000, [3, 7, 12]  # one, three and four means
        summaries = [
            summarize(
                rng.multivariate_normal([3.0, -1.0], SIGMA, size=repeats * size),
                np.repeat(np.arange(repeats), size),
                means_per_class=4,
                rng=client,
                client_id=str(client),
            )
            for client, size in enumerate(sizes)
        ]
        average, _ = average_estimate(summaries)
        error = wishart_standard_error(SIGMA, 1 + 3 + 4, repeats)
        assert (np.abs(average - SIGMA) < 5 * error).all()

    def test_over_partitions_of_fixed_samples_from_no_gaussian(self, rng):
        # Over all ways to deal N fixed samples to the clients, the estimate averages to the sample
        # covariance. Its standard error is measured, for the deals are independent.
        repeats, sizes = 4000, [1, 2, 5, 3]
        samples = rng.exponential(size=(sum(sizes), 2)) ** 2
        deals = np.stack([rng.permutation(samples) for _ in range(repeats)])
        parts = np.split(deals, np.cumsum(sizes)[:-1], axis=1)
        summaries = [
            summarize(part.reshape(-1, 2), np.repeat(np.arange(repeats), part.shape[1]))
            for part in parts
        ]
        average, error = average_estimate(summaries)
        assert (np.abs(average - np.cov(samples.T)) < 5 * error).all()


class TestTheBiasWhereClientsDiffer:
    SHARES = np.array([0.3, 0.3, 0.4])
    MEANS = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
    COVARIANCES = np.array([SIGMA, 3.0 * SIGMA, np.eye(2)])

    def population(self):
        """The covariance of a sample of any client."""
        deviations = self.MEANS - self.SHARES @ self.MEANS
        between = (deviations * self.SHARES[:, None]).T @ deviations
        return np.tensordot(self.SHARES, self.COVARIANCES, axes=1) + between

    def test_is_what_the_estimates_average_to_less_the_covariance(self, rng):
        # Appendix F takes the samples of all clients for one random sample: every sample draws
        # its client, so the counts are those that are expected.
        repeats, samples = 1500, 60
        client = rng.choice(3, p=self.SHARES, size=repeats * samples)
        roots = np.linalg.cholesky(self.COVARIANCES)
        noise = rng.normal(size=(repeats * samples, 2, 1))
        features = self.MEANS[client] + (roots[client] @ noise)[..., 0]
        labels = np.repeat(np.arange(repeats), samples)
        summaries = [
            summarize(features[client == k], labels[client == k], client_id=str(k))
            for k in range(3)
        ]
        average, error = average_estimate(summaries)
        bias = estimator_bias(samples * self.SHARES, self.MEANS, self.COVARIANCES)
        assert (np.abs(average - self.population() - bias) < 5 * error).all()
        assert (np.abs(bias) > 50 * error).all()  # so the means are what the test is about

    def test_is_zero_where_all_clients_are_alike(self):
        bias = estimator_bias([2, 5, 3], np.ones((3, 2)), np.stack([SIGMA] * 3))
        np.testing.assert_allclose(bias, 0.0, atol=1e-15)

    def test_of_a_class_with_one_mean_is_all_of_its_covariance(self):
        np.testing.assert_array_equal(estimator_bias([9], np.ones((1, 2)), [SIGMA]), -SIGMA)

    def test_of_the_within_scatter_is_the_sum_over_classes_with_a_row_a_mean(self, rng):
        labels = [0, 0, 0, 0, 1, 1]
        one, other = (
            fedcof.FedCOFOracle().summarize(rng.normal(size=(6, 2)), labels, client_id=name)
            for name in "ab"
        )
        # The first client sends two means of class 0.
        sent = [
            ClassMeans(classes=[0, 0, 1], counts=[2, 2, 2], means=np.ones((3, 2))),
            ClassMeans(classes=[0, 1], counts=[4, 2], means=np.ones((2, 2))),
        ]
        rows = [(one, 0), (one, 0), (other, 0)], [(one, 1), (other, 1)]
        expected = sum(
            (sum(counts) - 1)
            * estimator_bias(
                counts, [p.means[i] for p, i in drawn], [p.covariances[i] for p, i in drawn]
            )
            for counts, drawn in zip([(2, 2, 4), (2, 2)], rows, strict=True)
        )
        np.testing.assert_allclose(within_scatter_bias(sent, [one, other]), expected)


def test_with_every_sample_its_own_client_the_estimate_is_the_sample_covariance(rng):
    samples = rng.normal(size=(12, 3)) + 100.0
    summaries = [summarize(sample[None], ["a"]) for sample in samples]
    np.testing.assert_allclose(
        estimate_class_covariances(summaries)["a"], np.cov(samples.T), rtol=1e-11
    )


def test_two_means_on_a_line():
    # mu = (1 * 0 + 3 * 4) / 4 = 3; (1 * 9 + 3 * 1) / (2 - 1) = 12
    summaries = [
        ClassMeans(classes=[7], counts=[1], means=np.array([[0.0]])),
        ClassMeans(classes=[7], counts=[3], means=np.array([[4.0]])),
    ]
    assert estimate_class_covariances(summaries)[7] == 12.0
    assert estimate_class_covariances(summaries, shrinkage=0.5)[7] == 12.5


def test_k_is_the_number_of_means_of_the_class_and_not_of_clients(rng):
    means = rng.normal(size=(3, 2))
    summaries = [
        ClassMeans(classes=[0], counts=[2], means=means[:1]),
        ClassMeans(classes=[0], counts=[4], means=means[1:2]),
        ClassMeans(classes=[1], counts=[4], means=means[2:]),
    ]
    centred = means[:2] - (2 * means[0] + 4 * means[1]) / 6
    expected = (centred.T * [2, 4]) @ centred / (2 - 1)
    np.testing.assert_allclose(estimate_class_covariances(summaries)[0], expected)


def test_a_class_with_one_mean_has_only_its_shrinkage():
    summary = ClassMeans(classes=[0, 1, 1], counts=[9, 1, 1], means=np.eye(3))
    np.testing.assert_array_equal(estimate_class_covariances([summary], 2.0)[0], 2.0 * np.eye(3))
    scatter = ClassStatistics.of([summary]).scatter()
    shrunk = 2.0 * (9 - 1 + 2 - 1) * np.eye(3)
    np.testing.assert_allclose(scatter.within(2.0) - scatter.within(0.0), shrunk)


def test_the_estimates_are_a_mapping_by_label_in_order():
    summary = summarize(np.eye(3), ["dog", "cat", "dog"])
    estimates = estimate_class_covariances([summary])
    assert list(estimates) == ["cat", "dog"]
    assert len(estimates) == 2
    with pytest.raises(KeyError, match="cow"):
        estimates["cow"]


def test_the_estimates_do_not_depend_on_the_order_of_the_summaries(blobs, deal):
    summaries = deal(fedcof.FedCOF(), *blobs)
    one, other = (estimate_class_covariances(s) for s in (summaries, summaries[::-1]))
    assert all(one[label].tobytes() == other[label].tobytes() for label in one)


def test_proposition_2_the_gram_matrix_is_within_plus_between_plus_global(blobs):
    features, labels, _ = blobs
    summaries = [summarize(f[None], [y]) for f, y in zip(features, labels, strict=True)]
    found = ClassStatistics.of(summaries).scatter()
    mean = features.mean(axis=0)
    gram = found.within(0.0) + found.between() + len(features) * np.outer(mean, mean)
    np.testing.assert_allclose(gram, features.T @ features, rtol=1e-10, atol=1e-10)


def test_within_is_the_weighted_sum_of_the_class_covariances(blobs, deal):
    summaries = deal(fedcof.FedCOF(), *blobs)
    statistics = ClassStatistics.of(summaries)
    estimates = estimate_class_covariances(summaries, 0.3)
    expected = sum(
        (count - 1) * estimates[label]
        for label, count in zip(statistics.classes.tolist(), statistics.class_counts, strict=True)
    )
    np.testing.assert_allclose(statistics.scatter().within(0.3), expected, rtol=1e-10)


def test_between_is_the_scatter_of_the_class_means(blobs, deal):
    features, labels, _ = blobs
    expected = np.zeros((6, 6))
    for label in range(4):
        deviation = features[labels == label].mean(axis=0) - features.mean(axis=0)
        expected += (labels == label).sum() * np.outer(deviation, deviation)
    between = ClassStatistics.of(deal(fedcof.FedCOF(), *blobs)).scatter().between()
    np.testing.assert_allclose(between, expected, rtol=1e-10)
    assert np.linalg.matrix_rank(between) == 4 - 1


def test_statistics_count_samples_and_means(blobs, deal):
    features, labels, _ = blobs
    statistics = ClassStatistics.of(deal(fedcof.FedCOF(), *blobs))
    assert statistics.scatter().total == 240
    assert statistics.class_counts.tolist() == [90, 80, 60, 10]
    assert statistics.means_per_class.tolist() == [9, 8, 5, 1]
    np.testing.assert_allclose(statistics.scatter().global_mean, features.mean(axis=0))
    np.testing.assert_allclose(
        statistics.class_means(), [features[labels == label].mean(axis=0) for label in range(4)]
    )


def test_class_means_weigh_by_count():
    one = ClassMeans(client_ids=("a",), classes=[0], counts=[2], means=np.array([[1.0]]))
    other = ClassMeans(
        client_ids=("b",), classes=[0, 1], counts=[1, 5], means=np.array([[4.0], [7.0]])
    )
    statistics = ClassStatistics.of([one, other])
    np.testing.assert_array_equal(statistics.class_means(), [[2.0], [7.0]])
    np.testing.assert_array_equal(statistics.scatter().class_means, [[2.0], [7.0]])
    np.testing.assert_array_equal(statistics.class_counts, [3, 5])


def test_the_scatter_is_about_the_weighted_mean_of_every_group():
    rows = np.array([[0.0], [3.0], [5.0], [9.0]])
    means, scatter = scatter_about_means(
        [rows[:3], rows[3:]], np.array([2, 1, 0, 1]), np.array([0, 0, 1, 0]), 2
    )
    np.testing.assert_allclose(means, [[3.0], [5.0]])
    np.testing.assert_allclose(scatter, [[2 * 9.0 + 0.0 + 36.0]])


def test_samples_are_means_of_one(blobs):
    features, labels, _ = blobs
    one_each = [summarize(f[None], [y]) for f, y in zip(features, labels, strict=True)]
    found = ClassStatistics.of_samples(features, labels).scatter().within(0.0)
    np.testing.assert_array_equal(found, ClassStatistics.of(one_each).scatter().within(0.0))


def test_the_scatter_does_not_depend_on_the_blocks(rng, monkeypatch):
    rows, weights, index = rng.normal(size=(50, 3)), rng.random(50), np.repeat([0, 1], 25)
    means, whole = scatter_about_means([rows], weights, index, 2)
    monkeypatch.setattr("fedcof.numerics._BLOCK_BYTES", 7 * 3 * 8)
    in_blocks = scatter_about_means([rows], weights, index, 2)
    np.testing.assert_allclose(in_blocks[0], means, rtol=1e-13)
    np.testing.assert_allclose(in_blocks[1], whole, rtol=1e-13)


@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1.0), (1e4, 1.0), (1e4, 1e-2)])
def test_float32_means_far_from_zero_keep_the_digits_of_their_scatter(rng, offset, scale):
    # A class mean rounded to float32 was off by up to 5e-4 here, and the scatter by 1e-3.
    means = (offset + scale * rng.normal(size=(400, 4))).astype(np.float32)
    options = {"classes": rng.integers(3, size=400), "counts": rng.integers(1, 50, size=400)}
    found = ClassStatistics.of([ClassMeans(means=means, **options)]).scatter().within(0.0)
    exact = (
        ClassStatistics.of([ClassMeans(means=means.astype(float), **options)]).scatter().within(0.0)
    )
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * np.abs(exact).max())


def test_a_heavy_mean_far_out_costs_no_digits(rng):
    # The scatter is first taken about the heaviest mean of a class.
    means = rng.normal(size=(900, 4)).astype(np.float32)
    means[3] += 1e4
    options = {"classes": np.zeros(900, dtype=int), "counts": np.full(900, 2)}
    options["counts"][3] = 3
    found = ClassStatistics.of([ClassMeans(means=means, **options)]).scatter()
    exact = ClassStatistics.of([ClassMeans(means=means.astype(float), **options)]).scatter()
    np.testing.assert_allclose(found.class_means, exact.class_means, rtol=1e-6)
    error = np.abs(found.within(0.0) - exact.within(0.0)).max()
    assert error < 1e-5 * np.abs(exact.within(0.0)).max()


def test_float32_means_whose_squares_overflow_float32_have_a_finite_scatter(rng):
    means = rng.normal(size=(40, 2)).astype(np.float32)
    means[3, 1] = 1e30
    summary = ClassMeans(
        classes=np.zeros(40, dtype=int), counts=np.ones(40, dtype=int), means=means
    )
    found = ClassStatistics.of([summary]).scatter().within(0.0)
    np.testing.assert_allclose(found, 39 * np.cov(means.astype(float).T), rtol=1e-6)


def test_a_scatter_that_overflows_is_an_error_that_tells_the_value():
    summary = ClassMeans(classes=[0, 0], counts=[1, 1], means=np.array([[1e200], [-1e200]]))
    with pytest.raises(SummaryError, match=r"1e\+200; scale the features") as caught:
        ClassStatistics.of([summary]).scatter().within(0.0)
    assert caught.value.code == "overflow"


class TestConditionNumber:
    def test_is_the_largest_over_the_smallest_eigenvalue(self):
        assert condition_number(np.array([[2.0, 1.0], [1.0, 2.0]])) == pytest.approx(3.0)

    def test_leaves_out_the_eigenvalues_that_are_zero(self):
        assert condition_number(np.diag([0.0, 0.5, 8.0])) == pytest.approx(16.0)

    def test_leaves_out_what_rounding_makes_of_zero(self, rng):
        rows = rng.normal(size=(2, 6))
        assert condition_number(rows.T @ rows) == pytest.approx(condition_number(rows @ rows.T))

    def test_of_nothing_is_nan(self):
        assert np.isnan(condition_number(np.zeros((2, 2))))


def test_no_summary_is_an_error():
    with pytest.raises(SummaryError, match="no summary") as caught:
        estimate_class_covariances([])
    assert caught.value.code == "empty"


def test_summaries_without_class_means_are_refused():
    gram = fedcof.Fed3R().summarize(np.eye(2), [0, 1])
    with pytest.raises(SummaryError, match="expected 'class-means'") as caught:
        estimate_class_covariances([gram])
    assert caught.value.code == "kind"


def test_one_sample_a_class_has_no_scatter_within_and_is_an_error():
    scatter = ClassStatistics.of([summarize(np.eye(3), ["a", "b", "c"])]).scatter()
    with pytest.raises(SummaryError, match="3 classes have one sample each in all") as caught:
        scatter.gram(1.0)
    assert caught.value.code == "samples"
    np.testing.assert_allclose(scatter.gram(0.0, "both"), np.eye(3), atol=1e-15)
