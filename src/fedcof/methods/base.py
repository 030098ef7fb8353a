"""A method: what the client sends and what the server makes of it."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from numpy.typing import ArrayLike, NDArray

from fedcof.algebra import Engine, algebra_of, computed_by
from fedcof.codings import Float32
from fedcof.errors import (
    LocalNoiseWarning,
    OddSiteWarning,
    SettingError,
    StreamingError,
    SummaryError,
)
from fedcof.heads import Head, Provenance
from fedcof.methods.passes import Pass, SumsPass
from fedcof.registry import Registry
from fedcof.screening import screen
from fedcof.settings import check_settings, settings_of
from fedcof.summaries import Summary, ordered
from fedcof.summaries.base import NOISE, TRANSFORM, common_origin, one_by_one
from fedcof.summaries.class_sums import ClassSums
from fedcof.summaries.samples import Samples, Seed, Seeds
from fedcof.transforms import NO_TRANSFORM, Transform, parse

S = TypeVar("S", bound=Summary)

METHODS: Registry[type[Method[Any]]] = Registry("method")
"""Every method by its name."""

_SCREENED = 1000
"""Up to so many summaries are compared with each other in `Method.solve`."""


@dataclass(frozen=True, eq=False)
class Outline:
    """What the size of a client's summary depends on, known before it is made.

    Parameters
    ----------
    classes : ndarray of int64 or str, shape (classes,)
        The client's classes, each once, in ascending order.
    samples : int or None
        How many it has, None where that is not known.
    dim, raw_dim : int
        The length of a feature as it is summarized, and before it was transformed.
    client_id : str, default ""
    origin : mapping of str to str, default {}
        As the summary will have them.
    """

    classes: NDArray[Any]
    samples: int | None
    dim: int
    raw_dim: int
    client_id: str = ""
    origin: Mapping[str, str] = field(default_factory=dict)

    def encoded_size(
        self, summary_type: type[Summary], client_settings: Mapping[str, Any], coding: str
    ) -> tuple[int, int]:
        """Return the formula and wire bytes of the summary that is made of it."""
        return summary_type.encoded_size(
            self.classes,
            summary_type.expected_lengths(self.dim, client_settings, self.samples),
            client_id=self.client_id,
            origin=self.origin,
            coding=coding,
        )


@dataclass(frozen=True)
class Method(ABC, Generic[S]):
    """One object with two halves; its fields are its hyperparameters.

    ``summarize`` runs on the client and returns all that leaves it; ``solve`` runs on the server.
    A hyperparameter is declared with `fedcof.settings.setting`; one that shapes what a client sends
    has ``client=True`` and is handed to the summary's ``summarize``.
    """

    name: ClassVar[str]
    """The name on the command line, in results and in a head's provenance."""
    summary_type: ClassVar[type[Summary]]
    """What the clients send."""
    needs_all: ClassVar[str] = "its solution is no sum over the clients"
    """Why it cannot be solved in bounded memory, unless `streamed` says how."""
    averages_noise: ClassVar[bool] = False
    """Whether noise of the clients is, in the head, no more than noise on averages."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "pool" in vars(cls):  # what follows from another pool does not from this one
            if "streamed" not in vars(cls):
                cls.streamed = Method.streamed  # type: ignore[method-assign]
            if "pools_without" not in vars(cls):
                cls.pools_without = Method.pools_without  # type: ignore[method-assign]
        if "name" in vars(cls):
            METHODS.add(cls.name, cls)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def client_settings(self) -> dict[str, Any]:
        """The hyperparameters that shape what a client sends: all that a client must know."""
        declared = settings_of(type(self)).values()
        return {known.name: getattr(self, known.name) for known in declared if known.client}

    @property
    def rows_per_class(self) -> int:
        """The most rows that a client sends for one class; a summary with more is refused."""
        return 1

    @property
    def coding(self) -> str:
        """How its summaries travel where nothing else is asked for; "auto" if `settle` says it."""
        return Float32.name

    def settle(self, outline: Outline, coding: str) -> tuple[Self, str]:
        """Return the method and the coding with which one client sends.

        They are those of all clients, unless a method fits what is sent to what the client has.

        Parameters
        ----------
        outline : Outline
            What is known of the client's summary.
        coding : str
            That of all clients; "auto" where the method's own `coding` is that.
        """
        return self, coding

    @property
    def settles(self) -> bool:
        """Whether what a client sends is fitted to what it has."""
        return type(self).settle is not Method.settle

    @property
    def lifting(self) -> Transform:
        """What all clients do to features after their own transform, in any federation."""
        return NO_TRANSFORM

    def plan(self, dim: int, clients: Iterable[tuple[int, int]], num_classes: int) -> Transform:
        """Return what else all clients do to features before they summarize, in one federation.

        It is planned before anybody sends, from public numbers alone.

        Parameters
        ----------
        dim : int
            The length of a feature that the method gets.
        clients : iterable of (int, int)
            How many classes and how many samples each client has.
        num_classes : int
            How many classes all clients have together.
        """
        return NO_TRANSFORM

    def sent_settings(self, parts: Sequence[S]) -> dict[str, Any]:
        """Return the hyperparameters that the summaries show: those with which clients made them.

        They go before the server's own in a head's provenance.
        """
        return {}

    def seeded(self, seed: int) -> Self:
        """Return the method with its server's random numbers drawn from a seed, if it draws any."""
        return self

    def summarize(
        self, features: ArrayLike, labels: ArrayLike, *, client_id: str = "", rng: Seed = None
    ) -> S:
        """Return what a client sends.

        Parameters
        ----------
        features : array_like of float, shape (n, dim)
            The features of the client's samples.
        labels : array_like of int or str, shape (n,)
            Their classes.
        client_id : str, optional
            The client's name.
        rng : numpy.random.Generator or int, optional
            For methods that draw random sets of samples.

        Raises
        ------
        SummaryError
            If the data is not well-formed.
        """
        summary: S = self.summary_type.summarize(
            features, labels, client_id=client_id, rng=rng, **self.client_settings
        )
        return summary

    @property
    def summarizes_together(self) -> bool:
        """Whether `summarize_each` is faster than one by one, and makes little of few samples."""
        usual = type(self).summarize is Method.summarize and not self.settles
        return usual and self.summary_type.summarized_together

    def summarize_each(self, clients: Sequence[Samples], rng: Seeds) -> Sequence[S]:
        """Return what several clients send, as `summarize` does one by one, and faster.

        Parameters
        ----------
        clients : sequence of Samples
        rng : callable
            What the client at a place draws from.

        Raises
        ------
        SummaryError
            If the data of one is not well-formed.
        """
        if type(self).summarize is Method.summarize:
            return self.summary_type.summarize_each(clients, rng, **self.client_settings)  # type: ignore[return-value]
        return one_by_one(self.summarize, clients, rng)

    def solve(
        self,
        summaries: Iterable[Summary],
        *,
        screened: bool = False,
        engine: Engine = "cpu",
        pooled: Any = None,
    ) -> Head:
        """Return the head.

        Parameters
        ----------
        summaries : iterable of summaries
            What the clients sent, in any order.
        screened : bool, default False
            Whether somebody has compared them with each other before, so that it is not done here.
        engine : {"cpu", "cuda"}, default "cpu"
            Where the products of matrices and Cholesky's solution are computed: by SciPy, or by
            torch on CUDA in float64.
        pooled : optional
            What `pool` gives of them, where the caller has it.

        Raises
        ------
        SummaryError
            If there is none, two do not fit together, a client appears twice, or there is only one
            class in all.
        ValueError
            If there is no torch, or no CUDA, for the engine.

        Warns
        -----
        OddSiteWarning
            If a summary is not like the others, so that something may be wrong with its data; see
            `fedcof.screening`. Of more than 1,000 summaries none is compared here, since that would
            take as long as solving: call `fedcof.screening.screen`.
        """
        algebra = algebra_of(engine)
        parts = ordered(summaries, cast("type[S]", self.summary_type))
        for _, odd in () if screened or len(parts) > _SCREENED else screen(parts):
            warnings.warn(str(odd), OddSiteWarning, stacklevel=2)
        with computed_by(algebra):
            head = self.fit(self.pool(parts) if pooled is None else pooled)
        made = head.provenance or Provenance(self.name)
        origin = common_origin(parts)
        provenance = replace(
            made,
            hyperparameters={**(made.hyperparameters or asdict(self)), **self.sent_settings(parts)},
            clients=sum(len(part.client_ids) for part in parts),
            samples=sum(part.total for part in parts),
            formula_bytes=sum(part.formula_bytes for part in parts),
            origin=origin,
            privacy=self.noise_of(origin),
        )
        return replace(head, provenance=provenance, transform=transform_of(origin))

    def noise_of(self, origin: Mapping[str, str]) -> dict[str, Any]:
        """Return the privacy of a head of summaries that have noise, which their origin says.

        Warns
        -----
        LocalNoiseWarning
            If the head is not made of sums alone, in which the clients' noise averages out.
        """
        if NOISE not in origin:
            return {}
        name, *numbers = origin[NOISE].split(":")
        if not self.averages_noise:
            warnings.warn(
                f"the summaries have noise of their clients ({origin[NOISE]}), which {self.name} "
                "takes for part of the data where it estimates or inverts a scatter; fedncm, whose "
                "class means it leaves on average, or noise on the sum of all clients suits better",
                LocalNoiseWarning,
                stacklevel=3,
            )
        try:
            epsilon, delta = map(float, numbers)
        except ValueError:
            raise SummaryError(NOISE, "the origin says of its noise what cannot be") from None
        stated = {"epsilon": epsilon, "delta": delta, "neighbours": "sample", "samples": 1}
        return {**stated, "mechanism": f"discrete Gaussian at every client ({name})"}

    @abstractmethod
    def pool(self, parts: Sequence[S]) -> Any:
        """Return all that the head depends on, from summaries in the order of their clients.

        It does not depend on the hyperparameters that `fit` reads, so a grid over these pools once.
        """

    def pools_without(
        self, parts: Sequence[S], pooled: Any, places: Sequence[int]
    ) -> Iterator[Any | None]:
        """Yield what `pool` gives without each of some summaries, one at a time.

        Parameters
        ----------
        parts : sequence of summaries
        pooled
            What `pool` gave of them.
        places : sequence of int
            Which of the summaries are left out in turn.

        Yields
        ------
        pooled or None
            None where nothing can be made of the others.
        """
        for place in places:
            others = [*parts[:place], *parts[place + 1 :]]
            try:
                yield self.pool(others) if others else None
            except SummaryError:
                yield None

    def pool_samples(self, features: ArrayLike, labels: ArrayLike) -> Any | None:
        """Return what `pool` gives, up to rounding, however these samples are dealt to clients.

        None where it depends on who holds what.
        """
        return None

    def streamed(self) -> Pass[Any]:
        """Return the first pass of a solution in bounded memory, which needs no `pool`.

        Where clients send nothing but sums, it is their sum. Any other method overrides this.

        Raises
        ------
        StreamingError
            If all summaries must be in memory; the reason is `needs_all`.
        """
        if issubclass(self.summary_type, ClassSums):
            return SumsPass(self.summary_type, self.pool)
        raise StreamingError(self.name, self.needs_all)

    def tuned(self, pooled: Any) -> Self:
        """Return the method with numbers in place of what is automatic, from what `pool` gave."""
        return self

    @abstractmethod
    def fit(self, pooled: Any) -> Head:
        """Return the head from what `pool` gave."""


