import numpy as np
import pytest

from fedcof import FedCOF, FedCOFDiagonal, FedCOFOracle, FedCOFSpherical, summarize


def aggregate(summaries, label):
    """N_c, mu_c and Sigma_c by eq. cov_aggregate, literally: not centred."""
    rows = [(s, i) for s in summaries for i, c in enumerate(s.classes) if c == label]
    total = sum(s.counts[i] for s, i in rows)
    mean = sum(s.counts[i] * s.means[i] for s, i in rows) / total
    covariance = -total / (total - 1) * np.outer(mean, mean)
    for s, i in rows:
        covariance += (s.counts[i] - 1) / (total - 1) * s.covariances[i]
        covariance += s.counts[i] / (total - 1) * np.outer(s.means[i], s.means[i])
    return total, mean, covariance


def head_of(classes, gamma):
    """Equation classifier-init from (N_c, mu_c, Sigma_c) of every class."""
    total = sum(N for N, _, _ in classes)
    mu_g = sum(N * mu for N, mu, _ in classes) / total
    G = total * np.outer(mu_g, mu_g)
    G += sum((N - 1) * (sigma + gamma * np.eye(len(mu))) for N, mu, sigma in classes)
    W = np.linalg.inv(G) @ np.stack([N * mu for N, mu, _ in classes], axis=1)
    return (W / np.linalg.norm(W, axis=0)).T


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_the_oracle_is_the_papers_formula(blobs, deal, gamma):
    method = FedCOFOracle(shrinkage=gamma)
    summaries = deal(method, *blobs)
    expected = head_of([aggregate(summaries, label) for label in range(4)], gamma)
    np.testing.assert_allclose(method.solve(summaries).weight, expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("method", "reduce"),
    [
        (FedCOFOracle(), np.asarray),
        (FedCOFDiagonal(), lambda covariance: np.diag(np.diag(covariance))),
        (FedCOFSpherical(), lambda covariance: np.diag(covariance).mean() * np.eye(6)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_only_what_a_client_holds_is_reduced_to_a_diagonal_or_a_sphere(blobs, deal, method, reduce):
    # What lies between the clients' means was reduced as well, though the server has these means.
    full = deal(FedCOFOracle(), *blobs)
    for summary in full:
        reduced = np.stack([reduce(covariance) for covariance in summary.covariances])
        object.__setattr__(summary, "covariances", reduced)
    expected = head_of([aggregate(full, label) for label in range(4)], 1.0)
    weight = method.solve(deal(method, *blobs)).weight
    np.testing.assert_allclose(weight, expected, rtol=1e-9)


def test_fedcof_with_every_sample_its_own_client_is_the_oracle(blobs, deal):
    features, labels, _ = blobs
    singletons = [summarize(f[None], [y]) for f, y in zip(features, labels, strict=True)]
    oracle = FedCOFOracle().solve(deal(FedCOFOracle(), *blobs))
    np.testing.assert_allclose(FedCOF().solve(singletons).weight, oracle.weight, rtol=1e-9)


def test_one_sample_of_a_class_at_every_client_is_enough(rng):
    method = FedCOFOracle()
    features = rng.normal(size=(8, 3))
    summaries = [
        method.summarize(features[i : i + 2], [0, 1], client_id=str(i)) for i in range(0, 8, 2)
    ]
    classes = [(4, x.mean(axis=0), np.cov(x.T)) for x in (features[::2], features[1::2])]
    np.testing.assert_allclose(method.solve(summaries).weight, head_of(classes, 1.0), rtol=1e-9)
