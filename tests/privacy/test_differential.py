"""Differential privacy of sums: sensitivities, noise, what the server takes off."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

pytest.importorskip("opendp")

from fedcof import Fed3R, FedCOF, FedCOFLinearSketch, FedNCM
from fedcof.errors import SettingError, SummaryError
from fedcof.privacy.accountant import discrete_gaussian, epsilon_of, rho_of
from fedcof.privacy.differential import (
    CentralPrivacy,
    Noise,
    SimulatedNoise,
    distributed_rho,
    noise_ridge,
    noised,
    private_sums,
)
from fedcof.privacy.sums import sums_of
from fedcof.transforms import Clip

METHODS = [
    FedNCM(),
    Fed3R(ridge=0.1),
    FedCOF(shrinkage=0.1),
    FedCOFLinearSketch(width=3, rho=0.5, shrinkage=0.1),
]
DIM = 5
CLASSES = [0, 1, 2]


class NoNoise(Noise):
    def draw(self, scale, size):
        return np.zeros(size, np.int64)


def privacy_of(method, **changes):
    asked = {"epsilon": 1.0, "delta": 1e-5, "radius": 2.0, "samples": 1000, "clients": 20}
    return CentralPrivacy(private_sums(method, CLASSES, DIM), **{**asked, **changes})


def samples_of(rng, n):
    features = Clip(2.0)(rng.normal(size=(n, DIM)) * rng.exponential(size=(n, 1)))
    return features, rng.integers(len(CLASSES), size=n)


def integers_of(privacy, features, labels):
    vector = privacy.layout.encode(privacy.limited(features, labels)).view(np.int64)
    return {name: vector[place].astype(float) for name, _, place in privacy.layout.slices()}


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40))
def test_one_sample_changes_the_integers_by_at_most_the_sensitivity(method, seed, n):
    privacy = privacy_of(method)
    features, labels = samples_of(np.random.default_rng(seed), n)
    whole = integers_of(privacy, features, labels)
    without = integers_of(privacy, features[1:], labels[1:])
    for name, release in privacy.releases.items():
        assert np.linalg.norm(whole[name] - without[name]) <= release.sensitivity


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60))
def test_a_client_changes_the_integers_by_at_most_the_sensitivity(method, seed, n):
    privacy = privacy_of(method, neighbours="client", samples=10)
    own = integers_of(privacy, *samples_of(np.random.default_rng(seed), n))
    for name, release in privacy.releases.items():
        assert np.linalg.norm(own[name]) <= release.sensitivity


def test_the_sensitivity_is_reached():
    privacy = privacy_of(Fed3R())
    longest = np.zeros((1, DIM))
    longest[0, 0] = 2.0
    own = integers_of(privacy, longest, [1])
    for name, release in privacy.releases.items():
        assert np.linalg.norm(own[name]) == pytest.approx(release.sensitivity, rel=1e-6)


def test_a_client_within_its_limit_is_not_changed():
    privacy = privacy_of(FedNCM(), neighbours="client", samples=10)
    arrays = privacy.limited(np.ones((3, DIM)) / 2, [0, 1, 1])
    np.testing.assert_allclose(arrays["counts"], [1, 2, 0], rtol=1e-11)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
@pytest.mark.parametrize("honest", [1, 7])
def test_the_releases_cost_what_was_asked_for_and_no_more(method, honest):
    privacy = privacy_of(method, honest=honest)
    assert sum(privacy.shares.values()) == pytest.approx(1)
    spent = privacy.guarantee()
    assert epsilon_of(spent["rho"], 1e-5) <= 1.0
    assert spent["rho"] == pytest.approx(rho_of(1.0, 1e-5), rel=1e-5)


def test_the_accountant_gives_the_epsilon_of_the_gaussian_of_canonne_kamath_and_steinke():
    # min over a of rho a + log(1/(a delta))/(a-1) + log(1-1/a) (their proposition 12)
    a = np.linspace(1.001, 60, 200_000)
    expected = (0.5 * a + np.log(1 / (a * 1e-5)) / (a - 1) + np.log1p(-1 / a)).min()
    assert epsilon_of(0.5, 1e-5) == pytest.approx(expected, abs=1e-3)
    assert epsilon_of(rho_of(3.0, 1e-6), 1e-6) == pytest.approx(3.0)


def test_the_bound_of_many_shares_is_that_of_one_where_they_are_wide():
    one = distributed_rho(5.0, 100.0, 1, 1000)
    many = distributed_rho(5.0, 10.0, 100, 1000)
    assert one == pytest.approx(many) == pytest.approx(5.0**2 / (2 * 100.0**2))


def test_narrow_shares_cost_more_than_one_noise_of_their_variance():
    assert distributed_rho(5.0, 0.6, 100, 1000) > 1.2 * 5.0**2 / (2 * 6.0**2)
    with pytest.raises(SettingError, match="below 1/2: count on fewer"):
        distributed_rho(5.0, 0.4, 100, 1000)


def test_the_exact_noise_has_the_stated_distribution():
    draws = discrete_gaussian(2.5, 20_000)
    reach = np.arange(-7, 8)
    density = np.exp(-(np.arange(-60, 61) ** 2) / (2 * 2.5**2))
    expected = np.exp(-(reach**2) / (2 * 2.5**2)) / density.sum()
    seen = np.array([(draws == value).sum() for value in reach])
    rest, rest_seen = 1 - expected.sum(), len(draws) - seen.sum()
    observed, wanted = np.append(seen, rest_seen), len(draws) * np.append(expected, rest)
    assert stats.chisquare(observed, wanted).pvalue > 1e-6


@pytest.mark.parametrize("honest", [1, 4])
def test_the_sum_of_the_shares_has_the_stated_scale(honest):
    privacy = privacy_of(FedCOF(), honest=honest)
    shares = np.sum([privacy.share_of_noise() for _ in range(honest)], axis=0)
    numbers = shares.view(np.int64).astype(float)
    rho = rho_of(1.0, 1e-5)
    for name, _, place in privacy.layout.slices():
        deviation = privacy.releases[name].sensitivity / np.sqrt(2 * rho * privacy.shares[name])
        square = float((numbers[place] ** 2).sum()) / deviation**2
        low, high = stats.chi2.ppf([1e-6, 1 - 1e-6], privacy.releases[name].size)
        assert low < square < high, name


def test_two_draws_differ_and_seeded_ones_do_not():
    exact = privacy_of(FedNCM())
    assert (exact.share_of_noise() != exact.share_of_noise()).any()
    same = [privacy_of(FedNCM(), noise=SimulatedNoise(3)).share_of_noise() for _ in range(2)]
    np.testing.assert_array_equal(*same)


def test_a_head_of_simulated_noise_says_so_and_one_of_exact_noise_does_not():
    features, labels = samples_of(np.random.default_rng(0), 500)
    said = []
    for noise in ({}, {"noise": SimulatedNoise(0)}):
        privacy = privacy_of(FedNCM(), epsilon=8.0, **noise)
        head = privacy.head(privacy.addends(features, labels), answered=1)
        said.append(head.provenance.privacy["mechanism"])
    assert said == ["discrete Gaussian", "discrete Gaussian, simulated from a seed: no guarantee"]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_with_much_budget_the_head_is_the_open_one(method):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(3, DIM))
    labels = rng.integers(3, size=50_000)
    features = Clip(2.0)(centres[labels] * 0.5 + rng.normal(size=(50_000, DIM)) * 0.3)
    sums = private_sums(method, CLASSES, DIM)
    expected = sums.head([sums.addends(0, features, labels)])
    privacy = privacy_of(method, epsilon=100.0, noise=NoNoise(), samples=50_000)
    total = np.sum(
        [privacy.addends(features[k::3], labels[k::3]) for k in range(3)], axis=0, dtype=np.uint64
    )
    head = privacy.head(total, answered=3)
    np.testing.assert_allclose(
        head.weight, expected.weight, atol=0.02 * np.abs(expected.weight).max()
    )
    assert (head.predict(features) == expected.predict(features)).mean() > 0.99


def test_what_the_noise_adds_on_average_is_taken_off():
    privacy = privacy_of(FedCOF(), samples=10_000, epsilon=2.0)
    rng = np.random.default_rng(2)
    features, labels = samples_of(rng, 300)
    sums = privacy.sums
    exact = sums.addends(0, features, labels)
    scatter = sums.pooled([exact]).within_scatter
    deviations = {name: r.variance(1) ** 0.5 for name, r in privacy.releases.items()}
    total = np.zeros((DIM, DIM))
    for _ in range(600):
        noisy = {n: a + rng.normal(scale=deviations[n], size=a.shape) for n, a in exact.items()}
        noisy["counts"] = exact["counts"]
        counts = noisy["counts"]
        excess = deviations["sums"] ** 2 * (1 / counts).sum()
        total += sums.pooled([noisy]).within_scatter + excess * np.eye(DIM)
    np.testing.assert_allclose(total / 600, scatter, atol=0.25 * np.trace(scatter) / DIM)


def test_the_scatter_of_a_noisy_sum_is_definite():
    privacy = privacy_of(FedCOF(), noise=SimulatedNoise(0), epsilon=0.5)
    features, labels = samples_of(np.random.default_rng(2), 300)
    totals = privacy.layout.decode(privacy.addends(features, labels))
    scatter = privacy.sums.pooled([privacy.denoised(totals, 1)]).within_scatter
    assert np.linalg.eigvalsh(scatter)[0] > 0


@given(st.floats(1e-6, 1e6), st.integers(1, 9))
def test_the_ridge_of_the_noise_is_twice_its_self_energy(variance, dim):
    values = np.arange(dim, dtype=float)
    ridge = noise_ridge(values, variance)
    energy = variance * (1 / (values + ridge)).sum()
    assert ridge == pytest.approx(2 * energy, rel=1e-6)


def test_a_class_whose_count_is_within_the_noise_is_dropped():
    privacy = privacy_of(FedNCM(), noise=SimulatedNoise(0))
    features, labels = samples_of(np.random.default_rng(0), 900)
    labels[labels == 2] = 1
    head = privacy.head(privacy.addends(features, labels), answered=1)
    assert head.classes.tolist() == [0, 1]
    with pytest.raises(SummaryError, match="fewer than two classes"):
        privacy.head(privacy.addends(features[:9], labels[:9]), answered=1)


def test_too_few_shares_are_not_opened():
    privacy = privacy_of(FedNCM(), honest=3)
    with pytest.raises(SummaryError, match="2 clients answered and 3 are counted on"):
        privacy.head(np.zeros(privacy.layout.size, np.uint64), answered=2)


def test_one_who_is_trusted_adds_the_noise_once():
    privacy = privacy_of(FedNCM(), noise=NoNoise())
    features, labels = samples_of(np.random.default_rng(0), 30)
    own = privacy.layout.encode(privacy.limited(features, labels))
    np.testing.assert_array_equal(noised(privacy, [own, own]), own + own)


def test_a_feature_longer_than_the_radius_is_refused():
    with pytest.raises(SummaryError, match="let the transform end with clip:2"):
        privacy_of(FedNCM()).addends(np.ones((1, DIM)), [0])


def test_more_samples_than_agreed_are_refused():
    with pytest.raises(SummaryError, match="3 samples, the federation agreed on at most 2"):
        privacy_of(FedNCM(), samples=2).addends(np.zeros((3, DIM)), [0, 1, 1])


def test_fedcof_in_two_phases_is_refused_and_its_scatter_taken_instead():
    with pytest.raises(SettingError, match="private_sums gives its head"):
        CentralPrivacy(sums_of(FedCOF(), CLASSES, DIM), 1.0, 1e-5, 2.0)
    assert "gram" in private_sums(FedCOF(), CLASSES, DIM).layout(0)


@pytest.mark.parametrize(
    "changes",
    [{"epsilon": 0.0}, {"epsilon": 101.0}, {"delta": 1.0}, {"radius": np.inf}, {"honest": 21}],
    ids=str,
)
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(SettingError, match=next(iter(changes))):
        privacy_of(FedNCM(), **changes)


def test_noise_by_client_is_drawn_however_few_the_clients_are():
    sums = private_sums(FedNCM(), [0, 1], dim=2)
    privacy = CentralPrivacy(
        sums, epsilon=0.1, delta=1e-5, radius=4.0, neighbours="client", samples=900, clients=1
    )
    assert privacy.share_of_noise().shape == (6,)