def transform_of(origin: Mapping[str, str]) -> Transform:
    """Return what was done to the features of summaries, which say it in their origin."""
    try:
        return parse(origin.get(TRANSFORM, str(NO_TRANSFORM)))
    except SettingError as error:
        raise SummaryError(TRANSFORM, f"the features have a {error}") from None


def chosen(asked: Method[Any], tuned: Method[Any]) -> Provenance:
    """Return the provenance of a head of a method whose automatic settings became numbers."""
    automatic = [
        name
        for name, known in settings_of(type(asked)).items()
        if getattr(asked, name) in known.words and getattr(tuned, name) not in known.words
    ]
    return Provenance(asked.name, asdict(tuned), automatic=automatic)


def check_two_classes(classes: NDArray[Any]) -> None:
    """Check that there are at least two classes.

    Raises
    ------
    SummaryError
        If there is one class in all.
    """
    if len(classes) < 2:
        raise SummaryError(
            "classes",
            f"all clients hold only the class {classes[0].item()!r}; a classifier needs two",
        )


def get_method(name: str, **hyperparameters: Any) -> Method[Any]:
    """Return the method of that name.

    Raises
    ------
    ValueError
        If there is no such method; the message lists the near ones.
    SettingError
        If the method has no such hyperparameter, or it has a value that it cannot have.
    """
    method = METHODS.find(name)
    known = [declared.name for declared in fields(method)]
    for unknown in (key for key in hyperparameters if key not in known):
        has = ", ".join(known) or "none"
        raise SettingError(unknown, f"is no hyperparameter of {name}, which has {has}")
    return method(**hyperparameters)
