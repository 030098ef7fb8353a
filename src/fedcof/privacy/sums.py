"""What of a method adds up over clients: all that a server needs to be told.

A server that learns nothing but sums over all clients, because they are masked or noised, can still
make the head of some methods. `sums_of` says what those sums are: which arrays a client adds in
which phase, how large a number in them can be, and the head that their totals give. Classes are a
public list, so every client's arrays have the same shapes and a class that it lacks is zeros.

==========================  ======  ============================================================
method                      phases  arrays
==========================  ======  ============================================================
fedncm                      1       sums, counts
fed3r, fedcof-oracle        1       sums, counts, gram
fedcof-linear-sketch        1       sums, counts, products, squares
fedcof                      2       sums, counts, presence; then, these known, scatter
==========================  ======  ============================================================

FedCOF weighs the spread of a class's means by its counts at all clients, hence its second phase.
The scatter within the classes itself is a plain sum: ``fedcof-oracle`` solves FedCOF's equations
with it, in one phase, from the arrays of ``fed3r``.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import FewMeansWarning, SettingError, SummaryError, first_of
from fedcof.heads import Head, Provenance
from fedcof.methods import METHODS, Method
from fedcof.methods.base import transform_of
from fedcof.numerics import GroupSums, outer_products, sum_by_group
from fedcof.scatter import Scatter
from fedcof.summaries import ClassMeans, Gram, LinearSketch, Summary
from fedcof.summaries.samples import Seed

Arrays = Mapping[str, NDArray[np.float64]]
"""Arrays by name, as a phase's layout has them: of one client, or summed over clients."""

Layout = Mapping[str, tuple[int, ...]]
"""The shapes of a phase's arrays by name, in the order in which they are sent."""

_KINDS: dict[str, type[Sums]] = {}


@dataclass(frozen=True, eq=False)
class Sums(ABC):
    """The sums of one method over clients; `sums_of` makes it.

    Parameters
    ----------
    method : Method
    classes : ndarray of int64 or str, shape (classes,)
        All classes that clients may hold, each once, in ascending order. Public.
    dim : int
        The length of a feature as it is summarized, d.

    Examples
    --------
    >>> from fedcof import FedNCM
    >>> sums = sums_of(FedNCM(), ["cat", "dog"], dim=2)
    >>> first = sums.addends(0, [[0.0, 1.0]], ["cat"])
    >>> second = sums.addends(0, [[2.0, 0.0], [0.0, 3.0]], ["dog", "cat"])
    >>> total = {name: first[name] + second[name] for name in sums.layout(0)}
    >>> total["counts"]
    array([2., 1.])
    >>> sums.head([total]).weight
    array([[0., 1.],
           [1., 0.]])
    """

    names: ClassVar[tuple[str, ...]]
    """The methods whose sums these are."""
    phases: ClassVar[int] = 1
    """How many there are; a phase may depend on the totals of those before it."""

    method: Method[Any]
    classes: NDArray[Any]
    dim: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "names" in vars(cls):
            _KINDS.update(dict.fromkeys(cls.names, cls))

    @abstractmethod
    def layout(self, phase: int) -> Layout:
        """Return the shapes of a phase's arrays."""

    @abstractmethod
    def bounds(
        self, phase: int, radius: float, samples: int, totals: Sequence[Arrays] = ()
    ) -> dict[str, float]:
        """Return how large a number in each array of one client can be, without its sign.

        Parameters
        ----------
        phase : int
        radius : float
            The largest Euclidean norm of a feature.
        samples : int
            The most samples of one client.
        totals : sequence of Arrays
            Of the phases before.
        """

    def summarize(
        self, features: ArrayLike, labels: ArrayLike, *, client_id: str = "", rng: Seed = None
    ) -> Summary:
        """Return the summary that a client's addends are made of; steps may follow it."""
        made: Summary = self.method.summarize(features, labels, client_id=client_id, rng=rng)
        return made

    @abstractmethod
    def of_summary(
        self, phase: int, summary: Summary, totals: Sequence[Arrays] = ()
    ) -> dict[str, NDArray[np.float64]]:
        """Return what a client adds in a phase, from its summary.

        Raises
        ------
        SummaryError
            If the client has a class that is not among the public ones, or features of another
            length.
        """

    def addends(
        self,
        phase: int,
        features: ArrayLike,
        labels: ArrayLike,
        totals: Sequence[Arrays] = (),
        *,
        client_id: str = "",
        rng: Seed = None,
    ) -> dict[str, NDArray[np.float64]]:
        """Return what a client adds in a phase.

        Parameters
        ----------
        phase : int
            From 0.
        features : array_like of float, shape (n, dim)
            Transformed as all clients transform theirs.
        labels : array_like of int or str, shape (n,)
        totals : sequence of Arrays
            The totals over all clients of the phases before.
        client_id : str, optional
        rng : numpy.random.Generator or int, optional
            For methods that draw random sets of samples; the same in every phase.
        """
        summary = self.summarize(features, labels, client_id=client_id, rng=rng)
        return self.of_summary(phase, summary, totals)

    @abstractmethod
    def pooled(self, totals: Sequence[Arrays]) -> Any:
        """Return what the method's ``pool`` gives of all clients, from their totals."""

    def head(self, totals: Sequence[Arrays], *, origin: Mapping[str, str] | None = None) -> Head:
        """Return the head of the totals of all phases: that of the clients' summaries.

        Parameters
        ----------
        totals : sequence of Arrays
            One for each phase. Counts within rounding of whole numbers.
        origin : mapping of str to str, optional
            What made and transformed the clients' features, as `Summary.with_origin` has it.

        Raises
        ------
        SummaryError
            If fewer than two classes have a sample.
        """
        origin = origin or {}
        head = self.method.fit(self.pooled(totals))
        made = head.provenance or Provenance(self.method.name)
        provenance = replace(
            made,
            hyperparameters=made.hyperparameters or asdict(self.method),
            samples=int(_whole(totals[0]["counts"]).sum()),
            origin=origin,
        )
        return replace(head, provenance=provenance, transform=transform_of(origin))

    def _places(self, summary: Summary) -> NDArray[np.intp]:
        """Return the place of every row's class among the public ones."""
        if summary.dim != self.dim:
            raise SummaryError(
                "dim", f"features of length {summary.dim}, the sums are of length {self.dim}"
            )
        unknown = np.setdiff1d(summary.classes, self.classes)
        if len(unknown) or summary.classes.dtype.kind != self.classes.dtype.kind:
            shown = (unknown if len(unknown) else summary.classes).tolist()
            raise SummaryError(
                "classes",
                f"{first_of([*map(repr, shown)], limit=5)} is not among the {len(self.classes)} "
                "classes whose sums are asked for; leave these samples out, or let the server add "
                "the class to its list",
            )
        return np.searchsorted(self.classes, summary.classes)

    def _by_class(
        self, summary: Summary, sums: NDArray[np.floating[Any]]
    ) -> dict[str, NDArray[np.float64]]:
        """Return the sums and counts of a summary's rows by class, zeros where there is none."""
        places, classes = self._places(summary), len(self.classes)
        return {
            "sums": sum_by_group([sums], places, classes),
            "counts": np.bincount(places, summary.counts, classes).astype(np.float64),
        }


