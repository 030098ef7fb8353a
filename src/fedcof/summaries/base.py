"""What every summary has in common: checks, order, size in bytes, the wire.

A summary is all that leaves a client. The laws:

- a summary is checked where it is made and again where it arrives, by the same code;
- ``merge`` is associative and commutative, and solving from a merged summary equals solving from
  its parts (to the last bit for class means, to rounding for summaries that add up);
- whatever the order of arrival, the server goes through the clients in the order of their ids.

A new statistic is a new subclass in a file of its own: its arrays as dataclass fields, their shapes
in ``axes``, and how several become one in ``_merge``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from numbers import Integral
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.errors import CorruptBytesError, SummaryError, naming
from fedcof.files import write_atomically
from fedcof.wire import decode, encode, encoded_size

SCHEMA = 1
"""Version of the wire format; a reader refuses any other."""

_LARGEST_COUNT = 2**40
"""More cannot be meant; below it, no sum of counts leaves int64."""

MAX_CLASS_NAME = 200
"""Characters of a class that is a string."""

S = TypeVar("S", bound="Summary")

_KINDS: dict[str, type[Summary]] = {}


@dataclass(frozen=True, eq=False, kw_only=True)
class Summary(ABC):
    """What one client, or several after ``merge``, let the server know.

    Parameters
    ----------
    classes : ndarray of int or str, shape (rows,)
        The class of every row of the statistics.
    counts : ndarray of int64, shape (rows,)
        The number of samples behind every row, at least 1.
    client_ids : tuple of str
        The clients behind this summary in ascending order. ``""`` is a client without a name: such
        clients come first, in the order given, and are never taken for one another.
    rows_per_client : ndarray of int64, shape (clients,), optional
        How many rows each client sent, before any were merged. All rows where there is one client.

    Attributes
    ----------
    total : int
        The number of samples behind this summary.
    rows_sent : int
        How many rows all clients sent.

    Raises
    ------
    SummaryError
        If an array has another shape or type than declared, a value is not finite, a count is below
        1, or there is no row at all.
    """

    kind: ClassVar[str]
    """The name on the wire."""
    axes: ClassVar[dict[str, tuple[str, ...]]]
    """The float arrays of the statistic, each with the names of its axes."""

    classes: NDArray[Any]
    counts: NDArray[np.int64]
    client_ids: tuple[str, ...] = ("",)
    rows_per_client: NDArray[np.int64] = None  # type: ignore[assignment]  # an array once checked
    # Counted once, when a summary arrives: a server that solves has thousands of them.
    total: int = field(init=False)
    rows_sent: int = field(init=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in vars(cls):
            _KINDS[cls.kind] = cls

    def __post_init__(self) -> None:
        with naming(self.client_ids[0] if len(self.client_ids) == 1 else ""):
            self._check()

    def _check(self) -> None:
        self._set("client_ids", tuple(str(name) for name in self.client_ids))
        if not self.client_ids or any(b < a or a == b != "" for a, b in pairwise(self.client_ids)):
            raise SummaryError(
                "client-ids", "the client ids must be in ascending order, each once, at least one"
            )
        self._set("classes", as_labels(self.classes))
        self._set("counts", as_counts(self.counts))
        sizes = {"rows": len(self.classes), "clients": len(self.client_ids)}
        if sizes["rows"] == 0:
            raise SummaryError(
                "empty", "there is no class in this summary: the client has no samples"
            )
        if len(self.counts) != sizes["rows"]:
            raise SummaryError("shape", f"{sizes['rows']} classes but {len(self.counts)} counts")
        self._set("rows_per_client", self._checked_rows_per_client(sizes["rows"]))
        self._set("total", int(self.counts.sum()))
        self._set("rows_sent", int(self.rows_per_client.sum()))
        for name, axes in self.axes.items():
            self._set(name, _as_statistic(name, getattr(self, name), axes, sizes))

    def _checked_rows_per_client(self, rows: int) -> NDArray[np.int64]:
        if self.rows_per_client is None and len(self.client_ids) == 1:
            return np.array([rows])
        sent = as_counts([] if self.rows_per_client is None else self.rows_per_client)
        if len(sent) != len(self.client_ids) or not sent.max() <= rows <= sent.sum():
            raise SummaryError(
                "shape",
                f"rows_per_client must say for each of {len(self.client_ids)} clients how many "
                f"rows it sent; {rows} are here",
            )
        return sent

    def _set(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value = value.view()
            value.flags.writeable = False
        object.__setattr__(self, name, value)

    @property
    @abstractmethod
    def dim(self) -> int:
        """The length of a feature, d."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """How large the features are: the largest number that tells of one, in its unit."""

    @property
    def formula_bytes(self) -> int:
        """The communication cost by the paper's formulas (appendix C): 4 bytes for every number.

        It is what the clients sent, before any merging. The counts are not in the formulas, as in
        the paper.
        """
        return self.formula(self.rows_sent, self.dim, len(self.client_ids))

    @classmethod
    def formula(cls, rows: int, dim: int, clients: int = 1) -> int:
        """Return `formula_bytes` of all that clients send who have so many rows together."""
        sizes = {"rows": rows, "dim": dim}
        return 4 * sum(
            prod(sizes[axis] for axis in axes) * (1 if "rows" in axes else clients)
            for axes in cls.axes.values()
        )

    @classmethod
    @abstractmethod
    def _merge(cls, parts: Sequence[Self]) -> Self:
        """One summary from several that are checked and in the order of their clients."""

    @staticmethod
    def _clients(parts: Sequence[Summary]) -> dict[str, Any]:
        """Return the fields that say which clients are behind several summaries."""
        clients = [
            client
            for part in parts
            for client in zip(part.client_ids, part.rows_per_client.tolist(), strict=True)
        ]
        client_ids, rows = zip(*sorted(clients, key=itemgetter(0)), strict=True)
        return {"client_ids": client_ids, "rows_per_client": np.array(rows)}

    def to_bytes(self) -> bytes:
        """Return the summary as it goes over the wire: safetensors, float32 as the paper counts it.

        Raises
        ------
        SummaryError
            If a value is too large for float32.
        """
        one = len(self.client_ids) == 1
        arrays: dict[str, NDArray[Any]] = {} if one else {"rows_per_client": self.rows_per_client}
        for name in self.axes:
            try:
                with np.errstate(over="raise"):
                    arrays[name] = getattr(self, name).astype(np.float32)
            except FloatingPointError:
                raise SummaryError(
                    "overflow",
                    f"{name} holds a value too large for float32, in which it is sent; scale the "
                    "features",
                    client_id=self.client_ids[0],
                ) from None
        return encode(*self._parcel(arrays, self.classes, self.counts, self.client_ids))

    @classmethod
    def sizes(cls, classes: NDArray[Any], dim: int, *, client_id: str = "") -> tuple[int, int]:
        """Return `formula_bytes` and the length of `to_bytes` of a summary that is not made.

        Parameters
        ----------
        classes : ndarray of int64 or str, shape (rows,)
            The class of every row.
        dim : int
            The length of a feature, d.
        client_id : str, optional
            The client's name.
        """
        axes = {"rows": len(classes), "dim": dim}
        arrays: dict[str, NDArray[Any]] = {
            name: np.broadcast_to(np.float32(0), tuple(axes[axis] for axis in names))
            for name, names in cls.axes.items()
        }
        counts = np.broadcast_to(np.int64(1), len(classes))
        parcel = cls._parcel(arrays, classes, counts, (client_id,))
        return cls.formula(len(classes), dim), encoded_size(*parcel)

    @classmethod
    def _parcel(
        cls,
        arrays: dict[str, NDArray[Any]],
        classes: NDArray[Any],
        counts: NDArray[np.int64],
        client_ids: tuple[str, ...],
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return all arrays of a summary and its metadata, as they go over the wire."""
        metadata = {"kind": cls.kind, "schema": SCHEMA, "client_ids": client_ids}
        if classes.dtype.kind == "U":
            return arrays | {"counts": counts}, metadata | {"classes": classes.tolist()}
        return arrays | {"counts": counts, "classes": classes}, metadata

    def save(self, path: str | Path) -> None:
        """Write the summary to a file, in the wire's format."""
        write_atomically(Path(path), self.to_bytes())


