"""Differential privacy of the sums that a method needs, with noise shared among the clients.

Each client adds integer noise to its integers before they are summed, under masks or in the hands
of somebody trusted. The server learns the noisy sum alone, and makes the head of it.

What one sample can change
--------------------------
x is a feature with ``|x| <= R``, which `fedcof.transforms.Clip` sees to, of class c. Added to or
taken from a client's samples, it changes, in Euclidean norm:

- ``sums`` by x in row c: at most R;
- ``counts`` by 1;
- ``gram``, packed so that its norm is that of the matrix, by ``x x^T``: ``|x|^2 <= R^2``;
- ``products = O^T sum x x^T`` by ``|O^T x| |x| <= R^2``, since O has orthonormal columns;
- ``squares`` by ``|x|^2 <= R^2``.

To *replace* a sample by another is to take one and add one: at most 2R for the sums, sqrt(2) for
the counts, ``sqrt(2) R^2`` for gram and products (as ``<x x^T, y y^T> >= 0``), ``R^2`` for squares,
so at most 4 times the rho that is stated, as in all of zCDP for groups of two.

A whole *client* with n samples changes each array by at most n times as much. With neighbours by
client, its arrays are multiplied by the largest factor, at most 1, with which each has at most the
norm that m samples could give it, so m is in the place of n whatever the client holds.

FedCOF's own second phase is not here. A sample changes ``S_k`` by ``(N_c - 1)/(K_c - 1)`` times as
much as it changes the scatter within the classes, so its noise is as many times larger; and that
factor is itself secret. The Gram matrix gives the same head from one phase, see `private_sums`.

In the ring
-----------
An array enters as integers, ``round(a / u)`` with u the unit of `secure.FixedPoint`. Rounding moves
each of two neighbours' numbers by at most 1/2, and sums of n numbers in float64, in any order, are
within ``(n + 8) 2^-53`` of ``n R`` (or ``n R^2``), the largest that they can be. So with p numbers
in the array, the integers of neighbours differ in norm by at most::

    sensitivity / u + sqrt(p) (1 + 2 (n + 8) 2^-53 bound / u)

The noise is of this norm, so rounding costs a little noise and no privacy. A sum modulo 2^64, its
decoding, or a refusal to decode, are functions of the noisy integers and reveal no more.

The shares of the clients
-------------------------
A client adds a discrete Gaussian ``N_Z(0, s^2)`` to every integer. By proposition 14 of Kairouz,
Liu and Steinke (2021, "The Distributed Discrete Gaussian Mechanism for Federated Learning with
Secure Aggregation"), the sum of t such shares, with s at least 1/2, on p integers of sensitivity D
has Renyi divergences of order a of at most ``a D^2/(2 t s^2) + tau p``, and of at most the first
term with ``D/(sqrt(t) s) + tau sqrt(p)`` for ``D/(sqrt(t) s)``. So it is ``e^2 / 2``-zCDP for::

    e = min(sqrt(D^2/(t s^2) + 2 p tau),  D/(sqrt(t) s) + tau sqrt(p))
    tau = 10 sum_{k=1}^{t-1} exp(-2 pi^2 s^2 k/(k+1))

t is the number of *honest* clients whose shares can be counted on: others may add nothing, or tell
the server what they added. More shares than t are more noise on what is private already. The
releases of several arrays add up in rho. From rho to (epsilon, delta): `fedcof.privacy.accountant`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from fedcof.client import Step
from fedcof.errors import SettingError, SummaryError
from fedcof.heads import Head
from fedcof.methods import Method
from fedcof.numerics import add_to_diagonal
from fedcof.privacy.accountant import discrete_gaussian, epsilon_of, rho_of
from fedcof.privacy.secure.ring import RingLayout, Vector
from fedcof.privacy.sums import FedCOFSums, GramSums, Sums, packed, sums_of, unpacked
from fedcof.summaries.linear_sketch import random_basis

Neighbours = Literal["sample", "client"]
"""Who cannot be told to be there or not: a single sample, or a client with all of its samples."""

_SMALL = 0.1
"""The share of the budget of an array with at most one number a class; see `CentralPrivacy`."""

_DROPPED_BELOW = 2.0
"""Deviations of the noise on a count: with fewer samples a class is dropped."""

_LARGEST_NOISE = 256.0
"""Deviations for which the ring has room: 16 happen once in 1e57 numbers, and with so many more the
deviation itself is below 2^55, up to which noise is drawn."""

_SELF_ENERGIES = 2.0
"""See `noise_ridge`."""


class Noise(ABC):
    """Where the numbers of the noise are from."""

    simulated: bool = True
    """Whether whoever knows a seed can take the noise off again."""

    @abstractmethod
    def draw(self, scale: float, size: int) -> NDArray[np.int64]:
        """Return integers with mean 0 and a deviation, shape (size,)."""


@dataclass(frozen=True)
class ExactNoise(Noise):
    """Exact discrete Gaussians from a cryptographically secure generator: for data of people."""

    simulated = False

    def draw(self, scale: float, size: int) -> NDArray[np.int64]:
        """Return exact draws; no two calls give the same."""
        return discrete_gaussian(scale, size)


class SimulatedNoise(Noise):
    """Rounded Gaussians from a seed: for experiments that are to be repeated.

    They protect nobody: the seed tells the noise. Heads made with them say so.

    Parameters
    ----------
    seed : int or sequence of int
    """

    def __init__(self, seed: int | list[int]) -> None:
        self._rng = np.random.default_rng(seed)

    def draw(self, scale: float, size: int) -> NDArray[np.int64]:
        """Return the next draws."""
        return np.rint(self._rng.normal(scale=scale, size=size)).astype(np.int64)


@dataclass(frozen=True)
class Release:
    """One noisy array, in units of the ring.

    Parameters
    ----------
    size : int
        How many numbers it has.
    sensitivity : float
        By how much neighbours differ, in Euclidean norm.
    share : float
        The deviation of what one client adds to a number.
    honest : int
        So many shares are counted on.
    unit : float
        What one unit is worth.
    """

    size: int
    sensitivity: float
    share: float
    honest: int
    unit: float

    @property
    def rho(self) -> float:
        """The privacy loss in zCDP; see the proposition above."""
        return distributed_rho(self.sensitivity, self.share, self.honest, self.size)

    def variance(self, answered: int) -> float:
        """Return the variance of a number's noise, where so many clients added their shares."""
        return answered * (self.share * self.unit) ** 2


