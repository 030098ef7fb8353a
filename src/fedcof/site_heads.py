"""A head for every site: the scatter of all, the means and priors of its own as far as it has them.

A site's mean of a class is that of its own samples, drawn to the mean of all by how few they are,
and by how much the sites differ: an empirical Bayes estimate. So are its priors. What it needs is
known from the summaries, and a site is asked for nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from fedcof.errors import SummaryError, first_of
from fedcof.heads import LinearHead, linear, solve_discriminant
from fedcof.methods import Method
from fedcof.methods.base import chosen
from fedcof.methods.closed_form import ClosedForm, class_priors
from fedcof.numerics import GroupSums
from fedcof.rejection import Rejection
from fedcof.summaries import Summary, ordered

_CONCENTRATIONS = (1e-3, 1e9)
"""Between sites that hold one class each, and sites that all hold the same shares."""

_SINGULAR = 1e6
"""A condition number from which on two columns are one."""

_ITERATIONS = 10

_ERRORS = 2.0
"""Standard errors from 0 up to which sites that sent one mean a class count as alike."""

_NAMED_CLIENTS = 10


def site_heads(method: Method[Any], summaries: Iterable[Summary]) -> Mapping[str, LinearHead]:
    """Return a head for every client that has a name.

    Each is the linear discriminant analysis with the covariance that the method estimates for all,
    and with means and priors between the client's own and those of all; see Notes. It knows every
    class of the federation, also those that the client does not hold.

    Parameters
    ----------
    method : Method
        One that knows the scatter within the classes, such as `FedCOF`; of either form.
    summaries : iterable of summaries
        What the clients sent, in any order.

    Returns
    -------
    mapping of str to LinearHead
        By client; each head is made when it is asked for.

    Raises
    ------
    SummaryError
        As `Method.solve`; also if the method knows no such scatter, or several clients are in one
        sum that keeps none apart.

    Notes
    -----
    With n_kc samples of class c at site k, their mean m_kc, and mu_c the mean of all, the site's
    mean is ``mu_c + w (m_kc - mu_c)`` with ``w = n_kc / (n_kc + tau)``. Here tau is the variance of
    a sample about the mean of its class and site, over the variance of the sites' means about that
    of all; `samples_to_trust` estimates it. The prior of a class is ``(n_kc + a p_c) / (n_k + a)``
    with p_c its share of all samples, or what `ClosedForm.priors` says; `concentration` estimates
    a. The more sites are alike, the larger are tau and a, and the nearer are the heads to that of
    all.
    """
    if not isinstance(method, ClosedForm):
        raise SummaryError(
            "method", f"{method.name} knows no scatter within the classes, so no head of a site"
        )
    parts = ordered(summaries, method.summary_type)
    pooled = method.pool(parts)
    tuned = method.tuned(pooled)
    automatic = chosen(method, tuned).automatic
    everybody = linear(tuned.solve(parts)).with_provenance(automatic=automatic)
    scatter = tuned.scatter_of(pooled)
    sites = _Sites.of(parts, scatter.classes)
    shares = class_priors(method.priors, scatter.classes, scatter.class_counts)
    return _SiteHeads(
        everybody=everybody,
        sites=sites,
        class_means=scatter.class_means,
        covariance=tuned.covariance(scatter),
        shares=shares,
        tau=samples_to_trust(sites, scatter.class_means),
        a=concentration(sites, shares),
        temperature=method.temperature,
    )


@dataclass(frozen=True, eq=False)
class _Sites:
    """What the sites hold: a row for every pair of a site and a class that it holds.

    Parameters
    ----------
    client_ids : tuple of str
        In ascending order.
    stops : ndarray of int64, shape (sites,)
        Where the pairs of each site end.
    class_index : ndarray of int64, shape (pairs,)
    counts : ndarray of int64, shape (pairs,)
        n_kc.
    means : ndarray of float64, shape (pairs, dim)
        m_kc.
    within_trace : float
        The trace of what is known of the scatter about these means.
    freedom : int
        Its degrees of freedom; 0 where nothing is known of it.
    """

    client_ids: tuple[str, ...]
    stops: NDArray[np.int64]
    class_index: NDArray[np.int64]
    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    within_trace: float
    freedom: int

    @classmethod
    def of(cls, parts: Sequence[Summary], classes: NDArray[Any]) -> _Sites:
        """Gather the rows of all sites; several of one class become one."""
        rows = [(name, part, held) for part in parts for name, held in part.rows_by_client()]
        rows.sort(key=lambda row: row[0])
        means = [np.asarray(part.row_means)[held] for _, part, held in rows]
        counts = np.concatenate([part.counts[held] for _, part, held in rows])
        labels = np.concatenate([part.classes[held] for _, part, held in rows])
        client_index = np.repeat(np.arange(len(rows)), [len(m) for m in means])
        class_index = np.searchsorted(classes, labels)
        keys, pair = np.unique(client_index * len(classes) + class_index, return_inverse=True)
        groups = GroupSums.of(means, pair, len(keys), counts)
        pair_client, pair_class = np.divmod(keys, len(classes))
        traces = [part.within_trace for part in parts]
        known = None not in traces
        rows_apart = len(counts) - len(keys)
        squares = 0.0
        if rows_apart:
            gaps = np.concatenate(means) - groups.means[pair]
            squares = float(counts @ np.einsum("nd,nd->n", gaps, gaps))
        return cls(
            client_ids=tuple(name for name, _, _ in rows),
            stops=np.searchsorted(pair_client, np.arange(len(rows)), side="right"),
            class_index=pair_class,
            counts=groups.weights,
            means=groups.means,
            within_trace=squares + (sum(t for t in traces if t is not None) if known else 0.0),
            freedom=int(counts.sum()) - len(keys) if known else rows_apart,
        )

    def rows(self, site: int) -> slice:
        """Return which pairs are those of a site."""
        return slice(self.stops[site - 1] if site else 0, self.stops[site])

    @property
    def totals(self) -> NDArray[np.int64]:
        """n_k, shape (sites,)."""
        return np.diff(np.cumsum(self.counts)[self.stops - 1], prepend=0)


def samples_to_trust(sites: _Sites, class_means: NDArray[np.float64]) -> float:
    """Return tau: with so many samples, a site's own mean counts as much as that of all.

    By moments of squared lengths. With s the trace of the covariance of a sample within its site
    and t that of the sites' means, tau is s/t, and ``E |m_kc - mu_c|^2 = s a_kc + t b_kc``, where::

        a_kc = 1/n_kc - 1/N_c
        b_kc = 1 - 2 n_kc/N_c + sum_j n_jc^2 / N_c^2

    Where the clients sent s, or what shows it (a trace, covariances, several means), t follows from
    the sum of n_kc times both sides. Where they sent one mean a class, t is told from s by how the
    spread falls with n_kc: by least squares, each length weighted by its inverse expectation, to
    which its deviation is proportional. Where nothing shows that the sites differ, there t within
    two standard errors of 0, tau is infinite.
    """
    class_counts = np.bincount(sites.class_index, sites.counts)[sites.class_index]
    several = sites.counts < class_counts  # a class at one site says nothing
    if not several.any():
        return np.inf
    squares = np.bincount(sites.class_index, sites.counts.astype(np.float64) ** 2)
    gaps = sites.means - class_means[sites.class_index]
    lengths = np.einsum("nd,nd->n", gaps, gaps)[several]
    n, total = sites.counts[several].astype(np.float64), class_counts[several]
    of_sample = 1 / n - 1 / total
    of_site = 1 - 2 * n / total + squares[sites.class_index][several] / total**2
    if sites.freedom:
        sample = sites.within_trace / sites.freedom
        site = float(n @ (lengths - sample * of_sample) / (n @ of_site))
    else:
        design = np.stack([of_sample, of_site], axis=1)
        expected = of_sample
        for _ in range(_ITERATIONS):
            weights = 1 / expected
            found, errors = _least_squares(weights[:, None] * design, weights * lengths)
            if not np.isfinite(errors).all() or not found.max() > 0:
                return np.inf
            expected = design @ np.maximum(found, 0)
        (sample, site), (sample_error, site_error) = found, errors
        sample = max(sample, sample_error)
        if site < _ERRORS * site_error:
            return np.inf
    return max(0.0, sample) / site if site > 0 else np.inf


def _least_squares(
    design: NDArray[np.float64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the two coefficients and their standard errors; infinite where they are not told."""
    freedom = len(values) - design.shape[1]
    if freedom < 1 or np.linalg.cond(design) > _SINGULAR:
        return np.zeros(2), np.full(2, np.inf)
    inverse = np.linalg.inv(design.T @ design)
    found = inverse @ design.T @ values
    variance = float(np.square(values - design @ found).sum()) / freedom
    return found, np.sqrt(variance * np.diag(inverse))


