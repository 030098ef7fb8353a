import numpy as np
import pytest

from fedcof import FedCOF, FewMeansWarning, SingularScatterWarning, from_bytes, summarize


def algorithm_1(means, counts, labels, gamma, scatter="within"):
    """The paper's server side, line by line, from the means of all clients in one list.

    K is the number of means of the class; a class with one mean has no first term. In the paper's
    ablation another scatter takes the place of the first terms, the shrinkage stays.
    """
    dim, classes = means.shape[1], sorted(set(labels))
    mu, N, sigma = {}, {}, {}
    for c in classes:
        mine = [i for i in range(len(labels)) if labels[i] == c]
        K = len(mine)
        N[c] = sum(counts[i] for i in mine)
        mu[c] = sum(counts[i] * means[i] for i in mine) / N[c]
        sigma[c] = np.zeros((dim, dim))
        if K > 1:
            for i in mine:
                sigma[c] += counts[i] * np.outer(means[i] - mu[c], means[i] - mu[c]) / (K - 1)
    total = sum(N.values())
    mu_g = sum(N[c] * mu[c] for c in classes) / total
    G = total * np.outer(mu_g, mu_g)
    G += sum((N[c] - 1) * gamma * np.eye(dim) for c in classes)
    if scatter in ("within", "both"):
        G += sum((N[c] - 1) * sigma[c] for c in classes)
    if scatter in ("between", "both"):
        G += sum(N[c] * np.outer(mu[c] - mu_g, mu[c] - mu_g) for c in classes)
    B = np.stack([mu[c] * N[c] for c in classes], axis=1)
    if np.linalg.matrix_rank(G, hermitian=True) == dim:
        W = np.linalg.inv(G) @ B
    else:
        W = np.linalg.pinv(G, rcond=1e-12, hermitian=True) @ B
    return np.stack([row / np.linalg.norm(row) for row in W.T])


def all_means(summaries):
    return (
        np.concatenate([summary.means for summary in summaries]).astype(np.float64),
        np.concatenate([summary.counts for summary in summaries]).tolist(),
        np.concatenate([summary.classes for summary in summaries]).tolist(),
    )


@pytest.mark.parametrize("gamma", [0.0, 0.01, 1.0, 100.0])
@pytest.mark.parametrize("scatter", ["within", "both", "between"])
@pytest.mark.filterwarnings("ignore::fedcof.SingularScatterWarning")
def test_the_head_is_that_of_algorithm_1(blobs, deal, gamma, scatter):
    method = FedCOF(shrinkage=gamma, scatter=scatter)
    summaries = deal(method, *blobs)
    head = method.solve(summaries)
    expected = algorithm_1(*all_means(summaries), gamma, scatter)
    np.testing.assert_allclose(head.weight, expected, rtol=1e-7, atol=1e-9)
    assert head.bias is None


def test_the_head_of_several_means_is_that_of_algorithm_1(blobs, deal):
    method = FedCOF(means_per_class=3)
    summaries = deal(method, *blobs, rng=0)
    means, counts, labels = all_means(summaries)
    assert labels.count(3) == 3  # all at one client
    np.testing.assert_allclose(
        method.solve(summaries).weight, algorithm_1(means, counts, labels, 1.0), rtol=1e-8
    )


def test_many_means_in_float32_give_the_head_of_algorithm_1(rng, deal):
    # More than eight rows a dimension are multiplied in float32.
    features = (rng.gamma(1.0, size=(600, 5)) * [1, 2, 3, 4, 5]).astype(np.float32)
    labels, clients = rng.integers(3, size=600), rng.integers(40, size=600)
    summaries = [from_bytes(s.to_bytes()) for s in deal(FedCOF(), features, labels, clients)]
    np.testing.assert_allclose(
        FedCOF().solve(summaries).weight, algorithm_1(*all_means(summaries), 1.0), atol=1e-5
    )


def test_between_class_scatter_without_shrinkage_has_the_rank_of_the_classes(blobs, deal):
    method = FedCOF(shrinkage=0.0, scatter="between")
    with pytest.warns(SingularScatterWarning, match="rank 4 of 6"):
        method.solve(deal(method, *blobs))


def test_few_means_without_shrinkage_get_the_minimum_norm_solution(rng):
    summaries = [
        summarize(rng.normal(size=(4, 6)), [0, 0, 1, 1], client_id=str(client))
        for client in range(2)
    ]
    with pytest.warns(SingularScatterWarning, match="rank 3 of 6"):
        head = FedCOF(shrinkage=0.0).solve(summaries)
    np.testing.assert_allclose(
        head.weight, algorithm_1(*all_means(summaries), 0.0), rtol=1e-7, atol=1e-9
    )


def test_every_sample_its_own_client_and_both_scatters_are_ridge_regression(blobs):
    # Proposition 2: then G is F F^T, but for gamma (N - C) in place of lambda.
    features, labels, _ = blobs
    summaries = [summarize(f[None], [y]) for f, y in zip(features, labels, strict=True)]
    head = FedCOF(shrinkage=0.5, scatter="both").solve(summaries)
    targets = (labels[:, None] == np.arange(4)).astype(float)
    system = features.T @ features + 0.5 * (240 - 4) * np.eye(6)
    expected = np.linalg.solve(system, features.T @ targets).T
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(head.weight, expected, rtol=1e-10)


def test_a_class_with_one_mean_takes_no_part_in_the_scatter(rng):
    # Its covariance would be 0 / 0.
    one = summarize(rng.normal(size=(7, 3)), [0, 0, 0, 1, 1, 1, 2], client_id="a")
    other = summarize(rng.normal(size=(6, 3)), [0, 0, 0, 1, 1, 1], client_id="b")
    head = FedCOF().solve([one, other])
    np.testing.assert_allclose(head.weight, algorithm_1(*all_means([one, other]), 1.0), rtol=1e-10)


def test_one_mean_for_every_class_is_said_since_no_covariance_comes_of_it(rng):
    site = FedCOF().summarize(rng.normal(size=(6, 2)), [0, 0, 0, 1, 1, 1])
    with pytest.warns(FewMeansWarning, match="let clients send several means"):
        FedCOF().solve([site])
