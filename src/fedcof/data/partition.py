"""Which client holds which sample."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Seed = int | np.random.Generator


@dataclass(frozen=True)
class Partition:
    """Samples dealt to clients.

    Parameters
    ----------
    assignment : (n,) int array
        Index into ``client_ids`` for each sample.
    client_ids : tuple of str
        The clients' names.
    notes : tuple of str
        What could not be done as asked, in words; empty if all could.

    Examples
    --------
    >>> for client_id, rows in by_column(["a", "b", "a"]):
    ...     print(client_id, rows)
    a [0 2]
    b [1]
    """

    assignment: NDArray[np.int64]
    client_ids: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield each client's id with the rows of its samples, in ascending order."""
        rows = np.argsort(self.assignment, kind="stable")
        sizes = np.bincount(self.assignment, minlength=len(self.client_ids))
        yield from zip(self.client_ids, np.split(rows, np.cumsum(sizes)[:-1]), strict=True)


def iid(num_samples: int, num_clients: int, *, seed: Seed) -> Partition:
    """Deal samples to clients at random, whatever their class.

    All clients get the same number of samples; where that does not come out even, the first
    clients get one sample more.
    """
    sizes, notes = _equal_sizes(num_samples, num_clients)
    assignment = np.repeat(np.arange(num_clients), sizes)
    np.random.default_rng(seed).shuffle(assignment)
    return Partition(assignment, _client_ids(num_clients), notes)


def by_column(column: ArrayLike) -> Partition:
    """Give each sample to the client that a column names, e.g. a user or a domain.

    Parameters
    ----------
    column : (n,) array of str or int
        The client of each sample. The clients are in sorted order.

    Raises
    ------
    ValueError
        If it is empty or has an entry that is neither a string nor an integer; the row is named.
    """
    values = np.asarray(column)
    if values.ndim != 1 or not values.size:
        raise ValueError(
            f"the client column must be 1-D and not empty, not of shape {values.shape}"
        )
    if values.dtype.kind not in "iuU":
        for row, value in enumerate(values):
            if not isinstance(value, str | int):
                raise ValueError(
                    f"row {row} of the client column is {value!r}; expected a string or an integer"
                )
        values = values.astype(str)
    clients, assignment = np.unique(values, return_inverse=True)
    return Partition(assignment.astype(np.int64), tuple(map(str, clients)))


def dirichlet(labels: ArrayLike, num_clients: int, alpha: float, *, seed: Seed) -> Partition:
    """Deal samples so that every client has its own mix of classes: the paper's scheme [1]_.

    Every client draws a mix from a symmetric Dirichlet distribution over the classes. The clients
    are served one after the other, a sample at a time: a class is drawn from the client's mix, then
    a sample of that class, without replacement. A class that is used up leaves every mix, which is
    renormalised. All clients get the same number of samples; where that does not come out even,
    the first clients get one sample more.

    Parameters
    ----------
    labels : (n,) array
        The class of each sample.
    num_clients : int
        The paper's K.
    alpha : float
        Concentration: near 0, a client holds hardly more than one class; large, all of them alike.
    seed : int or numpy.random.Generator

    Raises
    ------
    ValueError
        If there are no labels, no clients, or ``alpha`` is not positive and finite.

    References
    ----------
    .. [1] Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data Distribution for
       Federated Visual Classification", 2019, section 3.
    """
    labels = _check_labels(labels)
    sizes, notes = _equal_sizes(len(labels), num_clients)
    class_index = np.unique(labels, return_inverse=True)[1]
    stock = np.bincount(class_index)
    if not 0 < alpha * len(stock) < np.inf:
        raise ValueError(f"alpha must be positive and finite, not {alpha}")

    rng = np.random.default_rng(seed)
    mixes = rng.dirichlet(np.full(len(stock), alpha), size=num_clients)
    held = np.empty((num_clients, len(stock)), dtype=np.int64)
    for client, (mix, size) in enumerate(zip(mixes, sizes, strict=True)):
        held[client] = _fill(mix, size, stock, alpha, rng)
        stock -= held[client]

    assignment = np.empty(len(labels), dtype=np.int64)
    for c in range(len(stock)):
        samples = rng.permutation(np.flatnonzero(class_index == c))
        assignment[samples] = np.repeat(np.arange(num_clients), held[:, c])
    return Partition(assignment, _client_ids(num_clients), notes)