def distributed_rho(sensitivity: float, share: float, honest: int, size: int) -> float:
    """Return the zCDP of a sum of discrete Gaussians (Kairouz, Liu and Steinke).

    Examples
    --------
    >>> distributed_rho(sensitivity=10.0, share=10.0, honest=1, size=100)
    0.5
    >>> round(distributed_rho(sensitivity=10.0, share=1.0, honest=100, size=100), 3)
    0.505
    """
    if share < 0.5:
        raise SettingError(
            "honest",
            f"clients would each add noise of {share:.2g} units, below 1/2: count on fewer",
        )
    k = np.arange(1, honest)
    tau = 10 * float(np.exp(-2 * np.pi**2 * share**2 * k / (k + 1)).sum())
    plain = sensitivity / (math.sqrt(honest) * share)
    joint = math.sqrt(plain**2 + 2 * tau * size)
    return min(joint, plain + tau * math.sqrt(size)) ** 2 / 2


@dataclass(frozen=True, eq=False)
class CentralPrivacy:
    """The noisy sum of all clients, and the head that it gives.

    A client calls `addends`; the vectors add up modulo 2^64; `head` takes their sum. The budget is
    divided by a rule that knows no data: a tenth for each array with at most one number a class
    (counts, squares); of the rest, the class sums have twice the share of any other array, since
    both the rows of a head and the scatter about the means are made of them.

    Parameters
    ----------
    sums : Sums
        As `private_sums` gives them.
    epsilon, delta : float
        The guarantee asked for, of the whole release.
    radius : float
        The largest Euclidean norm of a feature, public: `fedcof.transforms.Clip`, the last step of
        the transform, sees to it. After `fedcof.transforms.Standardize` every feature has
        ``sqrt(dim)``, so nothing is clipped.
    neighbours : {"sample", "client"}, default "sample"
    samples : int, default 100,000
        Public. By sample: the most samples of one client; one with more is refused. By client: to
        so many samples a client's weight is cut, so the noise is in proportion to it.
    clients : int, default 1000
        The most clients that are summed.
    honest : int, default 1
        So many clients are counted on to add their share and to keep it to themselves.
    noise : Noise, default ExactNoise()

    Examples
    --------
    >>> from fedcof import FedNCM
    >>> sums = private_sums(FedNCM(), ["cat", "dog"], dim=2)
    >>> privacy = CentralPrivacy(sums, epsilon=8.0, delta=1e-5, radius=1.0, noise=SimulatedNoise(0))
    >>> sites = [privacy.addends([[0.0, 1.0], [1.0, 0.0]] * 50, ["cat", "dog"] * 50)] * 3
    >>> head = privacy.head(np.sum(sites, axis=0), answered=3)
    >>> head.weight.shape, head.provenance.privacy["neighbours"]
    ((2, 2), 'sample')
    """

    sums: Sums
    epsilon: float
    delta: float
    radius: float
    neighbours: Neighbours = "sample"
    samples: int = 100_000
    clients: int = 1000
    honest: int = 1
    noise: Noise = ExactNoise()

    def __post_init__(self) -> None:
        if self.sums.phases > 1:
            raise SettingError(
                "method",
                f"{self.sums.method.name} in two phases would need noise in proportion to the "
                "secret N_c/K_c; private_sums gives its head from the true scatter, in one",
            )
        if not 0 < self.radius < math.inf:
            raise SettingError("radius", f"must be a positive number, it is {self.radius}")
        if not 1 <= self.honest <= self.clients:
            raise SettingError("honest", f"must be from 1 to {self.clients}, it is {self.honest}")
        rho_of(self.epsilon, self.delta)

    @cached_property
    def shares(self) -> dict[str, float]:
        """What share of rho every array has; they sum to 1."""
        shapes = self.sums.layout(0)
        small = [name for name, shape in shapes.items() if len(shape) == 1 and name != "gram"]
        weights = {name: 2.0 if name == "sums" else 1.0 for name in shapes if name not in small}
        left = (1 - _SMALL * len(small)) / sum(weights.values())
        return {name: _SMALL if name in small else left * weights[name] for name in shapes}

    @cached_property
    def sensitivities(self) -> dict[str, float]:
        """By how much neighbours differ in each array, in Euclidean norm; see above."""
        times = self.samples if self.neighbours == "client" else 1
        return {name: times * size for name, size in self._of_one_sample().items()}

    def _of_one_sample(self) -> dict[str, float]:
        square = self.radius**2
        known = {"counts": 1.0, "sums": self.radius}
        return {name: known.get(name, square) for name in self.sums.layout(0)}

    @cached_property
    def layout(self) -> RingLayout:
        """How the arrays stand in the ring, with room for the noise of all clients."""
        rho = rho_of(self.epsilon, self.delta)
        bounds = self.sums.bounds(0, self.radius, self.samples)
        # Twice what it takes without rounding, which is a small part, or `releases` refuses.
        deviations = 2 * _LARGEST_NOISE * math.sqrt(self.clients / self.honest)
        noise = {
            name: deviations * sensitivity / math.sqrt(2 * rho * self.shares[name])
            for name, sensitivity in self.sensitivities.items()
        }
        return RingLayout.of(self.sums.layout(0), bounds, self.clients, noise=noise)

    @cached_property
    def releases(self) -> dict[str, Release]:
        """Every array's noise.

        Raises
        ------
        SettingError
            If clients have so many samples that rounding their sums is no small part.
        """
        rho = rho_of(self.epsilon, self.delta) * (1 - 1e-6)  # room for tau
        found = {}
        for name, field in self.layout.fields.items():
            unit, size = field.number.unit, field.size
            exact = self.sensitivities[name] / unit
            float64 = 2 * (self.samples + 8) * 2.0**-53 * field.number.bound / unit
            rounded = exact + math.sqrt(size) * (1 + float64)
            if rounded > 2 * exact:
                raise SettingError(
                    "samples",
                    f"of {self.samples:,} at {self.clients:,} clients leave the fixed point too "
                    f"few digits for the noise on {name}: take fewer of either",
                )
            deviation = rounded / math.sqrt(2 * rho * self.shares[name])
            share = deviation / math.sqrt(self.honest)
            found[name] = Release(size, rounded, share, self.honest, unit)
        return found

    @property
    def rho(self) -> float:
        """What the whole release costs, in zCDP."""
        return sum(release.rho for release in self.releases.values())

    def guarantee(self) -> dict[str, Any]:
        """Return what is guaranteed, as a head's provenance has it.

        Raises
        ------
        SettingError
            If the shares are so small that the sum of them guarantees less than was asked for.
        """
        spent = epsilon_of(self.rho, self.delta)
        if spent > self.epsilon:
            raise SettingError(
                "honest",
                f"shares of {self.honest} clients give epsilon {spent:.3g}: count on fewer",
            )
        simulated = ", simulated from a seed: no guarantee" if self.noise.simulated else ""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            "neighbours": self.neighbours,
            "samples": self.samples if self.neighbours == "client" else 1,
            "radius": self.radius,
            "honest": self.honest,
            "mechanism": f"discrete Gaussian{simulated}",
        }

    def addends(self, features: ArrayLike, labels: ArrayLike, *, client_id: str = "") -> Vector:
        """Return what a client adds, its share of the noise included.

        Parameters
        ----------
        features : array_like of float, shape (n, dim)
            Transformed, the clipping included.
        labels : array_like of int or str, shape (n,)
        client_id : str, optional

        Raises
        ------
        SummaryError
            If a feature is longer than the radius, there are too many samples, or a class is not
            among the public ones.
        """
        self.guarantee()
        arrays = self.limited(features, labels, client_id=client_id)
        return np.asarray(self.layout.encode(arrays) + self.share_of_noise())

    def limited(
        self, features: ArrayLike, labels: ArrayLike, *, client_id: str = ""
    ) -> dict[str, NDArray[np.float64]]:
        """Return a client's arrays without noise, of limited influence."""
        longest = float(np.linalg.norm(np.asarray(features, np.float64), axis=1).max(initial=0.0))
        if longest > self.radius:
            raise SummaryError(
                "range",
                f"a feature has length {longest:.6g}, above the radius {self.radius:g}: let the "
                f"transform end with clip:{self.radius:g}",
                client_id=client_id,
            )
        by_sample = self.neighbours == "sample"
        if by_sample and len(np.asarray(labels)) > self.samples:
            raise SummaryError(
                "range",
                f"{len(np.asarray(labels)):,} samples, the federation agreed on at most "
                f"{self.samples:,} at one client",
                client_id=client_id,
            )
        arrays = self.sums.addends(0, features, labels, client_id=client_id)
        if by_sample:
            return arrays
        limits = self.sensitivities
        factor = min(
            1.0, *(limits[name] / (np.linalg.norm(a) or 1.0) for name, a in arrays.items())
        )
        factor *= 1 - 2.0**-40  # so that rounding makes no array longer than its limit
        return {name: factor * array for name, array in arrays.items()}

    def share_of_noise(self) -> Vector:
        """Return the noise of one client, in the ring."""
        draws = [self.noise.draw(each.share, each.size) for each in self.releases.values()]
        return np.asarray(np.concatenate(draws).view(np.uint64))

    def head(
        self, total: Vector, *, answered: int, origin: Mapping[str, str] | None = None
    ) -> Head:
        """Return the head of the noisy sum.

        Parameters
        ----------
        total : ndarray of uint64
            The sum of what clients added, modulo 2^64.
        answered : int
            How many clients added their share.
        origin : mapping of str to str, optional
            As for `Sums.head`.

        Raises
        ------
        SummaryError
            If fewer clients answered than are counted on, the sum is out of range, or fewer than
            two classes have samples enough.
        """
        return self.head_of(self.layout.decode(total), answered=answered, origin=origin)

    def head_of(
        self,
        totals: Mapping[str, NDArray[np.float64]],
        *,
        answered: int,
        origin: Mapping[str, str] | None = None,
    ) -> Head:
        """Return the head of the noisy sum as numbers; see `head`."""
        if answered < self.honest:
            raise SummaryError(
                "privacy",
                f"{answered} clients answered and {self.honest} are counted on for their noise: "
                "the sum must not be opened",
            )
        totals = self.denoised(totals, answered)
        if (totals["counts"] > 0).sum() < 2:
            raise SummaryError(
                "privacy",
                "fewer than two classes have counts above their noise; take a larger epsilon, or "
                "more clients",
            )
        head = self.sums.head([totals], origin=origin)
        return head.with_provenance(privacy=self.guarantee(), clients=answered)

    def denoised(
        self, totals: Mapping[str, NDArray[np.float64]], answered: int
    ) -> dict[str, NDArray[np.float64]]:
        """Return totals of which a method can make its head.

        A class whose count is below two deviations of its noise, or below 1, is dropped. What the
        noise adds to a scatter on average is taken off, negative eigenvalues are set to zero, and
        `noise_ridge` is added. All of it is computed from the noisy sums and public numbers.
        """
        variances = {name: each.variance(answered) for name, each in self.releases.items()}
        least = max(1.0, _DROPPED_BELOW * math.sqrt(variances["counts"]))
        counts = np.where(totals["counts"] < least, 0.0, np.rint(totals["counts"]))
        found = {**totals, "counts": counts}
        kept = counts > 0
        # E |s + e|^2 has the noise's variance on top: sum s s^T / N_c is too large by so much.
        excess = float((variances["sums"] / counts[kept]).sum())
        means = totals["sums"][kept] / counts[kept, None]
        between = means.T @ totals["sums"][kept]
        if "gram" in totals:
            variance = variances["gram"] / 2  # of a number off the diagonal of the matrix
            gram = unpacked(totals["gram"], self.sums.dim)
            if self.sums.method.name == "fed3r":
                found["gram"] = packed(definite(gram, variance))
            else:
                within = add_to_diagonal(gram - between, excess)
                found["gram"] = packed(definite(within, variance) + between)
        if "products" in totals:
            sketched = self._denoised_sketch(totals, between, excess, variances["products"])
            found = {**found, **sketched}
        return found

    def _denoised_sketch(
        self,
        totals: Mapping[str, NDArray[np.float64]],
        between: NDArray[np.float64],
        excess: float,
        variance: float,
    ) -> dict[str, NDArray[np.float64]]:
        """Return the products, their part within O definite, and squares that go with them."""
        width, dim = totals["products"].shape
        basis = random_basis(dim, width, self.sums.method.client_settings["matrix_seed"])
        within = totals["products"].T - between @ basis + excess * basis
        core = basis.T @ within
        symmetric = (core + core.T) / 2
        # Noise beside O is divided by the core: it weighs dim / width times as much.
        cleaned = definite(symmetric, variance / 2 * max(1.0, 2 * (dim / width - 1)))
        within += basis @ (cleaned - core)
        added = float(np.trace(cleaned - symmetric))
        squares = totals["squares"][0] + excess * dim + added * dim / width
        return {
            "products": (within + between @ basis).T,
            "squares": np.array([max(squares, float(np.trace(between)))]),
        }