def concentration(sites: _Sites, shares: NDArray[np.float64]) -> float:
    """Return a: with so many samples, a site's own share of a class counts as much as that of all.

    The counts of a site are taken for draws from shares of its own, which are drawn from a
    Dirichlet distribution with the parameters ``a p_c``; a has the largest likelihood.

    Parameters
    ----------
    sites : _Sites
    shares : ndarray of float64, shape (classes,)
        p_c.
    """
    from scipy.optimize import minimize_scalar  # slow to import

    totals, counts, pairs = sites.totals, sites.counts, shares[sites.class_index]

    def loss(log_a: float) -> float:
        a = np.exp(log_a)
        of_sites = len(totals) * gammaln(a) - gammaln(a + totals).sum()
        return -float(of_sites + (gammaln(counts + a * pairs) - gammaln(a * pairs)).sum())

    low, high = np.log(_CONCENTRATIONS)
    return float(np.exp(minimize_scalar(loss, bounds=(low, high), method="bounded").x))


@dataclass(frozen=True, eq=False)
class _SiteHeads(Mapping[str, LinearHead]):
    """The heads, each made when it is asked for."""

    everybody: LinearHead
    sites: _Sites
    class_means: NDArray[np.float64]
    covariance: NDArray[np.float64]
    shares: NDArray[np.float64]
    tau: float
    a: float
    temperature: float

    def __len__(self) -> int:
        return sum(map(bool, self.sites.client_ids))

    def __iter__(self) -> Iterator[str]:
        return iter(filter(None, self.sites.client_ids))

    def __getitem__(self, client_id: str) -> LinearHead:
        if not client_id or client_id not in self.sites.client_ids:
            known = first_of([repr(name) for name in self], _NAMED_CLIENTS)
            raise KeyError(f"no head of a client {client_id!r}; there are those of {known}")
        site = self.sites.client_ids.index(client_id)
        rows = self.sites.rows(site)
        held, counts = self.sites.class_index[rows], self.sites.counts[rows]
        means, priors = self.class_means.copy(), self.a * self.shares
        trust = counts / (counts + self.tau)
        means[held] += trust[:, None] * (self.sites.means[rows] - means[held])
        priors[held] += counts
        priors /= priors.sum()
        weight, bias = solve_discriminant(means, self.covariance, priors)
        head = replace(
            self.everybody,
            weight=weight / self.temperature,
            bias=bias / self.temperature,
            probabilistic=True,
            rejection=Rejection.of(weight, means, priors, self.temperature),
        )
        assert head.provenance is not None
        own = {"site": client_id, "site_tau": self.tau, "site_concentration": self.a}
        return head.with_provenance(hyperparameters={**head.provenance.hyperparameters, **own})
