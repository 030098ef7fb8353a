"""What every summary has in common: checks, order, size in bytes, the wire.

A summary is all that leaves a client. The laws:

- a summary is checked where it is made and again where it arrives, by the same code;
- ``merge`` is associative and commutative, and solving from a merged summary equals solving from
  its parts (to the last bit for class means, to rounding for summaries that add up);
- whatever the order of arrival, the server goes through the clients in the order of their ids.

A new statistic is a new subclass in a file of its own: its arrays as dataclass fields, the names of
their axes in ``axes``, how a client makes it in ``summarize``, and how several become one in
``_merge``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise
from math import prod
from operator import attrgetter, ge, itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.codings import CODINGS, Coding, Float16, Float32, parse_codings
from fedcof.errors import CorruptBytesError, SummaryError, naming
from fedcof.files import write_atomically
from fedcof.labels import MAX_CLASS_NAME, as_labels
from fedcof.registry import Registry
from fedcof.transforms import NO_TRANSFORM
from fedcof.wire import encode, encoded_size, views

if TYPE_CHECKING:
    from fedcof.summaries.samples import Samples, Seeds

SCHEMA = 1
"""Version of the wire format; a reader refuses any other."""

_LARGEST_COUNT = 2**40
"""Counts above it are rejected: the sum over millions of clients must fit int64."""

_SPREAD = 16
"""How many times the bytes of a summary the names of its classes may take in memory,"""

_FEW_BYTES = 2**20
"""beside so many."""

_SMALL = 2**16
"""Numbers of an array of which a mask costs nothing."""

_NAMED_IN_ERROR = 5
"""Clients that an error names; of the others it gives the number."""

TRANSFORM = "transform"
"""The name in an origin under which the text of the transform stands."""

NOISE = "noise"
"""The name under which stands what noise a client has added to what it sends."""

UNCHANGED: Mapping[str, str] = {TRANSFORM: str(NO_TRANSFORM), NOISE: "none"}
"""What an origin says that says nothing of these."""

_MAX_FINGERPRINTS = 8
_MAX_FINGERPRINT = 200
"""Characters of a fingerprint, and of its name."""

S = TypeVar("S", bound="Summary")

_KINDS: Registry[type[Summary]] = Registry("kind of summary")


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
    origin : mapping of str to str, default {}
        What made the features: fingerprints by name, such as that of the backbone under
        ``"backbone"``. Empty for a plain table of features. Summaries whose fingerprints differ do
        not go together.

    Attributes
    ----------
    total : int
        The number of samples behind this summary.
    rows_sent : int
        How many rows all clients sent.
    formula_bytes : int
        The communication cost by the paper's formulas (appendix C): 4 bytes for every number of the
        statistic that the clients sent, before any merging. The counts are not in the formulas.

    Raises
    ------
    SummaryError
        If an array has another shape or type than declared, a value is not finite, a count is below
        1, or there is no row at all.
    """

    kind: ClassVar[str]
    """The name on the wire."""
    axes: ClassVar[dict[str, tuple[str, ...]]]
    """The float arrays of the statistic, each with the names of its axes.

    ``rows`` and ``clients`` are as long as there are rows and clients; every other axis has one
    length at all clients, but for those in ``free_axes``.
    """
    free_axes: ClassVar[frozenset[str]] = frozenset()
    """The axes whose length is each client's own, and may be 0."""
    centred: ClassVar[frozenset[str]] = frozenset()
    """The arrays whose rows are alike, such as means: a coding may send their differences."""

    summarized_together: ClassVar[bool] = False
    """Whether `summarize_each` is faster than one by one. Then no statistic may be much larger than
    the samples it is made of, since those of many clients are made before the first one is sent."""

    summarize: ClassVar[Callable[..., Any]]
    """A class method, ``summarize(features, labels, *, client_id="", rng=None, **settings)``, that
    returns the statistic of a client's samples. The settings are those hyperparameters of a method
    that shape it. It raises `SummaryError` where the samples are not well-formed."""

    classes: NDArray[Any]
    counts: NDArray[np.int64]
    client_ids: tuple[str, ...] = ("",)
    rows_per_client: NDArray[np.int64] = None  # type: ignore[assignment]  # an array once checked
    origin: Mapping[str, str] = field(default_factory=dict)
    # Computed once, when a summary is made: a server that solves has thousands of them.
    total: int = field(init=False)
    rows_sent: int = field(init=False)
    formula_bytes: int = field(init=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in vars(cls):
            _KINDS.add(cls.kind, cls)

    def __post_init__(self) -> None:
        with naming(self.client_ids[0] if len(self.client_ids) == 1 else ""):
            self._check()

    def _check(self) -> None:
        self._set("client_ids", tuple(map(str, self.client_ids)))
        ids = self.client_ids
        ascending = not any(map(ge, ids, ids[1:]))  # the usual case, and fast
        if not ids or not (ascending or all(a < b or a == b == "" for a, b in pairwise(ids))):
            raise SummaryError(
                "client-ids", "the client ids must be in ascending order, each once, at least one"
            )
        self._set("classes", _as_classes(self.classes))
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
            self._set(name, _as_statistic(name, getattr(self, name), axes, sizes, self.free_axes))
        self._set("formula_bytes", 4 * self._numbers_sent())
        self._set("origin", _as_origin(self.origin))

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

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():  # pickle and copy give arrays that can be written to
            self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value = value.view()
            value.flags.writeable = False
        self.__dict__[name] = value  # which a frozen dataclass lets nobody else set

    @property
    @abstractmethod
    def dim(self) -> int:
        """The length of a feature, d."""

    @property
    def made_by(self) -> dict[str, str]:
        """What made the features, as `origin` says it, their transform and the noise."""
        return {**UNCHANGED, **self.origin}

    @property
    def counts_by_class(self) -> dict[int | str, int]:
        """The number of samples of every class, the classes in ascending order."""
        labels, counts = self.classes.tolist(), self.counts.tolist()
        by_class = dict.fromkeys(sorted(set(labels)), 0)
        for label, count in zip(labels, counts, strict=True):
            by_class[label] += count
        return by_class

    @property
    @abstractmethod
    def scale(self) -> float:
        """How large the features are: an upper bound in their unit, from the statistic."""

    @property
    def row_means(self) -> NDArray[np.floating[Any]] | None:
        """The mean feature of every row, shape (rows, dim); None where the statistic has none."""
        return None

    @property
    def within_trace(self) -> float | None:
        """The trace of the scatter of all samples about the means of their rows.

        None where the statistic does not show it.
        """
        return None

    def rows_by_client(self) -> list[tuple[str, slice]]:
        """Return every client with its rows.

        Raises
        ------
        SummaryError
            If rows of several clients were merged.
        """
        if len(self.client_ids) > 1:
            raise SummaryError(
                "sum",
                f"a merged summary of kind {self.kind!r} keeps no client apart; give those of the "
                "clients",
                client_id=self.client_ids[0],
            )
        return [(self.client_ids[0], slice(0, len(self.classes)))]

    def apart(self) -> list[Self]:
        """Return the summaries of the clients behind this one.

        Raises
        ------
        SummaryError
            If rows of several clients were merged.
        """
        self.rows_by_client()
        return [self]

    @classmethod
    def summarize_each(
        cls, clients: Sequence[Samples], rng: Seeds, **settings: Any
    ) -> Sequence[Self]:
        """Return the statistics of several clients; a statistic may make them together.

        Parameters
        ----------
        clients : sequence of Samples
        rng : callable
            What the client at a place draws from.
        **settings
            As for `summarize`.

        Raises
        ------
        SummaryError
            If one is not well-formed.
        """
        return one_by_one(partial(cls.summarize, **settings), clients, rng)

    def to_arrow(self, coding: str = Float32.name) -> Any:
        """Return the summary as a `pyarrow.Table`, a row a mean; see `fedcof.summaries.arrow`."""
        from fedcof.summaries.arrow import to_arrow  # which knows all of this module

        return to_arrow([self], coding)

    @property
    def axis_lengths(self) -> dict[str, int]:
        """The length of every axis that is equally long at all clients."""
        return {axis: getattr(self, name).shape[k] for axis, name, k in _common_axes(type(self))}

    @classmethod
    def expected_lengths(
        cls, dim: int, client_settings: Mapping[str, Any], samples: int | None = None
    ) -> dict[str, int]:
        """Return the axis lengths of a summary not yet made.

        An axis has the length of the client-side hyperparameter of its name. A statistic with an
        axis of another length overrides this method. One whose length depends on how many samples
        a client has is left out where their number is not given.
        """
        known = {n: value for n, value in client_settings.items() if type(value) is int}
        return {**known, "dim": dim}

    def _numbers_sent(self) -> int:
        """Return how many numbers of the statistic the clients sent.

        From the shapes of the arrays: where some of the clients' rows were merged, as many rows as
        they sent; an array without rows or clients counts once a client. A statistic that merges
        in another way overrides this method.
        """
        numbers = 0
        for name, axes in self.axes.items():
            size = getattr(self, name).size
            if "rows" in axes:
                numbers += size // len(self.classes) * self.rows_sent
            else:
                numbers += size if "clients" in axes else size * len(self.client_ids)
        return numbers

    @classmethod
    @abstractmethod
    def _merge(cls, parts: Sequence[Self]) -> Self:
        """Return one summary from several that are checked and in the order of their clients."""

    def _owners(self) -> Mapping[str, NDArray[np.int64]]:
        """Return what says which rows of the arrays are whose, by the name of the field."""
        return {"rows_per_client": self.rows_per_client}

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

    def _without(self, client_id: str) -> Self:
        """Return the summary without one of its clients, bit for bit; see `fedcof.withdraw`."""
        remedy = "merge the others again"
        if type(self)._minus is not Summary._minus:
            remedy += ", or give what this client sent (own=), which leaves rounding"
        raise SummaryError(
            "sum",
            f"cannot be taken out of a merged summary of kind {self.kind!r}, which is a sum: "
            f"{remedy}",
            client_id=client_id,
        )

    def _minus(self, own: Self) -> Self:
        """Return the summary without the client of another; see `fedcof.withdraw`."""
        return self._without(own.client_ids[0])

    def _clients_without(self, client_id: str) -> dict[str, Any]:
        """Return the fields that say which clients are behind this summary without one of them."""
        left = [
            client
            for client in zip(self.client_ids, self.rows_per_client.tolist(), strict=True)
            if client[0] != client_id
        ]
        client_ids, rows = zip(*left, strict=True)
        return {"client_ids": client_ids, "rows_per_client": np.array(rows), "origin": self.origin}

    def _counts_without(self, own: Self) -> NDArray[np.int64]:
        """Return the counts of every row without those of a client that sent one row a class.

        Raises
        ------
        SummaryError
            If this cannot be what the client sent: it has more samples of a class than all, or
            another number of rows.
        """
        by_class = own.counts_by_class
        counts = self.counts - np.array([by_class.pop(c, 0) for c in self.classes.tolist()])
        sent = self.rows_per_client[self.client_ids.index(own.client_ids[0])]
        if by_class or counts.min() < 0 or sent != own.rows_sent:
            raise SummaryError(
                "client-ids",
                "is here with other rows or fewer samples: own is not what this client sent",
                client_id=own.client_ids[0],
            )
        return np.asarray(counts)

    @classmethod
    def shared_arrays(cls) -> list[str]:
        """Return the names of the arrays without a row a class: they hold all classes mixed."""
        return [name for name, axes in cls.axes.items() if "rows" not in axes]

    def select(self, kept: NDArray[np.bool_]) -> Self | None:
        """Return the summary of a client with some of its rows alone; None where none is kept.

        Parameters
        ----------
        kept : ndarray of bool, shape (rows,)

        Raises
        ------
        SummaryError
            If it is of several clients, or an array has no row a class: what is left out would
            still be in it.
        """
        if shared := self.shared_arrays():
            raise SummaryError(
                "kind",
                f"no class can be left out of a summary of kind {self.kind!r}: "
                f"{', '.join(shared)} would still hold it",
                client_id=self.client_ids[0],
            )
        if len(self.client_ids) > 1:
            raise SummaryError(
                "sum", f"rows are left out for one client; this summary is of {self.client_ids}"
            )
        if not kept.any():
            return None
        arrays = {
            name: getattr(self, name).compress(kept, axis=axes.index("rows"))
            for name, axes in self.axes.items()
        }
        # NumPy gives all texts the length of the longest, which may be left out.
        classes = np.array(self.classes[kept].tolist())
        counts = self.counts[kept]
        sent = np.array([len(counts)])
        return replace(self, classes=classes, counts=counts, rows_per_client=sent, **arrays)

    def joined(self, least: int) -> Self:
        """Return the summary of a client with rows of a class joined until each has enough samples.

        Itself where a client has one row a class; a statistic with several overrides this method.

        Parameters
        ----------
        least : int
            The samples that a row has then, unless its class has fewer in all.
        """
        return self

    def with_origin(self, origin: Mapping[str, str]) -> Self:
        """Return the summary with another origin."""
        return self if origin == self.origin else replace(self, origin=origin)

    def to_bytes(self, coding: str = Float32.name) -> bytes:
        """Return the summary as it goes over the wire: safetensors, the statistic in a coding.

        Parameters
        ----------
        coding : str, default "float32"
            Of all arrays, or of each by its name, such as ``means=int8,vectors=int4``; see
            `fedcof.codings.parse_codings`. Integers of all arrays leave matrices (dim, dim) in
            float16: their rounding is larger than the small eigenvalues, on which a head depends.

        Raises
        ------
        SummaryError
            If a value is too large for the coding.
        ValueError
            If there is no such coding or array.
        """
        packed: dict[str, NDArray[Any]] = dict(self._owners() if len(self.client_ids) > 1 else {})
        for name, chosen in self.codings_of(coding).items():
            try:
                parts = CODINGS[chosen].encode(getattr(self, name), centred=name in self.centred)
            except OverflowError as error:
                raise SummaryError(
                    "overflow",
                    f"{name} holds {error}; scale the features",
                    client_id=self.client_ids[0],
                ) from None
            packed |= {name + suffix: part for suffix, part in parts.items()}
        envelope = _Envelope(self.kind, self.client_ids, self.origin, coding)
        return encode(*envelope.pack(packed, self.classes, self.counts))

    @classmethod
    def encoded_size(
        cls,
        classes: NDArray[Any],
        lengths: Mapping[str, int],
        *,
        client_id: str = "",
        origin: Mapping[str, str] = MappingProxyType({}),
        coding: str = Float32.name,
    ) -> tuple[int, int]:
        """Return `formula_bytes` and the length of `to_bytes` of a client's summary not yet made.

        Parameters
        ----------
        classes : ndarray of int64 or str, shape (rows,)
            The class of every row.
        lengths : mapping of str to int
            As `expected_lengths` gives them.
        client_id, origin, coding
            As the summary will have them.

        Raises
        ------
        NotImplementedError
            If the length of an axis is not among those given.
        """
        known = {**lengths, "clients": 1, "rows": len(classes)}
        if unknown := {axis for axes in cls.axes.values() for axis in axes} - known.keys():
            raise NotImplementedError(
                f"{cls.__name__} has the axes {sorted(unknown)}, which no client-side "
                "hyperparameter is named after: override expected_lengths"
            )
        shapes = {name: tuple(known[axis] for axis in axes) for name, axes in cls.axes.items()}
        packed = {
            name + suffix: part
            for name, chosen in cls.codings_of(coding).items()
            for suffix, part in CODINGS[chosen]
            .layout(shapes[name], centred=name in cls.centred)
            .items()
        }
        envelope = _Envelope(cls.kind, (client_id,), origin, coding)
        counts = np.broadcast_to(np.int64(1), len(classes))
        formula_bytes = 4 * sum(prod(shape) for shape in shapes.values())
        return formula_bytes, encoded_size(*envelope.pack(packed, classes, counts))

    @classmethod
    def codings_of(cls, text: str) -> dict[str, str]:
        """Return the coding of every array, as a text asks for it."""
        chosen = parse_codings(text, cls.axes)
        if text in chosen.values() and not CODINGS[text].keeps_small_eigenvalues:
            matrices = [name for name, axes in cls.axes.items() if axes.count("dim") > 1]
            chosen |= dict.fromkeys(matrices, Float16.name)
        return chosen

    def save(self, path: str | Path) -> None:
        """Write the summary to a file, in the wire's format."""
        write_atomically(Path(path), self.to_bytes())


def one_by_one(summarize: Callable[..., S], clients: Sequence[Samples], rng: Seeds) -> list[S]:
    """Return the statistics of several clients, each made by itself.

    Parameters
    ----------
    summarize : callable
        That of a statistic or of a method.
    clients, rng
        As for `Summary.summarize_each`.
    """
    return [
        summarize(own.features, own.labels, client_id=own.client_id, rng=rng(place)).with_origin(
            own.origin
        )
        for place, own in enumerate(clients)
    ]


@cache
def _common_axes(kind: type[Summary]) -> list[tuple[str, str, int]]:
    """Return every axis that is equally long at all clients, with an array and its place there."""
    return [
        (axis, name, k)
        for name, axes in kind.axes.items()
        for k, axis in enumerate(axes)
        if axis not in ("rows", "clients") and axis not in kind.free_axes
    ]


@dataclass(frozen=True)
class _Envelope:
    """The metadata of a summary's bytes."""

    kind: str
    client_ids: tuple[str, ...]
    origin: Mapping[str, str]
    coding: str

    def pack(
        self,
        arrays: dict[str, NDArray[Any]],
        classes: NDArray[Any],
        counts: NDArray[np.int64],
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return all arrays of a summary and its metadata, as they go over the wire."""
        metadata: dict[str, Any] = {
            "kind": self.kind,
            "schema": SCHEMA,
            "client_ids": self.client_ids,
        }
        if self.origin:
            metadata["origin"] = dict(self.origin)
        if self.coding != Float32.name:
            metadata["coding"] = self.coding
        if classes.dtype.kind == "U":
            return arrays | {"counts": counts}, metadata | {"classes": classes.tolist()}
        return arrays | {"counts": counts, "classes": classes}, metadata


def from_bytes(data: bytes) -> Summary:
    """Read a summary from the wire and check it as if it had been made here.

    Raises
    ------
    SummaryError
        If the bytes are truncated or corrupt, of another schema, kind or coding than those known,
        or the summary in them breaks a rule.
    """
    return checked(*read_fields(data))


def checked(kind: type[S], fields: Mapping[str, Any]) -> S:
    """Return a summary of what `read_fields` read.

    Raises
    ------
    SummaryError
        If it breaks a rule.
    """
    try:
        return kind(**fields)
    except TypeError:
        raise _with_arrays(kind.kind, fields.keys() - {"client_ids", "origin"}) from None


def _with_arrays(kind: str, names: Iterable[str]) -> SummaryError:
    message = f"a summary of kind {kind!r} with the arrays {sorted(names)}"
    return SummaryError("corrupt", message)


def read_fields(data: bytes) -> tuple[type[Summary], dict[str, Any]]:
    """Read the kind of a summary and its fields from the wire, which are not checked yet.

    Raises
    ------
    SummaryError
        If the bytes are truncated or corrupt, or of another schema, kind or coding than those
        known.
    """
    try:
        arrays, metadata = views(data)
        schema, kind = metadata.get("schema"), str(metadata["kind"])
        if kind.startswith("head"):
            raise SummaryError("kind", "a head, which is made of summaries, and none itself")
        coding = str(metadata.get("coding", Float32.name))
        client_ids = tuple(metadata["client_ids"])
        if "classes" in metadata:
            longest = max(map(len, metadata["classes"]), default=0)
            if longest > MAX_CLASS_NAME:
                raise ValueError(f"a class has more than {MAX_CLASS_NAME} characters")
            if spreads(longest, len(metadata["classes"]), len(data)):
                raise ValueError("the names of the classes are of too different a length")
            arrays["classes"] = np.asarray(metadata["classes"])
    except SummaryError:
        raise
    except (CorruptBytesError, KeyError, TypeError, ValueError) as error:
        raise SummaryError("corrupt", f"not a whole summary: {error}; send it again") from None
    if schema != SCHEMA:
        raise SummaryError("schema", f"the summary has schema {schema}, this fedcof reads {SCHEMA}")
    found = kind_of(kind)
    try:
        codings = found.codings_of(coding)
    except ValueError as error:
        raise SummaryError("coding", f"unknown coding {coding!r}: {error}") from None
    statistics = {}
    for name, chosen in codings.items():
        parts = {key: arrays[key] for key in arrays if key.partition(".")[0] == name}
        if parts:
            try:
                statistics[name] = _decode(name, parts, CODINGS[chosen])
            except SummaryError as error:
                own = client_ids[0] if client_ids else ""
                raise SummaryError(error.code, error.message, client_id=own) from None
    others = {
        key: array for key, array in arrays.items() if key.partition(".")[0] not in statistics
    }
    fields = {"client_ids": client_ids, "origin": metadata.get("origin", {})}
    if fields.keys() & others.keys():
        raise _with_arrays(kind, arrays)
    return found, {**fields, **statistics, **others}


def spreads(longest: int, rows: int, size: int) -> bool:
    """Return whether names of classes take far more memory than the `size` bytes they came in.

    NumPy gives all strings the length of the longest: one could eat the memory.
    """
    return 4 * longest * rows > _SPREAD * size + _FEW_BYTES


def _decode(name: str, parts: Mapping[str, NDArray[Any]], coding: Coding) -> NDArray[Any]:
    try:
        return coding.decode({key.removeprefix(name): part for key, part in parts.items()})
    except SummaryError as error:
        raise SummaryError(error.code, f"{name} {error.message}") from None


def kind_of(name: str) -> type[Summary]:
    """Return the class of a kind of summary.

    Raises
    ------
    SummaryError
        If there is none of this name.
    """
    if not _KINDS.knows(name):
        raise SummaryError("kind", f"unknown kind of summary {name!r}; known are {sorted(_KINDS)}")
    return _KINDS[name]


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


def ordered(summaries: Iterable[Summary], kind: type[S]) -> list[S]:
    """Return the summaries in the order of their clients, after checking that they fit together.

    Raises
    ------
    SummaryError
        If there is none, one is of another kind or dimension than the first, the labels are numbers
        in one and strings in another, their features come from different backbones, or a client
        appears twice.
    """
    given = list(summaries)
    if not given:
        raise SummaryError("empty", "there is no summary to solve from: no client has answered")
    parts: list[S] = []
    for part in given:
        if not isinstance(part, Summary):
            raise SummaryError("kind", f"a {type(part).__name__}, expected a summary")
        if not isinstance(part, kind):
            raise SummaryError(
                "kind",
                f"a summary of kind {part.kind!r}, expected {kind.kind!r}",
                client_id=part.client_ids[0],
            )
        parts.append(part)
    first = parts[0]
    dim, lengths, labels = first.dim, first.axis_lengths, first.classes.dtype
    for part in parts:
        if part.dim != dim:
            raise SummaryError(
                "dim",
                f"features of length {part.dim}, but client {first.client_ids[0]!r} has {dim}; "
                "all clients must use the same backbone",
                client_id=part.client_ids[0],
            )
        for axis, length in part.axis_lengths.items():
            if length != lengths.get(axis, length):
                raise SummaryError(
                    "shape",
                    f"the axis {axis!r} has length {length}, but {lengths[axis]} at client "
                    f"{first.client_ids[0]!r}; all clients must have the same settings",
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
        first_place, second_place, *_ = [
            place for place, part in enumerate(parts) if twice in part.client_ids
        ]
        raise SummaryError(
            "duplicate-client",
            f"appears twice: in summary {first_place} and in summary {second_place} of those "
            "given; a client may be counted once",
            client_id=twice,
        )
    common_origin(parts)
    return sorted(parts, key=attrgetter("client_ids"))


class MadeFeatures(Protocol):
    """Whoever says what made its features, as every summary does."""

    @property
    def made_by(self) -> dict[str, str]:
        """What made the features, and how they were transformed."""

    @property
    def client_ids(self) -> tuple[str, ...]:
        """The clients behind it."""


def common_origin(parts: Iterable[MadeFeatures]) -> dict[str, str]:
    """Return what made the features of several summaries.

    A summary that does not say what made its features goes with any. One that does not say how they
    were transformed has features that were not; so it is with noise.

    Raises
    ------
    SummaryError
        If two say different things of the same name; the clients of each are named.
    """
    alike: defaultdict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for part in parts:
        alike[tuple(part.made_by.items())].extend(part.client_ids)
    clients: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for made_by, client_ids in alike.items():
        for item in made_by:
            clients[item].extend(client_ids)
    origin: dict[str, str] = {}
    for (name, fingerprint), client_ids in clients.items():
        if name in origin:
            raise SummaryError(
                name,
                f"the features are not of one {name}: {_few(clients[name, origin[name]])} have "
                f"{origin[name]}, {_few(client_ids)} have {fingerprint}; make all with the same "
                f"{name}, or solve them apart",
            )
        origin[name] = fingerprint
    return {name: made for name, made in origin.items() if UNCHANGED.get(name) != made}


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_NAMED_IN_ERROR]))
    more = len(names) - _NAMED_IN_ERROR
    return f"clients {shown}" + (f" and {more} more" if more > 0 else "")


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
    if len(parts) == 1:
        return parts[0]
    return type(parts[0])._merge(parts).with_origin(common_origin(parts))


class OfClasses(Protocol):
    """A summary, or what is known of one."""

    @property
    def client_ids(self) -> tuple[str, ...]:
        """The clients behind it."""

    @property
    def classes(self) -> NDArray[Any]:
        """The class of every row."""


def check_classes(summary: OfClasses, classes: ArrayLike) -> None:
    """Check that every class of a summary is in a list.

    Raises
    ------
    SummaryError
        With the classes that are not.
    """
    known = as_labels(classes)
    unknown = sorted(set(summary.classes.tolist()) - set(known.tolist()), key=str)
    if unknown:
        raise SummaryError(
            "classes",
            f"the classes {unknown[:5]} are not among the {len(known)} of this federation",
            client_id=summary.client_ids[0],
        )


def _as_classes(classes: ArrayLike) -> NDArray[Any]:
    """Return the classes of a summary, which are integers or texts, not floats that are whole."""
    if getattr(classes, "dtype", np.dtype(np.int64)).kind == "f":
        raise SummaryError("labels", "classes must be integers or texts, these are floats")
    return as_labels(classes)


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
            "counts",
            f"a count is {array.max()}, above the limit of 2**40; is it in the right unit?",
        )
    return array.astype(np.int64)


def _as_origin(origin: Mapping[str, str]) -> Mapping[str, str]:
    if (
        not isinstance(origin, Mapping)
        or len(origin) > _MAX_FINGERPRINTS
        or not all(map(_is_fingerprint, [*origin, *origin.values()]))
    ):
        raise SummaryError(
            "origin",
            f"origin must be at most {_MAX_FINGERPRINTS} fingerprints by name, texts of 1 to "
            f"{_MAX_FINGERPRINT} printable characters",
        )
    return dict(sorted(origin.items()))


def _is_fingerprint(text: Any) -> bool:
    # It is printed in errors and reports, where control characters could forge a line.
    return isinstance(text, str) and 0 < len(text) <= _MAX_FINGERPRINT and text.isprintable()


def _as_statistic(
    name: str,
    value: ArrayLike,
    axes: tuple[str, ...],
    sizes: dict[str, int],
    free_axes: frozenset[str],
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
    if array.size == 0 and free_axes.isdisjoint(axes):
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
    # The sum is not finite if a value is not; only then is a mask of a large array made.
    suspect = array.size <= _SMALL
    if not suspect:
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = not np.isfinite(array.sum(dtype=np.float64))
    if suspect and not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        raise SummaryError(
            "non-finite",
            f"{name} holds NaN or infinity in {len(np.unique(bad[:, 0]))} of {len(array)} rows, "
            f"first at {tuple(bad[0].tolist())}; leave them out",
        )
