"""Heads of sites: between the site's own means and priors and those of all."""

from dataclasses import asdict

import numpy as np
import pytest

from fedcof import (
    CCVR,
    Fed3R,
    FedCOF,
    FedCOFDiagonal,
    FedCOFOracle,
    FedCOFSketch,
    FedCOFSpherical,
    FedNCM,
    LinearHead,
    SummaryError,
    merge,
    site_heads,
)
from fedcof.site_heads import _Sites, concentration, samples_to_trust

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedcof.FewMeansWarning", "ignore::fedcof.errors.OddSiteWarning"
)


def federation(*, between, sites=12, classes=3, dim=40, sizes=(4, 80), seed=0):
    """Samples of sites whose means differ by a variance of `between`, that of a sample being 1."""
    rng = np.random.default_rng(seed)
    centres = 3 * rng.normal(size=(classes, dim))
    data = {}
    for i in range(sites):
        own = centres + between**0.5 * rng.normal(size=(classes, dim))
        labels = np.repeat(np.arange(classes), rng.integers(*sizes, size=classes))
        data[f"s{i:02d}"] = own[labels] + rng.normal(size=(len(labels), dim)), labels
    return data


def summaries(method, data):
    return [method.summarize(*held, client_id=n, rng=0) for n, held in data.items()]


def gathered(method, data):
    parts = summaries(method, data)
    classes = np.unique(np.concatenate([part.classes for part in parts]))
    sites = _Sites.of(parts, classes)
    counts = np.bincount(sites.class_index, sites.counts)
    sums = np.zeros((len(classes), sites.means.shape[1]))
    np.add.at(sums, sites.class_index, sites.counts[:, None] * sites.means)
    return sites, sums / counts[:, None]


def median_tau(method, between):
    data = (federation(between=between, seed=seed) for seed in range(5))
    return np.median([samples_to_trust(*gathered(method, held)) for held in data])


KNOWING = [Fed3R(), FedCOFOracle(), FedCOFDiagonal(), FedCOFSpherical(), FedCOF(means_per_class=2)]


@pytest.mark.parametrize("method", KNOWING, ids=lambda method: method.name)
def test_tau_is_the_variance_of_a_sample_over_that_of_the_sites(method):
    for between in (0.02, 0.5):
        assert median_tau(method, between) == pytest.approx(1 / between, rel=0.2)


def test_tau_from_one_mean_a_class_is_told_by_how_the_spread_falls_with_the_counts():
    assert median_tau(FedCOF(), 0.1) == pytest.approx(10, rel=0.3)


def test_moments_by_hand():
    data = {"a": ([[0.0], [2.0]], [0, 0]), "b": ([[4.0], [4.0], [10.0]], [0, 0, 1])}
    sites, means = gathered(FedCOFOracle(), {n: (np.array(x), y) for n, (x, y) in data.items()})
    assert sites.client_ids == ("a", "b")
    assert (sites.counts.tolist(), sites.means.ravel().tolist()) == ([2, 2, 1], [1.0, 4.0, 10.0])
    assert (sites.within_trace, sites.freedom) == (2.0, 2)  # s = 1
    # both sites of class 0: |m - mu|^2 = 2.25, a = 1/4, b = 1/2; so t = (9 - 1) / 2 = 4
    assert samples_to_trust(sites, means) == pytest.approx(1 / 4)


@pytest.mark.parametrize("method", [*KNOWING, FedCOF()], ids=lambda method: method.name)
def test_where_nothing_shows_a_difference_the_means_are_those_of_all(method):
    same = np.arange(8.0).reshape(4, 2), np.array([0, 0, 1, 1])
    sites, means = gathered(method, {"a": same, "b": same})
    assert samples_to_trust(sites, means) == np.inf
    one = gathered(method, {"a": same})
    assert samples_to_trust(*one) == np.inf


def test_concentration_is_found_again():
    rng = np.random.default_rng(0)
    shares = np.array([0.5, 0.3, 0.2])
    for a in (0.5, 20.0):
        data = {}
        for i in range(300):
            labels = np.repeat(np.arange(3), rng.multinomial(40, rng.dirichlet(a * shares)))
            data[f"{i:03d}"] = np.zeros((40, 1)), labels
        sites, _ = gathered(FedCOF(), data)
        assert concentration(sites, shares) == pytest.approx(a, rel=0.2)