@dataclass(frozen=True, eq=False)
class MeanSums(Sums):
    """Class sums and counts, for the nearest mean."""

    names = ("fedncm",)

    def __post_init__(self) -> None:
        _refuse_robust(self.method)

    def layout(self, phase: int) -> Layout:
        """Return the shapes of the sums and of the counts."""
        return {"sums": (len(self.classes), self.dim), "counts": (len(self.classes),)}

    def bounds(
        self, phase: int, radius: float, samples: int, totals: Sequence[Arrays] = ()
    ) -> dict[str, float]:
        """Return the bounds: all of a client's samples may be of one class, and alike."""
        return {"sums": samples * radius, "counts": float(samples)}

    def of_summary(
        self, phase: int, summary: Summary, totals: Sequence[Arrays] = ()
    ) -> dict[str, NDArray[np.float64]]:
        """Return the sums and counts of a client's means."""
        return self._by_class(summary, np.asarray(summary.row_means) * summary.counts[:, None])

    def pooled(self, totals: Sequence[Arrays]) -> Any:
        """Return the class means of all samples, as if one client had them."""
        held, counts, sums = _held(totals[0])
        means = sums / counts[:, None]
        one = ClassMeans(client_ids=("",), classes=self.classes[held], counts=counts, means=means)
        return self.method.pool([one])