def hsu_dirichlet(labels: ArrayLike, num_clients: int, alpha: float, *, seed: Seed) -> Partition:
    """Deal every class by its own mix of clients, the scheme of most benchmarks [1]_.

    It is often named after Hsu et al., whose clients draw mixes of classes instead: that is
    `dirichlet`. Here clients differ in size, and some may hold nothing.

    Parameters
    ----------
    labels, num_clients, seed
        As for `dirichlet`.
    alpha : float
        Concentration: near 0, a class is at hardly more than one client; large, all have their
        share.

    Raises
    ------
    ValueError
        As `dirichlet`.

    References
    ----------
    .. [1] Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural Networks", 2019,
       section 4.
    """
    labels = _check_labels(labels)
    if num_clients < 1:
        raise ValueError(f"there must be at least 1 client, not {num_clients}")
    if not 0 < alpha * num_clients < np.inf:
        raise ValueError(f"alpha must be positive and finite, not {alpha}")
    rng = np.random.default_rng(seed)
    class_index = np.unique(labels, return_inverse=True)[1]
    assignment = np.empty(len(labels), dtype=np.int64)
    for c in range(class_index.max() + 1):
        samples = rng.permutation(np.flatnonzero(class_index == c))
        mix = rng.dirichlet(np.full(num_clients, alpha))
        ends = np.round(np.cumsum(mix) * len(samples)).astype(np.int64)
        ends[-1] = len(samples)
        assignment[samples] = np.repeat(np.arange(num_clients), np.diff(ends, prepend=0))
    empty = num_clients - len(np.unique(assignment))
    notes = (f"{empty} of {num_clients} clients have no samples",) if empty else ()
    return Partition(assignment, _client_ids(num_clients), notes)


@dataclass(frozen=True)
class PartitionStatistics:
    """How uneven a partition is, in the numbers of the paper's appendix on class imbalance.

    Parameters
    ----------
    clients : int
        Those that hold samples, the paper's K.
    num_means : int
        Pairs of a client and a class that it holds, the paper's M.
    samples_per_client, classes_per_client, clients_per_class : tuple of 3 floats
        Smallest, mean and largest.
    """

    clients: int
    num_means: int
    samples_per_client: tuple[float, float, float]
    classes_per_client: tuple[float, float, float]
    clients_per_class: tuple[float, float, float]


def describe_partition(labels: ArrayLike, partition: Partition) -> PartitionStatistics:
    """Return how uneven a partition is.

    Parameters
    ----------
    labels : (n,) array
        The class of each sample.
    partition : Partition
        Of these samples. Clients without samples do not count.

    Examples
    --------
    >>> describe_partition(["cat", "dog", "cat"], by_column(["ann", "ann", "bob"])).num_means
    3
    """
    labels = _check_labels(labels)
    class_index = np.unique(labels, return_inverse=True)[1]
    clients, classes = np.unique(np.stack([partition.assignment, class_index]), axis=1)

    def spread(owners: NDArray[np.int64]) -> tuple[float, float, float]:
        counts = np.unique(owners, return_counts=True)[1]
        return float(counts.min()), float(counts.mean()), float(counts.max())

    return PartitionStatistics(
        clients=len(np.unique(clients)),
        num_means=len(clients),
        samples_per_client=spread(partition.assignment),
        classes_per_client=spread(clients),
        clients_per_class=spread(classes),
    )


def _check_labels(labels: ArrayLike) -> NDArray[Any]:
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"labels must be 1-D, not of shape {labels.shape}")
    if not labels.size:
        raise ValueError("there are no samples to deal to clients")
    return labels


def _fill(
    mix: NDArray[np.float64],
    size: int,
    stock: NDArray[np.int64],
    alpha: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw how many samples of each class one client gets.

    Drawing all classes at once and again those that ran out has the law of drawing one at a time:
    a rejected draw followed by one from the renormalised mix is a draw from that mix. A round that
    rejects a draw uses up a class, so there are at most as many rounds as classes.
    """
    held = np.zeros_like(stock)
    while missing := size - held.sum():
        mix = _renormalise(mix, stock > held, alpha, rng)
        drawn = np.bincount(rng.choice(len(mix), missing, p=mix), minlength=len(mix))
        held += np.minimum(drawn, stock - held)
    return held


def _renormalise(
    mix: NDArray[np.float64], in_stock: NDArray[np.bool_], alpha: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Take the classes that are used up out of a mix."""
    mix = np.where(in_stock, mix, 0.0)
    if mix.sum() == 0:
        # What is left of the mix is below the smallest float. Given the classes in stock it is
        # again Dirichlet distributed, whatever the others had, so it may be drawn anew.
        mix[in_stock] = rng.dirichlet(np.full(in_stock.sum(), alpha))
    return np.asarray(mix / mix.sum())


def _equal_sizes(num_samples: int, num_clients: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return how many samples each client gets, and notes where that is not the same number."""
    if num_samples < 1:
        raise ValueError("there are no samples to deal to clients")
    if num_clients < 1:
        raise ValueError(f"there must be at least 1 client, not {num_clients}")
    size, rest = divmod(num_samples, num_clients)
    sizes = np.full(num_clients, size, dtype=np.int64)
    sizes[:rest] += 1
    if not rest:
        return sizes, ()
    if not size:
        empty = num_clients - rest
        note = (
            f"{num_samples} samples for {num_clients} clients: the last {empty} clients have none"
        )
    else:
        note = f"the first {rest} clients have {size + 1} samples each, the others {size}"
    return sizes, (note,)


def _client_ids(num_clients: int) -> tuple[str, ...]:
    """Return numbers of one width, whose alphabetical order is that of the clients."""
    width = len(str(num_clients - 1))
    return tuple(f"{k:0{width}d}" for k in range(num_clients))