def definite(matrix: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    """Return a symmetric noisy matrix without negative eigenvalues, the ridge of its noise added.

    Parameters
    ----------
    matrix : ndarray of float64, shape (dim, dim)
    variance : float
        That of the noise on a number off the diagonal.
    """
    values, vectors = linalg.eigh(matrix)
    values = np.maximum(values, 0.0)
    return np.asarray((vectors * (values + noise_ridge(values, variance))) @ vectors.T)


def noise_ridge(values: NDArray[np.float64], variance: float) -> float:
    """Return what to add to the diagonal of a noisy matrix before it is inverted.

    With a matrix A of symmetric noise of variance s^2, to second order::

        E (A + E + r I)^-1 = (A + (r - q) I)^-1,   q = s^2 tr (A + r I)^-1

    so noise acts as a negative ridge of size q, the self-energy. r is twice as large: one half of
    it makes good for q, the other is left as a ridge of that size. With A far below the noise r is
    ``sqrt(2 dim) s``, about the norm of the noise, ``2 sqrt(dim) s``; with A far above it, r is 0.

    Parameters
    ----------
    values : ndarray of float64, shape (dim,)
        The eigenvalues of the noisy matrix, none below 0.
    variance : float
        s^2.

    Examples
    --------
    >>> round(noise_ridge(np.zeros(8), variance=1.0), 6)
    4.0
    """
    low, high = 0.0, math.sqrt(_SELF_ENERGIES * variance * len(values))
    for _ in range(100):
        middle = (low + high) / 2
        if middle == 0 or middle < _SELF_ENERGIES * variance * (1 / (values + middle)).sum():
            low = middle
        else:
            high = middle
    return high


def private_sums(method: Method[Any], classes: ArrayLike, dim: int) -> Sums:
    """Return the sums to which noise is added: `sums_of`, and of FedCOF those of the true scatter.

    The head of FedCOF's equations needs the scatter within the classes. That is a plain sum over
    samples; what FedCOF's clients send to estimate it is far more sensitive to one of them.
    """
    sums = sums_of(method, classes, dim)
    if isinstance(sums, FedCOFSums):
        return GramSums(sums.method, sums.classes, sums.dim)
    return sums


def check_noised(steps: Iterable[Step], neighbours: Neighbours = "sample") -> None:
    """Check that steps of a client leave one sample no more influence than noise is made for.

    Raises
    ------
    SettingError
        With the step that does not. By client nothing is asked of a step that chooses samples: a
        client's influence is bounded whatever it sums.
    """
    for step in steps:
        if step.chooses_samples and neighbours == "sample":
            raise SettingError(
                "steps",
                f"{step.name} must not stand beside noise by sample: where it leaves out or merges "
                "classes of few samples, one sample more lets all of a class appear. Leave it out; "
                "the noise hides small classes as well",
            )


def noised(privacy: CentralPrivacy, vectors: list[Vector]) -> Vector:
    """Return the sum of clients' vectors without noise, with one share on top.

    For one who is trusted with all of them and adds the noise alone: ``honest`` is 1 then.
    """
    total = np.sum(vectors, axis=0, dtype=np.uint64)
    return np.asarray(total + privacy.share_of_noise())
