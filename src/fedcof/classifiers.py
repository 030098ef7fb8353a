"""scikit-learn estimators over the methods: the whole federation in one process.

Once fitted, each has the attributes

``classes_`` : ndarray, shape (n_classes,)
    The labels in ascending order.
``head_`` : LinearHead
    The solution, over the same labels.
``n_features_in_`` : int
    The length of a feature.
``summary_`` : Summary
    All that the clients sent; its classes are indices into ``classes_``.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fedcof.heads import LinearHead, linear
from fedcof.labels import as_client_ids, as_labels
from fedcof.methods import CCVR, Fed3R, FedCOF, FedNCM, Method
from fedcof.methods.closed_form import Form
from fedcof.scatter import ScatterParts
from fedcof.summaries import ClassMeans, Summary, merge, withdraw
from fedcof.transforms import Transform, parse


class _MethodClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """A method as an estimator: what the clients have sent is its state."""

    classes_: NDArray[Any]
    summary_: Summary
    head_: LinearHead

    @abstractmethod
    def _method(self) -> Method[Any]:
        """Return the method with this estimator's hyperparameters."""

    def _summarize(
        self, X: NDArray[Any], class_index: NDArray[np.int64], clients: NDArray[np.str_] | None
    ) -> Summary:
        """Summarize all samples at once: the solution does not depend on who holds them."""
        summary = self._method().summarize(X, class_index)
        if clients is not None:
            names, client_index = np.unique(clients, return_inverse=True)
            holders = np.unique(np.stack([client_index, class_index]), axis=1)[0]
            summary = replace(
                summary, client_ids=tuple(names.tolist()), rows_per_client=np.bincount(holders)
            )
        return cast(Summary, summary)

    def fit(self, X: ArrayLike, y: ArrayLike, clients: ArrayLike | None = None) -> Self:
        """Fit the classifier to the samples of all clients.

        Parameters
        ----------
        X : array_like of float, shape (n_samples, n_features)
            The features.
        y : array_like, shape (n_samples,)
            The labels.
        clients : array_like of int or str, shape (n_samples,), optional
            The client that holds each sample. By default every sample is a client of its own.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the data is not well-formed, or there is one class in all.
        """
        _refuse_masked(X, y, clients)
        features, labels = validate_data(self, X, _targets(y), dtype=_DTYPES)
        check_classification_targets(labels)
        self.classes_, class_index = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class, {self.classes_[0]!r}; a classifier needs two")
        summary = self._summarize(features, class_index, _client_names(labels, clients))
        self._classes_given = False
        self._adopt(summary, self.classes_)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        clients: ArrayLike | None = None,
    ) -> Self:
        """Add the samples of clients that arrive later; nothing is fitted again from samples.

        Parameters
        ----------
        X, y, clients
            As for `fit`.
        classes : array_like, shape (n_classes,), optional
            All labels there will be, and no other is taken from then on; a class that no client
            has held yet is never predicted. A later call may give more of them, and the head grows
            once a client holds one. Where they were never given, a label that is new is a new
            class.

        Returns
        -------
        self
            Without a ``head_`` as long as all samples are of one class.

        Raises
        ------
        SummaryError
            If a client has been counted before; nothing is added then.
        ValueError
            If the data is not well-formed, a label is not one of the classes that were given, or a
            class of before is not among them.
        """
        first = not hasattr(self, "summary_")
        _refuse_masked(X, y, clients)
        features, labels = validate_data(self, X, _targets(y), dtype=_DTYPES, reset=first)
        check_classification_targets(labels)
        before = np.unique(labels)[:0] if first else self.classes_
        given = classes is not None or (not first and self._classes_given)
        known = self._known_classes(before, labels, classes, given=given)
        names = _client_names(labels, clients)
        summary = self._summarize(features, np.searchsorted(known, labels), names)
        if not first:
            summary = merge([_with_classes(self.summary_, before, known), summary])
        self._adopt(summary, known)
        self._classes_given = given
        return self

    @staticmethod
    def _known_classes(
        before: NDArray[Any], labels: NDArray[Any], classes: ArrayLike | None, *, given: bool
    ) -> NDArray[Any]:
        """Return all classes, once more samples have come."""
        if not given:
            if (before.dtype.kind in _NUMBERS) != (labels.dtype.kind in _NUMBERS):
                raise ValueError(
                    f"y holds labels of type {labels.dtype}, those of before are {before.dtype}"
                )
            return np.union1d(before, labels)
        known = before if classes is None else np.unique(np.asarray(classes))
        if len(lacking := np.setdiff1d(before, known)):
            raise ValueError(f"classes={classes!r} lacks {lacking}, which came before")
        if len(unknown := np.setdiff1d(labels, known)):
            raise ValueError(
                f"y holds the classes {unknown}, which are not among {known}; to take them from "
                "now on, give classes with them"
            )
        return known

    def withdraw(
        self, client: int | str, X: ArrayLike | None = None, y: ArrayLike | None = None
    ) -> Self:
        """Take out a client; see `fedcof.withdraw`.

        A class that it alone held leaves with it, unless ``classes`` was given to `partial_fit`.

        Parameters
        ----------
        client : int or str
            The client, as it was in ``clients``.
        X : array_like of float, shape (n_samples, n_features), optional
            Its samples. Class means are taken out exactly and need none. `Fed3RClassifier` and
            `CCVRClassifier` keep a sum: what the client added is subtracted, and rounding stays.
        y : array_like, shape (n_samples,), optional
            Their labels.

        Returns
        -------
        self
            Without a ``head_`` if one class is left.

        Raises
        ------
        SummaryError
            If there is no such client, or nobody else, or its samples are needed and not given, or
            cannot be those that it added. Nothing is changed then.
        """
        check_is_fitted(self, "summary_")
        name, own = as_client_ids([client])[0].item(), None
        if X is not None and y is not None:
            features, labels = validate_data(self, X, _targets(y), dtype=_DTYPES, reset=False)
            known = self._known_classes(self.classes_, labels, None, given=True)
            class_index = np.searchsorted(known, labels)
            own = self._summarize(features, class_index, np.full(len(labels), name))
        left = withdraw(self.summary_, name, own)
        known = self.classes_ if self._classes_given else self.classes_[np.unique(left.classes)]
        self._adopt(_with_classes(left, self.classes_, known), known)
        return self

    def _adopt(self, summary: Summary, classes: NDArray[Any]) -> None:
        """Take what the clients have sent; without a head where it is of one class."""
        head = None
        if len(np.unique(summary.classes)) > 1:
            head = linear(self._method().solve([summary]))
            head = replace(head, classes=classes[head.classes])
        self.summary_, self.classes_ = summary, classes
        if head is not None:
            self.head_ = head
        elif hasattr(self, "head_"):
            del self.head_

    def decision_function(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the scores of the samples.

        Parameters
        ----------
        X : array_like of float, shape (n_samples, n_features)
            The features.

        Returns
        -------
        ndarray of float, shape (n_samples, n_classes) or (n_samples,)
            With two classes, the score of the second minus that of the first. A class that no
            client has held yet has minus infinity.
        """
        check_is_fitted(self, "head_")
        scores = self.head_.decision_function(validate_data(self, X, dtype=_DTYPES, reset=False))
        if len(self.classes_) == 2:
            return np.asarray(scores[:, 1] - scores[:, 0])
        return self._of_all_classes(scores)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the labels of the samples.

        Parameters
        ----------
        X : array_like of float, shape (n_samples, n_features)
            The features.

        Returns
        -------
        ndarray, shape (n_samples,)
            The class of the highest score.
        """
        check_is_fitted(self, "head_")
        return self.head_.predict(validate_data(self, X, dtype=_DTYPES, reset=False))

    def _has_probabilities(self) -> bool:
        """Return whether the scores are log posteriors, with the hyperparameters as they are."""
        return getattr(self, "form", "") == "lda"

    @available_if(lambda self: self._has_probabilities())  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the probability of every class.

        Parameters
        ----------
        X : array_like of float, shape (n_samples, n_features)
            The features.

        Returns
        -------
        ndarray of float, shape (n_samples, n_classes)
            0 for a class that no client has held yet.
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @available_if(lambda self: self._has_probabilities())  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : array_like of float, shape (n_samples, n_features)
            The features.

        Returns
        -------
        ndarray of float, shape (n_samples, n_classes)
        """
        check_is_fitted(self, "head_")
        features = validate_data(self, X, dtype=_DTYPES, reset=False)
        return self._of_all_classes(self.head_.predict_log_proba(features))

    def _of_all_classes(self, scores: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return scores of the head's classes with minus infinity for the others."""
        everything = np.full((len(scores), len(self.classes_)), -np.inf, dtype=scores.dtype)
        everything[:, np.searchsorted(self.classes_, self.head_.classes)] = scores
        return everything


class FedNCMClassifier(_MethodClassifier):
    """The nearest class mean by inner product; see `FedNCM`.

    Examples
    --------
    >>> FedNCMClassifier().fit([[0.0, 1.0], [2.0, 0.0]], ["cat", "dog"]).predict([[3.0, 1.0]])
    array(['dog'], dtype='<U3')
    """

    def _method(self) -> FedNCM:
        return FedNCM()

    def _summarize(
        self, X: NDArray[Any], class_index: NDArray[np.int64], clients: NDArray[np.str_] | None
    ) -> Summary:
        if clients is None:
            return super()._summarize(X, class_index, None)
        return _merged_by_client(self._method(), X, class_index, clients)


class Fed3RClassifier(_MethodClassifier):
    """Ridge regression on one-hot labels; see `Fed3R`.

    Parameters
    ----------
    ridge : float, default 0.01
        lambda, added to the diagonal of the Gram matrix.
    form : {"regression", "lda"}, default "regression"
        With "lda", a linear discriminant analysis: there is `predict_proba`.
    priors : {"counts", "uniform"} or array_like of shape (n_classes,), default "counts"
        Of the form lda: how frequent the classes are, in ascending order.
    temperature : float, default 1.0
        Of the form lda: what the scores are divided by.
    """

    def __init__(
        self,
        ridge: float = 0.01,
        *,
        form: Form = "regression",
        priors: Literal["counts", "uniform"] | ArrayLike = "counts",
        temperature: float = 1.0,
    ) -> None:
        self.ridge = ridge
        self.form = form
        self.priors = priors
        self.temperature = temperature

    def _method(self) -> Fed3R:
        priors = _priors_text(self.priors)
        return Fed3R(self.ridge, form=self.form, priors=priors, temperature=self.temperature)


class FedCOFClassifier(_MethodClassifier):
    """A classifier from class means and the covariances estimated from their spread; see `FedCOF`.

    Without clients, the means are the samples and the covariances are those of the samples: the
    centralised classifier. `summary_` holds a copy of all samples then.

    Parameters
    ----------
    shrinkage : float, default 1.0
        gamma, added to the diagonal of every class's covariance.
    scatter : {"within", "between", "both"}, default "within"
        Which scatter goes into the system beside the outer product of the global mean.
    means_per_class : int, default 1
        How many means of disjoint random sets a client sends for a class.
    random_state : int, RandomState or None, default None
        Makes those sets.
    form : {"regression", "lda"}, default "regression"
        With "lda", a linear discriminant analysis: there is `predict_proba`.
    priors : {"counts", "uniform"} or array_like of shape (n_classes,), default "counts"
        Of the form lda: how frequent the classes are, in ascending order.
    temperature : float, default 1.0
        Of the form lda: what the scores are divided by.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=60)
    >>> X = rng.normal(size=(60, 4)) + 3.0 * np.eye(2, 4)[y]
    >>> clients = rng.integers(6, size=60)
    >>> FedCOFClassifier().fit(X, y, clients).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        shrinkage: float = 1.0,
        scatter: ScatterParts = "within",
        means_per_class: int = 1,
        random_state: int | np.random.RandomState | None = None,
        *,
        form: Form = "regression",
        priors: Literal["counts", "uniform"] | ArrayLike = "counts",
        temperature: float = 1.0,
    ) -> None:
        self.shrinkage = shrinkage
        self.scatter = scatter
        self.means_per_class = means_per_class
        self.random_state = random_state
        self.form = form
        self.priors = priors
        self.temperature = temperature

    def _method(self) -> FedCOF:
        return FedCOF(
            self.shrinkage,
            self.scatter,
            self.means_per_class,
            form=self.form,
            priors=_priors_text(self.priors),
            temperature=self.temperature,
        )

    def _summarize(
        self, X: NDArray[Any], class_index: NDArray[np.int64], clients: NDArray[np.str_] | None
    ) -> ClassMeans:
        if clients is None:
            ones = np.ones(len(X), dtype=np.int64)
            return ClassMeans(
                client_ids=("",) * len(X),
                rows_per_client=ones,
                classes=class_index,
                counts=ones,
                means=X.copy(),
            )
        return _merged_by_client(
            self._method(), X, class_index, clients, np.random.default_rng(_seed(self.random_state))
        )


class CCVRClassifier(_MethodClassifier):
    """Logistic regression on features drawn from the Gaussian of every class; see `CCVR`.

    Parameters
    ----------
    samples_per_class : int, default 500
        How many virtual features are drawn for a class.
    max_iter : int, default 30
        Iterations of L-BFGS.
    random_state : int, RandomState or None, default 0
        Seeds the draws.
    """

    def __init__(
        self,
        samples_per_class: int = 500,
        max_iter: int = 30,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.samples_per_class = samples_per_class
        self.max_iter = max_iter
        self.random_state = random_state

    def _method(self) -> CCVR:
        return CCVR(self.samples_per_class, self.max_iter, _seed(self.random_state))

    def _has_probabilities(self) -> bool:
        return True

    @property
    def n_iter_(self) -> int:
        """The iterations that were taken."""
        check_is_fitted(self, "head_")
        assert self.head_.provenance is not None
        return self.head_.provenance.iterations


_DTYPES = (np.float64, np.float32)
_NUMBERS = "biuf"
"""Kinds of NumPy's data types that are numbers."""


def _priors_text(priors: str | ArrayLike) -> str:
    """Return priors as a method takes them: its classes are indices into the estimator's."""
    if isinstance(priors, str):
        return priors
    return ",".join(f"{index}={share!r}" for index, share in enumerate(np.ravel(priors).tolist()))


class FeatureTransformer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A transform of features as a step of a pipeline, before a classifier of any kind.

    Parameters
    ----------
    steps : str or Transform, default "power:0.5+standardize"
        The transform, or its text as `fedcof.transforms.parse` takes it.

    Attributes
    ----------
    transform_ : Transform
        That of features of the length that was seen.
    n_features_in_ : int
        The length of a feature.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> model = make_pipeline(FeatureTransformer("power:0.5+standardize"), FedCOFClassifier())
    >>> X, y = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 2
    >>> model.fit(X, y, fedcofclassifier__clients=np.arange(20) % 5).predict(X).shape
    (20,)
    """

    def __init__(self, steps: str | Transform = "power:0.5+standardize") -> None:
        self.steps = steps

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Take note of the length of a feature; of its values nothing is learnt."""
        features = validate_data(self, X, dtype=_DTYPES)
        transform = self.steps if isinstance(self.steps, Transform) else parse(self.steps)
        self.transform_ = transform.bound(features.shape[1])
        self._n_features_out = transform.output_dim(features.shape[1])
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the transformed features of X, shape (n_samples, n_features)."""
        check_is_fitted(self)
        return self.transform_(validate_data(self, X, dtype=_DTYPES, reset=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _refuse_masked(*arrays: Any) -> None:
    if any(map(np.ma.is_masked, arrays)):
        raise ValueError(
            "X, y and clients must not be masked: what is masked would count; fill it, or take "
            "these rows out"
        )


def _targets(y: ArrayLike) -> ArrayLike:
    """Return labels as scikit-learn takes them.

    It would make floats of pandas' nullable integers, and knows neither NumPy's texts of any length
    nor integers that are objects.
    """
    dtype = getattr(y, "dtype", None)
    of_numpy = isinstance(dtype, np.dtype)
    if dtype is None or (of_numpy and dtype.kind not in "OT"):
        return y
    objects = of_numpy and dtype.kind == "O"
    if objects and not all(isinstance(label, Integral) for label in np.ravel(y)):
        return y
    return as_labels(y) if np.ndim(y) == 1 else y


def _with_classes(summary: Summary, before: NDArray[Any], now: NDArray[Any]) -> Summary:
    """Return a summary whose classes are indices into other classes than before."""
    return replace(summary, classes=np.searchsorted(now, before[summary.classes]))


def _client_names(labels: NDArray[Any], clients: ArrayLike | None) -> NDArray[np.str_] | None:
    if clients is None:
        return None
    ids = as_client_ids(clients)
    check_consistent_length(labels, ids)
    return ids


def _merged_by_client(
    method: Method[ClassMeans],
    X: NDArray[Any],
    class_index: NDArray[np.int64],
    clients: NDArray[np.str_],
    rng: np.random.Generator | None = None,
) -> ClassMeans:
    names, client_index, sizes = np.unique(clients, return_inverse=True, return_counts=True)
    rows = np.split(np.argsort(client_index, kind="stable"), np.cumsum(sizes)[:-1])
    return merge(
        method.summarize(X[held], class_index[held], client_id=name, rng=rng)
        for name, held in zip(names.tolist(), rows, strict=True)
    )


def _seed(random_state: int | np.random.RandomState | None) -> int:
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))