@dataclass(frozen=True, eq=False)
class GramSums(Sums):
    """Class sums, counts and the Gram matrix, for ridge regression and for the true scatter."""

    names = ("fed3r", "fedcof-oracle")

    def layout(self, phase: int) -> Layout:
        """Return the shapes of the sums, of the counts and of the packed Gram matrix."""
        classes = len(self.classes)
        packed_numbers = self.dim * (self.dim + 1) // 2
        return {"sums": (classes, self.dim), "counts": (classes,), "gram": (packed_numbers,)}

    def bounds(
        self, phase: int, radius: float, samples: int, totals: Sequence[Arrays] = ()
    ) -> dict[str, float]:
        """Return the bounds: no entry of a packed ``x x^T`` is above ``|x|^2``."""
        return {
            "sums": samples * radius,
            "counts": float(samples),
            "gram": samples * radius**2,
        }

    def summarize(
        self, features: ArrayLike, labels: ArrayLike, *, client_id: str = "", rng: Seed = None
    ) -> Summary:
        """Return a Gram matrix, whatever the method's clients send."""
        return Gram.summarize(features, labels, client_id=client_id, rng=rng)

    def of_summary(
        self, phase: int, summary: Summary, totals: Sequence[Arrays] = ()
    ) -> dict[str, NDArray[np.float64]]:
        """Return the arrays of a client's Gram matrix."""
        assert isinstance(summary, Gram)
        return {
            **self._by_class(summary, summary.sums),
            "gram": packed(np.asarray(summary.gram, np.float64)),
        }

    def pooled(self, totals: Sequence[Arrays]) -> Any:
        """Return the Gram matrix of all samples, or the scatter that the class means leave of it.

        That scatter is a difference: what cancels is lost. With sums good to ``2**-30`` of their
        bounds, an eigenvalue below about ``1e-9`` of the largest of the Gram matrix is noise.
        """
        held, counts, sums = _held(totals[0])
        gram, classes = unpacked(totals[0]["gram"], self.dim), self.classes[held]
        if self.method.name == "fed3r":
            return Gram(client_ids=("",), classes=classes, counts=counts, sums=sums, gram=gram)
        means = sums / counts[:, None]
        return Scatter(classes, means, counts, gram - means.T @ sums)


@dataclass(frozen=True, eq=False)
class SketchSums(Sums):
    """Class sums, counts, and the second moments times a random matrix."""

    names = ("fedcof-linear-sketch",)

    def layout(self, phase: int) -> Layout:
        """Return the shapes of the arrays of a linear sketch."""
        lengths = LinearSketch.expected_lengths(self.dim, self.method.client_settings)
        classes = len(self.classes)
        return {
            "sums": (classes, self.dim),
            "counts": (classes,),
            "products": (lengths["width"], self.dim),
            "squares": (1,),
        }

    def bounds(
        self, phase: int, radius: float, samples: int, totals: Sequence[Arrays] = ()
    ) -> dict[str, float]:
        """Return the bounds: O has orthonormal columns, so no product is above ``|x|^2``."""
        squares = samples * radius**2
        return {
            "sums": samples * radius,
            "counts": float(samples),
            "products": squares,
            "squares": squares,
        }

    def of_summary(
        self, phase: int, summary: Summary, totals: Sequence[Arrays] = ()
    ) -> dict[str, NDArray[np.float64]]:
        """Return the arrays of a client's sketch."""
        assert isinstance(summary, LinearSketch)
        return {
            **self._by_class(summary, summary.sums),
            "products": np.asarray(summary.products, np.float64),
            "squares": np.asarray(summary.squares, np.float64),
        }

    def pooled(self, totals: Sequence[Arrays]) -> Any:
        """Return what the sketch of all samples tells of the scatter."""
        held, counts, sums = _held(totals[0])
        one = LinearSketch(
            client_ids=("",),
            classes=self.classes[held],
            counts=counts,
            sums=sums,
            products=totals[0]["products"],
            squares=totals[0]["squares"],
        )
        return self.method.pool([one])


