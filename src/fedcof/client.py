"""The one path from a client's features to the bytes that leave it.

features and labels -> steps on the samples -> transform -> the method's summary -> steps on the
summary -> coding -> bytes. One process, the files of ``fedcof summarize`` and Flower's clients all
send through `Sender.send`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.codings import AUTO, parse_codings
from fedcof.errors import SettingError, SummaryError, first_of, naming
from fedcof.labels import as_labels
from fedcof.methods import Method, Outline, client_rng, get_method
from fedcof.registry import Registry, entry_from_text
from fedcof.settings import check_settings, setting
from fedcof.summaries import Summary
from fedcof.summaries.base import TRANSFORM
from fedcof.summaries.samples import Samples, check_samples
from fedcof.transforms import NO_TRANSFORM, Chain, Transform, chain, parse

STEPS: Registry[type[Step]] = Registry("step")
"""Every step by its name."""

_NO_STEPS = "none"

_SHOWN = 100
"""Classes that are said in a line."""

_FEW_BYTES = 2 << 20
"""Bytes of a few clients: a call costs as much as some samples, and whoever stops before the last
one has made little for nothing."""

_CLIENT_BYTES = 4 << 10
"""Bytes that a client takes besides its features, with all that is made of it."""

_NO_ORIGIN: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Step(ABC):
    """What a client does before a summary is encoded; its fields are its settings.

    A step acts on the summary, and may act on the samples that are summarized: what must not be in
    a Gram matrix has to be left out before there is one. Of several steps the first stands next to
    the summary on both sides: it is the last on the samples and the first on the summary, so that
    no other step changes what it was about. A new step is a new subclass in a file of its own.
    """

    name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            STEPS.add(cls.name, cls)

    def __post_init__(self) -> None:
        check_settings(self)

    def check(self, kind: type[Summary]) -> None:  # noqa: B027 - most steps take any kind
        """Check that the step can be done to a kind of summary.

        Raises
        ------
        SettingError
            If it cannot; the message says what can be done instead.
        """

    def check_among(self, steps: tuple[Step, ...]) -> None:  # noqa: B027 - most go with any
        """Check that the step can stand where it does among all steps of a sender.

        Raises
        ------
        SettingError
            If it cannot.
        """

    @property
    def chooses_samples(self) -> bool:
        """Whether the step has a say in which samples are summarized."""
        return type(self).samples is not Step.samples

    def samples(self, labels: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
        """Return which samples are summarized, and under which labels.

        Parameters
        ----------
        labels : ndarray of int64 or str, shape (n,)

        Returns
        -------
        kept : ndarray of bool, shape (n,)
        labels : ndarray of int64 or str, shape (kept.sum(),)
            Of those that are kept.
        """
        return np.ones(len(labels), dtype=bool), labels

    @abstractmethod
    def __call__(self, summary: Summary, rng: np.random.Generator) -> Summary | None:
        """Return what is left of a summary; with None the client sends nothing."""


def parse_steps(text: str) -> tuple[Step, ...]:
    """Return the steps of a text.

    Parameters
    ----------
    text : str
        Steps with ``+`` between them, each a name and its settings in their order with ``:``
        between them, such as ``count-noise:uniform:0.3``. ``none`` is no step.

    Raises
    ------
    SettingError
        If there is no such step, or a setting is out of range.
    """
    if text == _NO_STEPS:
        return ()
    return tuple(entry_from_text(STEPS, step, "steps") for step in text.split("+"))


def check_by_class(step: Step, kind: type[Summary]) -> None:
    """Check that a step which leaves classes out can be done to a kind of summary.

    Raises
    ------
    SettingError
        If an array of it has no row a class, as a Gram matrix has none: what is left out would
        still be in it.
    """
    if shared := kind.shared_arrays():
        raise SettingError(
            step.name,
            f"cannot be done to summaries of kind {kind.kind}: {', '.join(shared)} would still "
            "hold a class that is left out; take a method whose clients send class means, such as "
            "fedcof",
        )


class Held(NamedTuple):
    """What one client holds.

    Parameters
    ----------
    features : array_like of float, shape (n, dim)
    labels : array_like of int or str, shape (n,)
    client_id : str, default ""
    origin : mapping of str to str, default {}
        What made the features: ``{"backbone": fingerprint}``, empty for plain tables.
    """

    features: ArrayLike
    labels: ArrayLike
    client_id: str = ""
    origin: Mapping[str, str] = _NO_ORIGIN


@dataclass(frozen=True)
class Withheld:
    """What a client has and does not send.

    Parameters
    ----------
    classes : int, default 0
        How many classes of the client are not among those that it sends.
    samples : int, default 0
        How many samples are in nothing that it sends.
    """

    classes: int = 0
    samples: int = 0

    def __bool__(self) -> bool:
        return self != Withheld()

    def __str__(self) -> str:
        return f"{self.classes:,} classes and {self.samples:,} samples"


@dataclass(frozen=True)
class Sent:
    """What leaves a client.

    Parameters
    ----------
    summary : Summary
        What is sent, before it is encoded.
    data : bytes
        The summary, as `fedcof.from_bytes` reads it.
    coding : str
        How its numbers travel.
    withheld : Withheld
        What of the client is not in it.
    """

    summary: Summary = field(compare=False, repr=False)
    data: bytes
    coding: str
    withheld: Withheld = Withheld()

    @property
    def formula_bytes(self) -> int:
        """Its size by the paper's formulas."""
        return self.summary.formula_bytes

    @property
    def wire_bytes(self) -> int:
        """Its size as it goes over the wire."""
        return len(self.data)

    def __str__(self) -> str:
        """Return in a line what leaves: classes with their counts, numbers, bytes."""
        return (
            f"{said(self.summary)}, {self.coding}, {self.wire_bytes:,} bytes; "
            f"withheld: {self.withheld}"
        )