def from_bytes(data: bytes) -> Summary:
    """Read a summary from the wire and check it as if it had been made here.

    Raises
    ------
    SummaryError
        If the bytes are truncated or corrupt, of another schema or of an unknown kind, or the
        summary in them breaks a rule.
    """
    try:
        arrays, metadata = decode(data)
        schema, kind = metadata.get("schema"), str(metadata["kind"])
        client_ids = tuple(metadata["client_ids"])
        if "classes" in metadata:
            # NumPy gives all strings the length of the longest: one could eat the memory.
            if max(map(len, metadata["classes"]), default=0) > MAX_CLASS_NAME:
                raise ValueError(f"a class has more than {MAX_CLASS_NAME} characters")
            arrays["classes"] = np.asarray(metadata["classes"])
    except (CorruptBytesError, KeyError, TypeError, ValueError) as error:
        raise SummaryError("corrupt", f"not a whole summary: {error}; send it again") from None
    if schema != SCHEMA:
        raise SummaryError("schema", f"the summary has schema {schema}, this fedcof reads {SCHEMA}")
    if kind not in _KINDS:
        raise SummaryError("kind", f"unknown kind of summary {kind!r}; known are {sorted(_KINDS)}")
    try:
        summary = _KINDS[kind](client_ids=client_ids, **arrays)
    except TypeError:
        raise SummaryError(
            "corrupt", f"a summary of kind {kind!r} with the arrays {sorted(arrays)}"
        ) from None
    for name in summary.axes:
        if arrays[name].dtype != np.float32:
            raise SummaryError(
                "dtype",
                f"{name} came in {arrays[name].dtype}, expected float32",
                client_id=client_ids[0],
            )
    return summary