@dataclass(frozen=True, eq=False)
class FedCOFSums(Sums):
    """Sums, counts and presence of the means; then the scatter of the means, weighted.

    With ``N_c``, ``K_c`` and ``mu_c`` of the first phase known to all, a client adds::

        S_k = sum_c (N_c - 1)/(K_c - 1) n_kc (mu_kc - mu_c)(mu_kc - mu_c)^T

    Presence is 1 for every mean of a class, so K_c counts the means that there are, and the mean of
    all samples is ``sum_c N_c mu_c / N``.
    """

    names = ("fedcof",)
    phases = 2

    def __post_init__(self) -> None:
        _refuse_robust(self.method)

    def layout(self, phase: int) -> Layout:
        """Return the shapes of the sums, counts and presence; then of the packed scatter."""
        classes = len(self.classes)
        if phase == 0:
            return {"sums": (classes, self.dim), "counts": (classes,), "presence": (classes,)}
        return {"scatter": (self.dim * (self.dim + 1) // 2,)}

    def bounds(
        self, phase: int, radius: float, samples: int, totals: Sequence[Arrays] = ()
    ) -> dict[str, float]:
        """Return the bounds; no mean is further than twice the radius from that of its class."""
        if phase == 0:
            return {
                "sums": samples * radius,
                "counts": float(samples),
                "presence": float(self.method.rows_per_class),
            }
        heaviest = float(self._weights(totals[0]).max(initial=0.0))
        return {"scatter": heaviest * samples * 4 * radius**2}

    def of_summary(
        self, phase: int, summary: Summary, totals: Sequence[Arrays] = ()
    ) -> dict[str, NDArray[np.float64]]:
        """Return the sums of a client's means; then their scatter about those of all."""
        places, counts = self._places(summary), summary.counts.astype(np.float64)
        means = np.asarray(summary.row_means, np.float64)
        if phase == 0:
            by_class = GroupSums.of([means], places, len(self.classes), counts)
            return {
                "sums": by_class.sums,
                "counts": by_class.weights.astype(np.float64),
                "presence": by_class.rows.astype(np.float64),
            }
        total = totals[0]
        centres = total["sums"] / np.maximum(1, _whole(total["counts"]))[:, None]
        scales = np.sqrt(self._weights(total)[places] * counts)
        deviations = (means - centres[places]) * scales[:, None]
        return {"scatter": packed(outer_products([deviations], np.float64))}

    def pooled(self, totals: Sequence[Arrays]) -> Scatter:
        """Return the scatter of all classes.

        Warns
        -----
        FewMeansWarning
            If no class has two means: all that is left is the shrinkage.
        """
        held, counts, sums = _held(totals[0])
        if _whole(totals[0]["presence"]).max() < 2:
            warnings.warn(
                "every class has one mean, so no covariance can be estimated and only the "
                "shrinkage is left: let clients send several means (means_per_class)",
                FewMeansWarning,
                stacklevel=3,
            )
        within = unpacked(totals[1]["scatter"], self.dim)
        return Scatter(self.classes[held], sums / counts[:, None], counts, within)

    def _weights(self, total: Arrays) -> NDArray[np.float64]:
        """Return ``(N_c - 1)/(K_c - 1)``, 0 for a class with fewer than two means."""
        counts, presence = _whole(total["counts"]), _whole(total["presence"])
        return np.where(presence > 1, (counts - 1) / np.maximum(1, presence - 1), 0.0)


def sums_of(method: Method[Any], classes: ArrayLike, dim: int) -> Sums:
    """Return the sums of a method.

    Parameters
    ----------
    method : Method
    classes : array_like of int or str, shape (classes,)
        All classes that clients may hold. Public.
    dim : int
        The length of a feature as it is summarized.

    Raises
    ------
    SettingError
        If the method needs more than sums over clients.
    """
    kind = _KINDS.get(method.name)
    if kind is None:
        raise SettingError(
            "method",
            f"{method.name} needs more than sums over clients; {', '.join(_KINDS)} do not",
        )
    return kind(method, np.unique(np.asarray(classes)), dim)


def summable_methods() -> list[str]:
    """Return the names of the methods that need no more than sums over clients."""
    return [name for name in METHODS if name in _KINDS]


def packed(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper triangle of a symmetric matrix, what is off the diagonal times ``sqrt(2)``.

    The Euclidean norm of it is the Frobenius norm of the matrix, so noise of one scale on every
    number is noise without a preferred direction on the matrix.

    Examples
    --------
    >>> packed(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3)
    array([1.   , 2.828, 3.   ])
    """
    rows, columns = np.triu_indices(len(matrix))
    return np.asarray(matrix[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0)))


def unpacked(numbers: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """Return the symmetric matrix, shape (dim, dim), that `packed` made numbers of."""
    rows, columns = np.triu_indices(dim)
    matrix = np.zeros((dim, dim))
    values = numbers * np.where(rows == columns, 1.0, np.sqrt(0.5))
    matrix[rows, columns] = values
    matrix[columns, rows] = values
    return matrix


def _held(
    total: Arrays,
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.float64]]:
    """Return which classes anybody holds, and their counts and sums."""
    counts = _whole(total["counts"])
    held = counts > 0
    return held, counts[held], total["sums"][held]


def _whole(counts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return counts that went through a fixed point as the whole numbers that they are."""
    return np.rint(counts).astype(np.int64)


def _refuse_robust(method: Method[Any]) -> None:
    if getattr(method, "robust", False):
        raise SettingError(
            "robust", "needs the mean of every client, which is not known where only sums are"
        )
