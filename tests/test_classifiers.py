import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedcof
from fedcof import (
    CCVRClassifier,
    FeatureTransformer,
    Fed3RClassifier,
    FedCOF,
    FedCOFClassifier,
    FedNCMClassifier,
    LinearHead,
    SummaryError,
)
from fedcof.transforms import Standardize, parse

ALL = [FedNCMClassifier(), Fed3RClassifier(), FedCOFClassifier(), CCVRClassifier()]
PROBABILISTIC = [Fed3RClassifier(form="lda"), FedCOFClassifier(form="lda"), CCVRClassifier()]
every_classifier = pytest.mark.parametrize("classifier", ALL, ids=lambda c: type(c).__name__)


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=90)
    features = rng.normal(size=(90, 5)) + 2.0 * np.eye(3, 5)[labels]
    clients = rng.integers(12, size=90)
    return features, labels, clients


@parametrize_with_checks([*ALL, *PROBABILISTIC[:2], FeatureTransformer()])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@every_classifier
def test_a_real_problem_is_learnt(classifier):
    X, y = load_digits(return_X_y=True)
    assert cross_val_score(clone(classifier), X / 16.0, y, cv=3).min() > 0.75


@every_classifier
def test_labels_of_any_type_come_back(classifier, samples):
    X, y, clients = samples
    expected = clone(classifier).fit(X, y, clients).predict(X)
    for names in (np.array(["a", "b", "c"]), np.array(["a", "b", "c"], object), np.r_[0.0, 1, 7]):
        fitted = clone(classifier).fit(X, names[y], clients)
        np.testing.assert_array_equal(fitted.predict(X), names[expected])
        np.testing.assert_array_equal(fitted.classes_, names)
        np.testing.assert_array_equal(fitted.head_.classes, names)


@every_classifier
def test_the_decision_picks_the_prediction(classifier, samples):
    X, y, clients = samples
    fitted = clone(classifier).fit(X, y, clients)
    decision = fitted.decision_function(X)
    assert decision.shape == (90, 3)
    np.testing.assert_array_equal(fitted.classes_[decision.argmax(axis=1)], fitted.predict(X))


@every_classifier
def test_two_classes_have_one_score_and_a_positive_one_is_the_second(classifier, samples):
    X, y, clients = samples
    fitted = clone(classifier).fit(X, np.where(y == 0, "no", "yes"), clients)
    decision = fitted.decision_function(X)
    assert decision.shape == (90,)
    np.testing.assert_array_equal(np.where(decision > 0, "yes", "no"), fitted.predict(X))


@pytest.mark.filterwarnings("ignore::fedcof.FewMeansWarning")
@every_classifier
def test_clients_that_come_later_make_the_same_head(classifier, samples):
    X, y, clients = samples
    at_once = clone(classifier).fit(X, y, clients)
    later = clone(classifier)
    for one in range(12):
        mine = clients == one
        later.partial_fit(X[mine], y[mine], classes=[0, 1, 2], clients=clients[mine])
    np.testing.assert_allclose(later.head_.weight, at_once.head_.weight, rtol=1e-6, atol=1e-9)
    assert later.summary_.client_ids == at_once.summary_.client_ids
    assert later.summary_.total == 90


@every_classifier
def test_fit_forgets_what_came_before(classifier, samples):
    X, y, clients = samples
    fresh = clone(classifier).fit(X, y, clients)
    again = clone(classifier).fit(X[:, :3] + 1.0, y > 0).fit(X, y, clients)
    np.testing.assert_array_equal(again.head_.weight, fresh.head_.weight)


@every_classifier
def test_a_client_seen_before_is_refused_and_nothing_changes(classifier, samples):
    X, y, clients = samples
    fitted = clone(classifier).fit(X, y, clients)
    summary, head = fitted.summary_, fitted.head_
    with pytest.raises(SummaryError, match="client '3': appears twice"):
        fitted.partial_fit(X[:2], y[:2], clients=["new", "3"])
    assert fitted.summary_ is summary
    assert fitted.head_ is head


@every_classifier
def test_clients_without_a_name_never_clash(classifier, samples):
    X, y, _ = samples
    halves = clone(classifier).fit(X[:45], y[:45]).partial_fit(X[45:], y[45:])
    whole = clone(classifier).fit(X, y)
    np.testing.assert_allclose(halves.head_.weight, whole.head_.weight, rtol=1e-6, atol=1e-9)