@pytest.mark.parametrize("form", ["regression", "lda"])
def test_sites_that_are_alike_have_the_head_of_all(form):
    same = federation(between=0, sites=1)["s00"]
    parts = summaries(Fed3R(form=form), {"a": same, "b": same})
    everybody = Fed3R(form="lda").solve(parts)
    for head in site_heads(Fed3R(form=form), parts).values():
        np.testing.assert_allclose(head.weight, everybody.weight, atol=1e-8)
        np.testing.assert_allclose(head.bias, everybody.bias, atol=1e-6)


@pytest.mark.parametrize("method", KNOWING, ids=lambda method: method.name)
def test_a_site_that_differs_is_better_served_by_its_own_head(method):
    data = federation(between=6.0, sites=6, classes=5, dim=8, sizes=(3, 30))
    rng, parts = np.random.default_rng(1), summaries(method, data)
    everybody, own = method.solve(parts), site_heads(method, parts)
    gained = []
    for name, (X, y) in data.items():
        fresh = np.stack([X[y == c].mean(axis=0) for c in range(5)])[y] + rng.normal(size=X.shape)
        gained.append(own[name].score(fresh, y) - everybody.score(fresh, y))
    assert np.mean(gained) > 0.05


def test_a_class_that_a_site_does_not_hold_stays_possible_and_rare():
    data = federation(between=0)
    X, y = data["s00"]
    parts = summaries(FedCOFOracle(), data | {"short": (X[y < 2], y[y < 2])})
    heads = site_heads(FedCOFOracle(), parts)
    assert heads["short"].classes.tolist() == [0, 1, 2]
    assert heads["short"].predict(X[y == 2]).tolist() == [2] * sum(y == 2)
    between_classes = [(X[y == 0].mean(axis=0) + X[y == 2].mean(axis=0)) / 2]
    rare, usual = (heads[n].predict_log_proba(between_classes)[0, 2] for n in ("short", "s00"))
    assert rare < usual - 1


def test_merged_means_give_the_same_heads_and_a_sum_none():
    data = federation(between=0.1)
    parts = summaries(FedCOF(), data)
    one, other = site_heads(FedCOF(), parts), site_heads(FedCOF(), [merge(parts[5:]), *parts[:5]])
    assert list(one) == list(other) == sorted(data)
    assert all(one[name].to_bytes() == other[name].to_bytes() for name in one)
    with pytest.raises(SummaryError, match="keeps no client apart"):
        site_heads(Fed3R(), [merge(summaries(Fed3R(), data))])


def test_a_head_says_whose_it_is_and_survives_a_file(tmp_path):
    heads = site_heads(FedCOFOracle(), summaries(FedCOFOracle(), federation(between=0.5)))
    heads["s03"].save(tmp_path / "head.safetensors")
    settings = LinearHead.load(tmp_path / "head.safetensors").provenance.hyperparameters
    assert settings["site"] == "s03"
    assert settings["site_tau"] == pytest.approx(2, rel=0.4)
    assert "site" not in heads.everybody.provenance.hyperparameters


def test_what_has_no_head_of_its_own_is_said():
    data = federation(between=0.1, sites=2)
    heads = site_heads(FedCOF(), [*summaries(FedCOF(), data), FedCOF().summarize(*data["s00"])])
    assert list(heads) == ["s00", "s01"]
    assert len(heads) == 2
    for name in ("", "s02"):
        with pytest.raises(KeyError, match=f"no head of a client '{name}'; .* 's00', 's01'"):
            heads[name]
    for method in (FedNCM(), CCVR()):
        with pytest.raises(SummaryError, match=f"{method.name} knows no scatter within"):
            site_heads(method, summaries(method, data))


@pytest.mark.parametrize(
    "method",
    [FedCOFSketch(), FedCOF(shrinkage="auto"), Fed3R(ridge="auto"), FedCOF(shrinkage_relative=0.3)],
    ids=lambda method: method.name,
)
def test_heads_of_sites_have_the_settings_that_were_chosen_for_the_head_of_all(method):
    # They once took the shrinkage as it was asked for: the word auto, or 1 in place of a share.
    parts = summaries(method, federation(between=1.0))
    of_all = method.solve(parts).provenance
    own = site_heads(method, parts)["s03"].provenance
    assert list(own.automatic) == list(of_all.automatic)
    chosen = {name: of_all.hyperparameters[name] for name in asdict(method)}
    same = site_heads(type(method)(**chosen), parts)["s03"]
    np.testing.assert_array_equal(site_heads(method, parts)["s03"].weight, same.weight)