def load(path: str | Path) -> Summary:
    """Read a summary from a file that `Summary.save` wrote.

    Raises
    ------
    SummaryError
        As `from_bytes`, with the file named.
    """
    try:
        return from_bytes(Path(path).read_bytes())
    except SummaryError as error:
        raise SummaryError(error.code, f"{path}: {error}") from None


def ordered(summaries: Iterable[S], kind: type[S]) -> list[S]:
    """Return the summaries in the order of their clients, after checking that they fit together.

    Raises
    ------
    SummaryError
        If there is none, one is of another kind or dimension than the first, the labels are numbers
        in one and strings in another, or a client appears twice.
    """
    parts = list(summaries)
    if not parts:
        raise SummaryError("empty", "there is no summary to solve from: no client has answered")
    for part in parts:
        if not isinstance(part, kind):
            if not isinstance(part, Summary):
                raise SummaryError("kind", f"a {type(part).__name__}, expected a summary")
            raise SummaryError(
                "kind",
                f"a summary of kind {part.kind!r}, expected {kind.kind!r}",
                client_id=part.client_ids[0],
            )
    first = parts[0]
    dim, labels = first.dim, first.classes.dtype
    for part in parts:
        if part.dim != dim:
            raise SummaryError(
                "dim",
                f"features of length {part.dim}, but client {first.client_ids[0]!r} has {dim}; "
                "all clients must use the same backbone",
                client_id=part.client_ids[0],
            )
        if part.classes.dtype.kind != labels.kind:
            raise SummaryError(
                "classes",
                f"labels of type {part.classes.dtype}, but client {first.client_ids[0]!r} has "
                f"{labels}; all clients must use the same class list",
                client_id=part.client_ids[0],
            )
    names = [name for part in parts for name in part.client_ids if name]
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        one, other, *_ = [i for i, part in enumerate(parts) if twice in part.client_ids]
        raise SummaryError(
            "duplicate-client",
            f"appears twice: in summary {one} and in summary {other} of those given; a client may "
            "be counted once",
            client_id=twice,
        )
    return sorted(parts, key=attrgetter("client_ids"))


def merge(summaries: Iterable[S]) -> S:
    """Return one summary that says what all of them say.

    Associative and commutative; solving from the result equals solving from the parts.

    Raises
    ------
    SummaryError
        As `ordered`.
    """
    parts = list(summaries)
    if not parts:
        raise SummaryError("empty", "there is no summary to merge")
    parts = ordered(parts, type(parts[0]))
    return parts[0] if len(parts) == 1 else type(parts[0])._merge(parts)