@every_classifier
def test_a_first_client_of_one_class_waits_for_another(classifier, samples):
    X, y, _ = samples
    waiting = clone(classifier).partial_fit(X[y == 1], y[y == 1], classes=[0, 1, 2])
    with pytest.raises(NotFittedError):
        waiting.predict(X)
    waiting.partial_fit(X[y == 2], y[y == 2])
    assert set(waiting.predict(X)) == {1, 2}
    assert np.isneginf(waiting.decision_function(X)[:, 0]).all()


def test_partial_fit_refuses_what_it_cannot_place(samples):
    X, y, _ = samples
    with pytest.raises(ValueError, match=r"classes \[2\], which are not among \[0 1\]"):
        FedNCMClassifier().partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"lacks \[2\], which came before"):
        FedNCMClassifier().fit(X, y).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"type <U3, those of before are int64"):
        FedNCMClassifier().fit(X, y).partial_fit(X, np.full(90, "cat"))
    declared = FedNCMClassifier().partial_fit(X[y < 2], y[y < 2], classes=[0, 1])
    with pytest.raises(ValueError, match=r"classes \[2\], .* to take them from now on"):
        declared.partial_fit(X, y)


@pytest.mark.filterwarnings("ignore::fedcof.FewMeansWarning")
@every_classifier
@pytest.mark.parametrize("declared", [False, True])
def test_a_head_grows_by_a_class_that_comes_later(classifier, samples, declared):
    X, y, clients = samples
    names = np.array(["cow", "ape", "bat"])[y]
    early, late = y == 0, y != 0  # the first class in order comes last
    clients = np.where(early, clients, clients + 12)
    at_once = clone(classifier).fit(X, names, clients)
    grown = clone(classifier)
    for rows in (early, late):
        classes = np.unique(names[early | (late & rows.any() & rows)]) if declared else None
        grown.partial_fit(X[rows], names[rows], classes, clients[rows])
        assert hasattr(grown, "head_") == (rows is late)
    assert grown.classes_.tolist() == at_once.classes_.tolist() == ["ape", "bat", "cow"]
    np.testing.assert_allclose(grown.head_.weight, at_once.head_.weight, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(grown.predict(X), at_once.predict(X))


@pytest.mark.parametrize("classifier", [FedNCMClassifier(), FedCOFClassifier()])
def test_after_a_client_has_left_the_classifier_is_that_of_the_others(classifier, samples):
    X, y, clients = samples
    clients = np.where(y == 2, 12, clients)  # one client alone holds a class
    left = clone(classifier).fit(X, y, clients).withdraw(12).withdraw("3")
    stay = (y != 2) & (clients != 3)
    never = clone(classifier).fit(X[stay], y[stay], clients[stay])
    assert left.head_.to_bytes() == never.head_.to_bytes()
    assert left.summary_.to_bytes() == never.summary_.to_bytes()
    assert left.classes_.tolist() == never.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("classifier", [Fed3RClassifier(), CCVRClassifier()])
def test_a_client_leaves_a_sum_by_its_samples(classifier, samples):
    X, y, clients = samples
    fitted = clone(classifier).fit(X, y, clients)
    with pytest.raises(SummaryError, match=r"'3': cannot be taken out .* is a sum"):
        fitted.withdraw(3)
    gone = clients == 3
    with pytest.raises(SummaryError, match="own is not what this client sent"):
        fitted.withdraw(3, np.tile(X, (2, 1)), np.tile(y, 2))
    assert "3" in fitted.summary_.client_ids
    never = clone(classifier).fit(X[~gone], y[~gone], clients[~gone])
    fitted.withdraw(3, X[gone], y[gone])
    assert fitted.summary_.client_ids == never.summary_.client_ids
    np.testing.assert_allclose(fitted.head_.weight, never.head_.weight, rtol=1e-6, atol=1e-9)


def test_a_class_that_was_declared_stays_when_its_only_client_leaves(samples):
    X, y, clients = samples
    clients = np.where(y == 2, 12, clients)
    left = FedNCMClassifier().partial_fit(X, y, [0, 1, 2], clients).withdraw(12)
    assert left.classes_.tolist() == [0, 1, 2]
    assert np.isneginf(left.decision_function(X)[:, 2]).all()


def test_with_one_class_left_there_is_no_head(samples):
    X, y, _ = samples
    left = FedNCMClassifier().fit(X[y < 2], y[y < 2], y[y < 2]).withdraw(1)
    with pytest.raises(NotFittedError):
        left.predict(X)


def test_one_class_in_all_is_refused(samples):
    with pytest.raises(ValueError, match=r"y holds one class, .*; a classifier needs two"):
        FedCOFClassifier().fit(samples[0], np.zeros(90, dtype=int))


@pytest.mark.parametrize(
    "clients", [np.arange(89), np.arange(180).reshape(90, 2), np.full(90, 0.5)]
)
def test_clients_that_do_not_fit_are_refused(samples, clients):
    X, y, _ = samples
    with pytest.raises(ValueError, match=r"inconsistent numbers|must be 1-d|is 0\.5"):
        FedCOFClassifier().fit(X, y, clients)


def test_the_summary_is_what_the_clients_would_send(samples):
    X, y, clients = samples
    fitted = FedCOFClassifier().fit(X, y, clients)
    method = FedCOF()
    sent = [
        method.summarize(X[clients == one], y[clients == one], client_id=str(one))
        for one in range(12)
    ]
    expected = fedcof.merge(sent)
    np.testing.assert_array_equal(fitted.summary_.means, expected.means)
    np.testing.assert_array_equal(fitted.summary_.rows_per_client, expected.rows_per_client)
    np.testing.assert_array_equal(fitted.head_.weight, method.solve(sent).weight)


def test_fedcof_without_clients_has_the_covariance_of_the_samples(samples):
    X, y, _ = samples
    fitted = FedCOFClassifier().fit(X, y)
    covariances = fedcof.estimate_class_covariances([fitted.summary_])
    for label in range(3):
        np.testing.assert_allclose(covariances[label], np.cov(X[y == label].T), rtol=1e-12)


def test_fedcof_keeps_a_copy_of_the_samples(samples):
    X, y, _ = samples
    fitted = FedCOFClassifier().fit(X, y)
    X[:] = np.nan
    assert np.isfinite(fitted.summary_.means).all()


@pytest.mark.parametrize("classifier", [FedNCMClassifier(), Fed3RClassifier(), CCVRClassifier()])
def test_where_the_partition_does_not_matter_clients_change_nothing(classifier, samples):
    X, y, clients = samples
    alone = clone(classifier).fit(X, y)
    apart = clone(classifier).fit(X, y, clients)
    np.testing.assert_allclose(apart.head_.weight, alone.head_.weight, rtol=1e-6, atol=1e-9)
    assert len(apart.summary_.client_ids) == 12


def test_several_means_a_class_are_seeded(samples):
    X, y, clients = samples
    several = FedCOFClassifier(means_per_class=3, random_state=1).fit(X, y, clients % 2)
    again = clone(several).fit(X, y, clients % 2)
    other = clone(several).set_params(random_state=2).fit(X, y, clients % 2)
    assert len(several.summary_.counts) == 2 * 3 * 3
    np.testing.assert_array_equal(several.head_.weight, again.head_.weight)
    assert not np.array_equal(several.head_.weight, other.head_.weight)


def test_the_seed_of_ccvr_is_the_methods(samples):
    X, y, _ = samples
    expected = fedcof.CCVR(seed=5).solve([fedcof.CCVR().summarize(X, y)])
    fitted = CCVRClassifier(random_state=5).fit(X, y)
    np.testing.assert_array_equal(fitted.head_.weight, expected.weight)
    drawn = CCVRClassifier(random_state=np.random.RandomState(5)).fit(X, y)
    assert not np.array_equal(drawn.head_.weight, expected.weight)


def test_hyperparameters_reach_the_method(samples):
    X, y, clients = samples
    fitted = FedCOFClassifier(shrinkage=0.25, scatter="both").fit(X, y, clients)
    provenance = fitted.head_.provenance
    assert provenance.hyperparameters == {
        "shrinkage": 0.25,
        "scatter": "both",
        "means_per_class": 1,
        "form": "regression",
        "priors": "counts",
        "temperature": 1.0,
        "shrinkage_relative": 0.0,
        "robust": False,
    }
    assert (provenance.clients, provenance.samples) == (12, 90)
    assert CCVRClassifier(max_iter=2).fit(X, y).n_iter_ == 2


@pytest.mark.parametrize("classifier", [Fed3RClassifier(), CCVRClassifier(max_iter=2)])
def test_bytes_are_those_of_all_clients_though_their_summaries_are_made_at_once(
    samples, classifier
):
    X, y, clients = samples
    method = classifier._method()
    expected = method.solve(
        method.summarize(X[clients == one], y[clients == one], client_id=str(one))
        for one in np.unique(clients)
    )
    halves = clone(classifier)
    for half in (clients % 2 == 0, clients % 2 == 1):
        halves.partial_fit(X[half], y[half], np.unique(y), clients[half])
    for fitted in (classifier.fit(X, y, clients), halves):
        assert fitted.head_.provenance.formula_bytes == expected.provenance.formula_bytes


def test_a_fitted_classifier_survives_pickling_and_its_head_a_file(samples, tmp_path):
    X, y, clients = samples
    fitted = FedCOFClassifier().fit(X, y, clients)
    copy = pickle.loads(pickle.dumps(fitted))
    fitted.head_.save(tmp_path / "head.safetensors")
    head = LinearHead.load(tmp_path / "head.safetensors")
    np.testing.assert_array_equal(copy.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(head.predict(X), fitted.predict(X))


def test_a_grid_search_over_a_pipeline_finds_the_shrinkage():
    X, y = load_digits(return_X_y=True)
    pipeline = make_pipeline(Normalizer(), FedCOFClassifier())
    search = GridSearchCV(pipeline, {"fedcofclassifier__shrinkage": [1e-4, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"fedcofclassifier__shrinkage": 1e-4}
    assert search.best_score_ > 0.85


def test_clients_are_routed_through_a_pipeline_and_cross_validation(samples):
    X, y, clients = samples
    with sklearn.config_context(enable_metadata_routing=True):
        classifier = FedCOFClassifier().set_fit_request(clients=True)
        seen = make_pipeline(StandardScaler(), classifier).fit(X, y, clients=clients)
        scores = cross_val_score(
            make_pipeline(StandardScaler(), classifier), X, y, cv=3, params={"clients": clients}
        )
        search = GridSearchCV(classifier, {"shrinkage": [0.1, 1.0]}, cv=GroupKFold(3))
        search.fit(X, y, clients=clients, groups=clients)
    assert seen[-1].summary_.client_ids == tuple(sorted(str(one) for one in range(12)))
    assert scores.min() > 0.5
    assert len(search.best_estimator_.summary_.client_ids) == 12


def test_the_package_offers_only_what_it_has():
    assert fedcof.FedNCMClassifier is FedNCMClassifier
    with pytest.raises(AttributeError, match="no attribute 'FedAvg'"):
        fedcof.FedAvg  # noqa: B018


@pytest.mark.parametrize("missing", [None, np.nan, "", " ", "None", "nan", "NA"])
def test_what_is_missing_is_no_client(samples, missing):
    X, y, clients = samples
    ids = [missing, *map(str, clients[1:])]
    with pytest.raises(ValueError, match="row 0 has no client"):
        FedCOFClassifier().fit(X, y, ids)


@pytest.mark.parametrize("kind", ["Int64", "int64[pyarrow]", object])
def test_labels_of_pandas_are_not_rounded_by_way_of_floats(samples, kind):
    pandas = pytest.importorskip("pandas")
    X, y, clients = samples
    large = pandas.Series(y + 2**53, dtype=kind)
    fitted = FedCOFClassifier().fit(X, large, clients)
    assert fitted.classes_.tolist() == (np.unique(y) + 2**53).tolist()


def test_texts_of_any_length_are_labels_and_clients(samples):
    X, y, clients = samples
    texts = np.dtypes.StringDType()
    fitted = FedCOFClassifier().fit(X, np.char.mod("%d", y).astype(texts), clients.astype(str))
    assert fitted.predict(X[:1]).dtype.kind == "U"


@pytest.mark.parametrize("masked", ["X", "y", "clients"])
def test_masked_values_are_refused_rather_than_counted(masked):
    arrays = {"X": np.eye(4), "y": np.array([0, 1, 0, 1]), "clients": np.array([1, 1, 2, 2])}
    arrays[masked] = np.ma.masked_equal(arrays[masked], 1)
    with pytest.raises(ValueError, match="must not be masked"):
        FedCOFClassifier().fit(**arrays)


def _discriminant(**settings):
    return LinearDiscriminantAnalysis(solver="svd", **settings)


def _rescaled(scores, priors, samples):
    """Return scores as scikit-learn has them: since 1.9 it divides the scatter by N, not N - C."""
    if sklearn.__version__ < "1.9":
        return scores
    factor = samples / (samples - len(priors))
    return np.log(priors) + factor * (scores - np.log(priors))


class TestTheFormLda:
    @pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
    @pytest.mark.parametrize("estimator", [FedCOFClassifier(0.0), Fed3RClassifier(0.0)], ids=str)
    @pytest.mark.parametrize("uniform", [False, True])
    @pytest.mark.filterwarnings("ignore::fedcof.SingularScatterWarning")  # digits: empty corners
    def test_is_the_analysis_of_scikit_learn_if_every_sample_is_a_client(
        self, load, estimator, uniform
    ):
        X, y = load(return_X_y=True)
        counts = np.bincount(y)
        priors = np.full(len(counts), 1 / len(counts)) if uniform else counts / len(y)
        ours = clone(estimator).set_params(form="lda", priors="uniform" if uniform else "counts")
        theirs = _discriminant(priors=priors).fit(X, y)
        scores = ours.fit(X, y).head_.decision_function(X)
        expected = theirs.decision_function(X)
        scores = _rescaled(scores, priors, len(X))
        if len(counts) == 2:
            scores = scores[:, 1] - scores[:, 0]
        np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)
        assert abs(ours.score(X, y) - theirs.score(X, y)) < 0.01

    @pytest.mark.parametrize("classifier", PROBABILISTIC, ids=lambda c: type(c).__name__)
    def test_probabilities_sum_to_one_and_have_the_predictions(self, classifier, samples):
        X, y, clients = samples
        fitted = clone(classifier).fit(X, y, clients)
        probabilities = fitted.predict_proba(X)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), probabilities)
        np.testing.assert_array_equal(probabilities.argmax(axis=1), fitted.predict(X))

    def test_a_class_that_nobody_holds_has_no_probability(self, samples):
        X, y, clients = samples
        held = y > 0
        fitted = FedCOFClassifier(form="lda")
        fitted.partial_fit(X[held], y[held], classes=[0, 1, 2], clients=clients[held])
        assert (fitted.predict_proba(X)[:, 0] == 0).all()

    def test_there_are_none_without_it(self):
        assert not hasattr(FedCOFClassifier(), "predict_proba")
        assert not hasattr(FedNCMClassifier(), "predict_proba")
        assert hasattr(FedCOFClassifier(form="lda"), "predict_proba")

    def test_priors_are_those_that_are_given(self, samples):
        X, y, clients = samples
        even = FedCOFClassifier(form="lda", priors="uniform").fit(X, y, clients)
        given = FedCOFClassifier(form="lda", priors=[2.0, 2.0, 2.0]).fit(X, y, clients)
        np.testing.assert_array_equal(given.decision_function(X), even.decision_function(X))
        rare = FedCOFClassifier(form="lda", priors=[1e-9, 0.5, 0.5]).fit(X, y, clients)
        assert set(rare.predict(X)) == {1, 2}

    def test_a_temperature_keeps_the_predictions(self, samples):
        X, y, clients = samples
        sure = FedCOFClassifier(form="lda").fit(X, y, clients)
        unsure = FedCOFClassifier(form="lda", temperature=4.0).fit(X, y, clients)
        np.testing.assert_allclose(unsure.decision_function(X) * 4, sure.decision_function(X))


@every_classifier
def test_a_transform_is_a_step_of_a_pipeline(classifier, samples):
    features, labels, _ = samples
    text = "power:0.5+random-features:40"
    model = make_pipeline(FeatureTransformer(text), clone(classifier)).fit(features, labels)
    alone = clone(classifier).fit(parse(text)(features), labels)
    np.testing.assert_array_equal(model.predict(features), alone.predict(parse(text)(features)))
    transformer = model[0]
    assert str(transformer.transform_) == f"{text}:0:relu:5"
    assert len(transformer.get_feature_names_out()) == 40
    assert clone(FeatureTransformer(Standardize())).fit_transform(features).shape == (90, 5)
    with pytest.raises(ValueError, match="transform is 'powr'"):
        FeatureTransformer("powr").fit(features)
