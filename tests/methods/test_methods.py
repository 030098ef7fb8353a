"""What holds for every method."""

import numpy as np
import pytest

import fedcof
from fedcof import METHODS, SettingError, SummaryError, from_bytes, get_method
from fedcof.summaries import Gram

# few clients, as here, may leave one mean a class
pytestmark = pytest.mark.filterwarnings("ignore::fedcof.FewMeansWarning")

NAMES = [
    "afl",
    "ccvr",
    "fed3r",
    "fed3r-lossless",
    "fedcgs",
    "fedcof",
    "fedcof-diagonal",
    "fedcof-linear-sketch",
    "fedcof-oracle",
    "fedcof-pooled",
    "fedcof-spherical",
    "fedncm",
    "fedpft-diagonal",
    "fedpft-spherical",
    "fedran",
    "fishermix",
    "gh-lda",
    "gh-qda",
    "slot-align",
    "stsa-e",
]
TRAINED = ("ccvr", "fedpft-diagonal", "fedpft-spherical", "fishermix")
"""An optimiser stops within its tolerance."""
every_method = pytest.mark.parametrize("method", [get_method(name) for name in NAMES], ids=NAMES)


class TestRegistry:
    def test_every_method_has_its_name(self):
        assert set(NAMES) <= set(METHODS)
        assert all(METHODS[name].name == name for name in METHODS)

    def test_a_method_is_made_with_its_hyperparameters(self):
        assert get_method("fed3r", ridge=0.5) == fedcof.Fed3R(ridge=0.5)

    def test_an_unknown_name_lists_the_near_ones(self):
        with pytest.raises(ValueError, match=r"'fedcov'; did you mean fedcof or fed"):
            get_method("fedcov")

    def test_a_name_that_is_near_to_none_lists_them_all(self):
        with pytest.raises(ValueError, match=r"ccvr or fed3r or .* or fedcof or .* or fedncm"):
            get_method("zzz")

    @pytest.mark.parametrize(
        ("name", "hyperparameters", "message"),
        [
            ("fedcof", {"shrinkage": -1.0}, "shrinkage must be a finite number, at least 0"),
            ("fedcof", {"shrinkage": np.nan}, "it is nan"),
            ("fedcof", {"shrinkage": np.inf}, "it is inf"),
            ("fedcof", {"means_per_class": 0}, "means_per_class must be an integer, at least 1"),
            ("fedcof", {"scatter": "total"}, r"one of within, between, both, it is 'total'"),
            ("fedcof-oracle", {"shrinkage": -0.1}, "shrinkage must be"),
            ("fedcof-diagonal", {"shrinkage": np.nan}, "shrinkage must be"),
            ("fed3r", {"ridge": -0.1}, "ridge must be a finite number, at least 0 or 'auto', it"),
            ("ccvr", {"samples_per_class": 0}, "samples_per_class must be"),
            ("ccvr", {"max_iter": 0}, "max_iter must be"),
        ],
    )
    def test_a_hyperparameter_out_of_range_is_refused(self, name, hyperparameters, message):
        with pytest.raises(ValueError, match=message):
            get_method(name, **hyperparameters)

    def test_a_method_is_frozen(self):
        with pytest.raises(AttributeError):
            fedcof.FedCOF().shrinkage = 2.0