def said(summary: Summary) -> str:
    """Return in a line what is in a summary: its classes with their counts, how many numbers."""
    counts = [f"{label} ({count:,})" for label, count in summary.counts_by_class.items()]
    numbers = sum(getattr(summary, name).size for name in summary.axes)
    return (
        f"{summary.kind} of {len(counts):,} classes: {first_of(counts, _SHOWN)}; "
        f"{numbers:,} numbers and {len(summary.counts):,} counts"
    )


def _withheld(labels: ArrayLike, kept: ArrayLike, summary: Summary) -> Withheld:
    """Return what of a client's labels is not in its summary, which was made of those kept."""
    held = as_labels(labels)
    gone = np.setdiff1d(held, summary.classes)
    return Withheld(len(gone), len(held) - int(np.isin(kept, summary.classes).sum()))


@dataclass(frozen=True)
class Sender:
    """How every client of a federation makes what it sends.

    Parameters
    ----------
    method : Method
        Makes the summary.
    seed : int, default 0
        Seeds what the clients draw, each from the seed and its id.
    coding : str, default "auto"
        How the numbers travel; a key of `fedcof.codings.CODINGS`, or one for each array, such as
        ``means=int8,vectors=int4``. "auto" is what the method says, `Method.coding`.
    transform : Transform, default NO_TRANSFORM
        What is done to the features first; what is sent says it, and the head does it too. What
        the method adds in any federation, `Method.lifting`, comes behind it.
    steps : tuple of Step, default ()
        What is done to a summary before it is encoded, in this order; see `Step`.
    """

    method: Method[Any]
    seed: int = setting(0, "Seeds what the clients draw, each from the seed and its id.", minimum=0)
    coding: str = setting(AUTO, "How the numbers travel: float32, float16, int8 or int4.")
    transform: Transform = NO_TRANSFORM
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        check_settings(self)
        if self.coding == AUTO:
            object.__setattr__(self, "coding", self.method.coding)
        if self.coding != AUTO:
            parse_codings(self.coding, self.method.summary_type.axes)
        for step in self.steps:
            step.check(self.method.summary_type)
            step.check_among(self.steps)
        own, lifting = self.transform, self.method.lifting
        last = own.steps[-1:] if isinstance(own, Chain) else (own,)
        if last != (lifting,):  # a sender made of another's settings has it already
            object.__setattr__(self, "transform", chain(own, lifting))

    def planned(self, dim: int, clients: Iterable[tuple[int, int]], num_classes: int) -> Self:
        """Return the sender with what its method plans for a federation; see `Method.plan`.

        Nothing is planned where the transform changes the length of a feature already.

        Parameters
        ----------
        dim : int
            The length of a feature before it is transformed.
        clients, num_classes
            As for `Method.plan`.
        """
        if self.transform.output_dim(dim) != dim:
            return self
        plan = self.method.plan(dim, clients, num_classes)
        return replace(self, transform=chain(self.transform, plan))

    def send(
        self,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        client_id: str = "",
        origin: Mapping[str, str] = _NO_ORIGIN,
        noise: np.random.Generator | None = None,
    ) -> Sent | None:
        """Return what a client sends, None where a step leaves nothing.

        Parameters
        ----------
        features : array_like of float, shape (n, dim)
        labels : array_like of int or str, shape (n,)
        client_id : str, optional
        origin : mapping of str to str, default {}
            What made the features: ``{"backbone": fingerprint}``, empty for plain tables.
        noise : numpy.random.Generator, optional
            What the steps draw from. A site gives one that nobody else can seed. Without it they
            draw from the seed and the id, as an experiment has to: whoever knows these can take
            such noise off again.

        Raises
        ------
        SummaryError
            If the data is not well-formed, or a value is too large for the coding.
        """
        held = Held(features, labels, client_id, origin)
        return self.send_each([held], noise=noise)[0]

    def a_few_at_a_time(self, clients: Iterable[Held]) -> Iterator[list[Held]]:
        """Yield clients as `send_each` is fast with them: with little data, many together.

        One by one where a summary is large of however few samples, such as a Gram matrix.
        """
        enough = _FEW_BYTES if self.method.summarizes_together else 0
        few: list[Held] = []
        size = 0
        for held in clients:
            few.append(held)
            size += np.asarray(held.features).nbytes + _CLIENT_BYTES
            if size >= enough:
                yield few
                few, size = [], 0
        if few:
            yield few

    def send_each(
        self, clients: Sequence[Held], *, noise: np.random.Generator | None = None
    ) -> list[Sent | None]:
        """Return what each of several clients sends, None where a step leaves nothing.

        The bytes are those of `send`; of clients with a few samples, many are faster together.

        Parameters
        ----------
        clients : sequence of Held
        noise : numpy.random.Generator, optional
            As for `send`.

        Raises
        ------
        SummaryError
            If one is not well-formed; `send` them one by one to have the others.
        """
        prepared = [(held, self.prepared(held)) for held in clients]
        sent = iter(self._sent([(held, own) for held, own in prepared if len(own.labels)], noise))
        return [next(sent) if len(own.labels) else None for _, own in prepared]

    def _sent(
        self, clients: Sequence[tuple[Held, Samples]], noise: np.random.Generator | None
    ) -> list[Sent | None]:
        """Return what clients send of whom something is left to summarize."""
        rngs = cache(lambda place: client_rng(self.seed, clients[place][0].client_id))
        sent: list[Sent | None] = []
        for place, (summary, coding) in enumerate(self._summaries(clients, rngs)):
            if not self.steps:
                sent.append(Sent(summary, summary.to_bytes(coding), coding))
                continue
            left = self._after_steps(summary, noise or rngs(place))
            if left is None:
                sent.append(None)
                continue
            held, own = clients[place]
            withheld = _withheld(held.labels, own.labels, left)
            sent.append(Sent(left, left.to_bytes(coding), coding, withheld))
        return sent

    def _summaries(
        self,
        clients: Sequence[tuple[Held, Samples]],
        rngs: Callable[[int], np.random.Generator],
    ) -> list[tuple[Summary, str]]:
        """Return the summary of each client with its coding."""
        if not self.method.settles:
            made = self.method.summarize_each([own for _, own in clients], rngs)
            return [(summary, self.coding) for summary in made]
        settled = []
        for place, (held, own) in enumerate(clients):
            outline = Outline(
                classes=np.unique(own.labels),
                samples=len(own.labels),
                dim=np.shape(own.features)[1],
                raw_dim=np.shape(held.features)[1],
                client_id=own.client_id,
                origin=own.origin,
            )
            method, coding = self.method.settle(outline, self.coding)
            (summary,) = method.summarize_each([own], {0: rngs(place)}.__getitem__)
            settled.append((summary, coding))
        return settled

    def _after_steps(self, summary: Summary, rng: np.random.Generator) -> Summary | None:
        for step in self.steps:
            left = step(summary, rng)
            if left is None:
                return None
            summary = left
        return summary

    def _chosen(self, labels: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
        """Return which samples the steps leave to be summarized, and the labels of these."""
        kept = np.ones(len(labels), dtype=bool)
        for step in reversed(self.steps):
            kept[kept], labels = step.samples(labels)
        return kept, labels

    def prepared(self, held: Held) -> Samples:
        """Return a client's samples as they are summarized, and what made them.

        Without those that the steps leave out, which may be all.

        Raises
        ------
        SummaryError
            If the data is not well-formed, with the client.
        """
        with naming(held.client_id):
            features, labels = check_samples(held.features, held.labels)
            if self.steps:
                kept, labels = self._chosen(labels)
                features = features[kept]
            features, origin = self._transformed(features, held.origin)
        return Samples(features, labels, held.client_id, origin)

    def _transformed(
        self, features: NDArray[np.floating[Any]], origin: Mapping[str, str]
    ) -> tuple[NDArray[np.floating[Any]], Mapping[str, str]]:
        """Return transformed features, and the origin that says how they were transformed.

        Raises
        ------
        SummaryError
            If the transform takes features of another length.
        """
        if self.transform == NO_TRANSFORM:
            return features, origin
        try:
            bound = self.transform.bound(features.shape[1])
        except SettingError as error:
            raise SummaryError(TRANSFORM, str(error)) from None
        return bound(features), {**origin, TRANSFORM: str(bound)}

    def expected_bytes(
        self,
        classes: NDArray[Any],
        dim: int,
        *,
        samples: int | None = None,
        client_id: str = "",
        origin: Mapping[str, str] = _NO_ORIGIN,
    ) -> tuple[int, int]:
        """Return the formula and wire bytes of a client with one row a class, without its samples.

        The steps are not applied.

        Parameters
        ----------
        classes : ndarray of int64 or str, shape (rows,)
            The client's classes.
        dim : int
            The length of a feature, d.
        samples : int, optional
            How many the client has; needed where the size depends on it.
        client_id, origin
            As for `send`.
        """
        raw_dim = dim
        if self.transform != NO_TRANSFORM:
            origin = {**origin, TRANSFORM: str(self.transform.bound(dim))}
            dim = self.transform.output_dim(dim)
        outline = Outline(classes, samples, dim, raw_dim, client_id, origin)
        method, coding = self.method.settle(outline, self.coding)
        return outline.encoded_size(method.summary_type, method.client_settings, coding)

    @property
    def steps_in_words(self) -> str:
        """The steps as a line says them."""
        return " + ".join(map(str, self.steps)) or "none"

    def settings(self) -> dict[str, Any]:
        """Return what clients must know, as JSON has it: all that their summaries depend on."""
        return {
            "method": self.method.name,
            "client_settings": self.method.client_settings,
            "seed": self.seed,
            "coding": self.coding,
            "transform": str(self.transform),
            "steps": [{"name": step.name, **asdict(step)} for step in self.steps],
        }

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Return a sender that makes the same summaries as the one whose `settings` these are.

        Raises
        ------
        ValueError
            If the method, a step or the coding is not known here, or a setting is out of range.
        """
        steps = []
        for step in settings["steps"]:
            fields = dict(step)
            steps.append(STEPS.find(fields.pop("name"))(**fields))
        return cls(
            method=get_method(settings["method"], **settings["client_settings"]),
            seed=int(settings["seed"]),
            coding=settings["coding"],
            transform=parse(settings["transform"]),
            steps=tuple(steps),
        )