def check_classes(summary: Summary, classes: ArrayLike) -> None:
    """Check that a summary speaks of no class that is not in a list.

    Raises
    ------
    SummaryError
        With the classes that are foreign.
    """
    known = as_labels(classes)
    foreign = sorted(set(summary.classes.tolist()) - set(known.tolist()), key=str)
    if foreign:
        raise SummaryError(
            "classes",
            f"the classes {foreign[:5]} are not among the {len(known)} of this federation",
            client_id=summary.client_ids[0],
        )


def as_labels(labels: ArrayLike) -> NDArray[Any]:
    """Return labels as a 1-d array of int64 or of str.

    Raises
    ------
    SummaryError
        If they are neither.
    """
    array = np.asarray(labels)
    if array.ndim != 1:
        raise SummaryError("labels", f"labels must be 1-d, these have shape {array.shape}")
    if array.size == 0:  # an empty list is an array of floats to NumPy
        return array.astype(np.int64)
    if array.dtype.kind == "O" and any(
        all(isinstance(label, kind) for label in array) for kind in (str, Integral)
    ):
        array = np.asarray(array.tolist())  # a column of pandas
    if array.dtype.kind in "biu":
        if array.max() > np.iinfo(np.int64).max:
            raise SummaryError("labels", f"label {array.max()} is too large for int64")
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        if np.strings.str_len(array).max() > MAX_CLASS_NAME:
            raise SummaryError("labels", f"a label has more than {MAX_CLASS_NAME} characters")
        return array
    raise SummaryError("labels", f"labels must be ints or strings, these have dtype {array.dtype}")


def as_counts(counts: ArrayLike) -> NDArray[np.int64]:
    """Return counts as a 1-d array of int64.

    Raises
    ------
    SummaryError
        If they are not whole numbers of at least 1, or absurdly large.
    """
    array = np.asarray(counts)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise SummaryError(
            "counts", f"counts must be 1-d whole numbers, not {array.dtype} of shape {array.shape}"
        )
    if array.dtype.kind == "f" and not np.array_equal(array, np.floor(array)):
        raise SummaryError(
            "counts", "counts must be whole numbers; round noisy counts before sending"
        )
    if array.size and array.min() < 1:
        raise SummaryError(
            "counts", f"a count is {array.min()}; a class without samples must be left out"
        )
    if array.size and array.max() > _LARGEST_COUNT:
        raise SummaryError(
            "counts", f"a count is {array.max()}, more than {_LARGEST_COUNT} cannot be meant"
        )
    return array.astype(np.int64)


def _as_statistic(
    name: str, value: ArrayLike, axes: tuple[str, ...], sizes: dict[str, int]
) -> NDArray[np.floating[Any]]:
    array = np.asarray(value)
    if array.dtype not in (np.float32, np.float64):
        raise SummaryError("dtype", f"{name} must be float32 or float64, not {array.dtype}")
    if array.ndim == len(axes):
        for axis, size in zip(axes, array.shape, strict=True):
            sizes.setdefault(axis, size)
    expected = tuple(sizes.get(axis, axis) for axis in axes)
    if array.shape != expected:
        raise SummaryError("shape", f"{name} has shape {array.shape}, expected {expected}")
    if array.size == 0:
        raise SummaryError("shape", f"{name} is empty: shape {array.shape}")
    check_finite(name, array)
    return array


def check_finite(name: str, array: NDArray[Any]) -> None:
    """Check that no value is NaN or infinite.

    Raises
    ------
    SummaryError
        With the place of the first such value and the number of rows that have one.
    """
    # One number tells, without a mask of the array's size; the mask is only made in doubt.
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = not np.isfinite(array.sum(dtype=np.float64))
    if suspect and not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        raise SummaryError(
            "non-finite",
            f"{name} holds NaN or infinity in {len(np.unique(bad[:, 0]))} of {len(array)} rows, "
            f"first at {tuple(bad[0].tolist())}; leave them out",
        )