@every_method
class TestEveryMethod:
    def test_learns_blobs_dealt_to_clients(self, method, deal, rng):
        labels = np.repeat(["cat", "cow", "dog"], 60)
        means = 4.0 * np.eye(3, 5)[[0, 1, 2]].repeat(60, axis=0)
        features = means + rng.normal(size=(180, 5))
        head = method.solve(deal(method, features, labels, rng.integers(8, size=180)))
        assert head.classes.tolist() == ["cat", "cow", "dog"]
        assert head.score(features, labels) > 0.9

    def test_says_where_its_head_comes_from(self, method, deal, blobs):
        summaries = deal(method, *blobs)
        provenance = method.solve(summaries).provenance
        assert provenance.method == method.name
        assert provenance.clients == 9
        assert provenance.samples == 240
        assert provenance.formula_bytes == sum(summary.formula_bytes for summary in summaries)
        made = get_method(provenance.method, **provenance.hyperparameters)
        if not provenance.automatic:
            assert made == method
        assert made.solve(summaries).to_bytes() == made.solve(summaries[::-1]).to_bytes()

    def test_gives_the_same_bytes_again(self, method, deal, blobs):
        heads = [method.solve(deal(method, *blobs)) for _ in range(2)]
        assert heads[0].slopes.tobytes() == heads[1].slopes.tobytes()

    def test_has_no_row_for_a_class_that_nobody_holds(self, method, deal, blobs):
        features, labels, clients = blobs
        held = labels != 1
        head = method.solve(deal(method, features[held], labels[held], clients[held]))
        assert head.classes.tolist() == [0, 2, 3]
        assert head.slopes.shape == (3, 6)

    def test_takes_a_class_at_a_single_client(self, method, deal, blobs):
        head = method.solve(deal(method, *blobs))
        assert np.isfinite(head.slopes).all()
        assert np.linalg.norm(head.slopes[3]) > 0

    def test_takes_a_class_of_one_sample(self, method, rng):
        features, labels = rng.normal(size=(9, 3)), [0, 0, 0, 0, 1, 1, 1, 1, 2]
        head = method.solve([method.summarize(features, labels)])
        assert np.isfinite(head.slopes).all()

    def test_takes_a_single_client(self, method, blobs):
        features, labels, _ = blobs
        assert method.solve([method.summarize(features, labels)]).slopes.shape == (4, 6)

    def test_takes_summaries_from_the_wire(self, method, deal, blobs):
        summaries = deal(method, *blobs)
        head = method.solve(summaries)
        received = method.solve([from_bytes(summary.to_bytes()) for summary in summaries])
        if method.name not in TRAINED:
            np.testing.assert_allclose(received.slopes, head.slopes, atol=1e-4)
        assert received.provenance.formula_bytes == head.provenance.formula_bytes

    def test_refuses_one_class_in_all(self, method):
        with pytest.raises(
            SummaryError, match="only the class 7; a classifier needs two"
        ) as caught:
            method.solve([method.summarize(np.eye(3), [7, 7, 7])])
        assert caught.value.code == "classes"

    def test_refuses_no_summary(self, method):
        with pytest.raises(SummaryError, match="no client has answered") as caught:
            method.solve([])
        assert caught.value.code == "empty"

    def test_refuses_a_client_twice(self, method):
        summary = method.summarize(np.eye(3), [0, 1, 1], client_id="a")
        with pytest.raises(SummaryError, match="client 'a': appears twice") as caught:
            method.solve([summary, summary])
        assert caught.value.code == "duplicate-client"

    def test_refuses_another_kind_of_summary(self, method):
        other = fedcof.Fed3R() if method.summary_type is not Gram else fedcof.FedCOF()
        with pytest.raises(SummaryError, match="expected") as caught:
            method.solve([other.summarize(np.eye(3), [0, 1, 1])])
        assert caught.value.code == "kind"


@pytest.mark.parametrize("name", ["fedcof", "fedcof-oracle", "fedcof-diagonal", "fedcof-spherical"])
def test_one_sample_a_class_is_refused_where_the_spread_within_a_class_is_needed(name):
    method = get_method(name)
    parts = [
        method.summarize(np.eye(3)[:1], [0], client_id="a"),
        method.summarize(np.eye(3)[1:], [1, 2], client_id="b"),
    ]
    with pytest.raises(SummaryError, match="one sample each in all") as caught:
        method.solve(parts)
    assert caught.value.code == "samples"


@pytest.mark.parametrize("name", ["fedncm", "fed3r"])
def test_one_sample_a_class_is_enough_where_it_is_not(name):
    method = get_method(name)
    head = method.solve([method.summarize(np.eye(3), ["a", "b", "c"])])
    assert head.predict(np.eye(3)).tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["ccvr", "fed3r", "fedcof-oracle"])
def test_pooling_all_samples_is_pooling_the_clients_where_it_does_not_matter_who_holds_what(
    name, deal, blobs
):
    method, (features, labels, _) = get_method(name), blobs
    head = method.fit(method.pool_samples(features, labels))
    federated = method.solve(deal(method, *blobs))
    assert head.classes.tolist() == federated.classes.tolist()
    np.testing.assert_allclose(
        head.decision_function(features), federated.decision_function(features), atol=1e-4
    )


def test_fedcof_depends_on_who_holds_what(blobs):
    assert fedcof.FedCOF().pool_samples(*blobs[:2]) is None


def test_a_hyperparameter_that_the_method_lacks_is_refused_by_name():
    # It was a TypeError of the dataclass, which a client could not tell from a fault of its own.
    with pytest.raises(
        SettingError, match=r"ridge is no hyperparameter of fedcof, which has .*shrink"
    ):
        get_method("fedcof", ridge=1.0)
