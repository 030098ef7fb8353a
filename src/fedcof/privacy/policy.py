"""What a site allows to leave it, whatever a server asks: its policy, as a file.

A policy is a TOML file at the site::

    methods = ["fedcof", "fedncm"]   # any other job is refused
    min-samples = 5                  # smaller classes do not leave

Everything that sends asks the policy first: `Policy.check` refuses a job with a code, and
`Policy.send` makes what leaves. What cannot be read as a policy allows nothing.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcof.client import Held, Sender, Sent
from fedcof.codings import AUTO, CODINGS, parse_codings
from fedcof.errors import PolicyError, SettingError, SummaryError, reason_of
from fedcof.methods import METHODS
from fedcof.privacy.accountant import rho_of
from fedcof.privacy.differential import Neighbours
from fedcof.privacy.ledger import Budget, Ledger
from fedcof.privacy.local import LocalPrivacy
from fedcof.privacy.site import MinSamples
from fedcof.settings import check_settings, dashed_keys, setting
from fedcof.transforms import NO_TRANSFORM, TRANSFORMS, Chain, Transform

_log = logging.getLogger(__name__)

_NO_TRANSFORM = str(NO_TRANSFORM)

_LISTS: dict[str, Callable[[], Iterable[str]]] = {
    "methods": lambda: METHODS,
    "codings": lambda: CODINGS,
    "transforms": lambda: [_NO_TRANSFORM, *TRANSFORMS],
    "backbones": lambda: (),  # any name: a backbone may be a file
}
"""What a list of a policy may name."""


def _as_names(name: str, value: Any) -> tuple[str, ...] | None:
    """Return a list of a policy as a tuple of names that there are."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise SettingError(name, f"must be a list of names, such as ['...'], it is {value!r}")
    if name == "methods":
        METHODS.load_plugins()
    known = list(_LISTS[name]())
    for item in value:
        if not isinstance(item, str):
            raise SettingError(name, f"must be a list of names, {item!r} is none")
        if known and item not in known:
            near = " or ".join(get_close_matches(item, known) or sorted(known))
            raise SettingError(name, f"has {item!r}, which there is not; did you mean {near}?")
    return tuple(dict.fromkeys(value))


_OF_NODES = ("policy", "min-samples", "small-classes", "report-withheld", "dry-run", "ledger")
"""The keys of a node's configuration by which a site protects itself."""

_LEDGER = "privacy.db"

_ALIKE = 0.85
"""How alike a key is to one of these if it was meant to be that one."""


@dataclass(frozen=True)
class Guarantee:
    """What a mechanism promises of a client.

    Parameters
    ----------
    epsilon, delta : float
        Of differential privacy.
    neighbours : {"sample", "client"}, default "sample"
    """

    epsilon: float
    delta: float
    neighbours: Neighbours = "sample"

    @property
    def rho(self) -> float:
        """What it costs a client by sample, in zCDP.

        To change a sample is to take the client away and to add it anew, so two steps between
        neighbours by client: four times their loss.
        """
        return rho_of(self.epsilon, self.delta) * (4 if self.neighbours == "client" else 1)

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:g} by {self.neighbours}"


@dataclass(frozen=True)
class Policy:
    """What a site allows. A list that is None allows everything, an empty one nothing.

    Parameters
    ----------
    methods, codings, transforms, backbones : tuple of str or None
        The names that a job may have. A chain of transforms may be made of those named; "none" is
        no transform.
    """

    methods: tuple[str, ...] | None = None
    codings: tuple[str, ...] | None = None
    transforms: tuple[str, ...] | None = None
    backbones: tuple[str, ...] | None = None
    min_samples: int = setting(
        1, "A class of which a client has fewer samples does not leave it.", minimum=1
    )
    small_classes: Literal["withhold", "merge"] = setting(
        "withhold", "What becomes of such classes: withheld, or merged into one other class."
    )
    other_class: str = setting(
        "", "That other class; empty: 'other', or -1 where labels are integers."
    )
    means_per_class: int | None = setting(
        None, "The most means or components of a class that a job may ask for.", minimum=1
    )
    classes: Literal["shown", "hidden"] = setting(
        "shown", "hidden: nobody learns which classes a client holds, so sums over clients alone."
    )
    training: bool = setting(False, "Whether clients train from a head, which sends weights.")
    own_data_only: bool = setting(
        False, "Whether a job may not name the data, nor its columns: the site alone does."
    )
    report_withheld: bool = setting(
        False, "Whether the server is told how many classes and samples are withheld."
    )
    epsilon: float | None = setting(
        None, "Of differential privacy, in all: what has no such guarantee is refused.", above=0
    )
    delta: float | None = setting(None, "The delta of that budget.", minimum=0, maximum=1)
    ledger: str = setting(
        "", "File of what clients have lost of it; empty: privacy.db, beside the policy's file."
    )

    def __post_init__(self) -> None:
        check_settings(self)
        for name in _LISTS:
            object.__setattr__(self, name, _as_names(name, getattr(self, name)))
        if (self.epsilon is None) != (self.delta is None):
            lacking = "delta" if self.delta is None else "epsilon"
            raise SettingError(lacking, "is needed: a budget is an epsilon with a delta")

    @property
    def step(self) -> MinSamples:
        """The step that does what `min_samples` says."""
        return MinSamples(self.min_samples, self.small_classes, self.other_class)

    @property
    def withholds(self) -> bool:
        """Whether something of a client may not leave, so that no number of it is announced."""
        return self.min_samples > 1 or self.classes == "hidden"

    def check(
        self,
        sender: Sender,
        *,
        backbone: str = "",
        summed: bool = False,
        guarantee: Guarantee | None = None,
    ) -> None:
        """Check that a client may answer a job.

        Parameters
        ----------
        sender : Sender
            How it would make what it sends.
        backbone : str, default ""
            The name of the backbone that makes the features of images.
        summed : bool, default False
            Whether nobody can read what the client sends, but sums over many clients: under masks,
            where a class that the client lacks is zeros.
        guarantee : Guarantee, optional
            What a mechanism of differential privacy promises of the sum, where there is one; of a
            client's own summary the steps of the sender say it.

        Raises
        ------
        PolicyError
            If the policy does not allow it; its code says what.
        """
        method = sender.method
        self._check_name("methods", method.name)
        for name in _names_of(sender.transform):
            self._check_name("transforms", name)
        if backbone:
            self._check_name("backbones", backbone)
        if sender.coding != AUTO and not summed:
            self._check_coding(sender, sender.coding)
        if self.means_per_class is not None and method.rows_per_class > self.means_per_class:
            raise PolicyError(
                "policy-means-per-class",
                f"{method.rows_per_class} means or components of a class; the site's policy allows "
                f"{self.means_per_class}",
            )
        if self.classes == "hidden" and not summed:
            raise PolicyError(
                "policy-classes",
                "the site's policy hides which classes a client holds, and a summary of its own "
                "shows them; only sums over clients, where a class that it lacks is zeros, do not",
            )
        promised = guarantee or local_guarantee(sender)
        self._check_budget(guarantee if summed else promised)
        if promised and promised.neighbours == "sample" and self.min_samples > 1:
            raise PolicyError(
                "policy-min-samples",
                "the site's policy withholds small classes, and noise by sample is not made for "
                "that: one sample more would let all of a class appear. Ask for noise by client, "
                "or let the site take min-samples out of its policy: the noise hides small classes "
                "as well",
            )

    def check_training(self, *, backbone: str = "", transform: Transform = NO_TRANSFORM) -> None:
        """Check that a client may train, which sends weights that its samples have moved.

        Raises
        ------
        PolicyError
            If the policy does not allow it.
        """
        if not self.training:
            raise PolicyError(
                "policy-training",
                "the site's policy does not allow training: it says training = true where it does",
            )
        for name in _names_of(transform):
            self._check_name("transforms", name)
        if backbone:
            self._check_name("backbones", backbone)
        if self.classes == "hidden":
            raise PolicyError(
                "policy-classes", "the weights of a class move where a client holds it"
            )
        self._check_budget(None)

    def _check_budget(self, guarantee: Guarantee | None) -> None:
        if self.epsilon is None or self.delta is None:
            return
        stated = f"the site's policy allows epsilon {self.epsilon:g} and delta {self.delta:g}"
        if guarantee is None:
            raise PolicyError(
                "policy-budget", f"{stated} in all, and this job has no differential privacy"
            )
        # Not "is more than": NaN is refused, too.
        if not (guarantee.epsilon <= self.epsilon and guarantee.delta <= self.delta):
            raise PolicyError(
                "policy-budget",
                f"{stated} in all; this answer alone takes {guarantee.epsilon:g} and "
                f"{guarantee.delta:g}",
            )

    def check_left(self, client_id: str, guarantee: Guarantee | None) -> None:
        """Check that a client has enough left of its budget; nothing is spent.

        Raises
        ------
        BudgetError
            If it has not.
        """
        if guarantee and (budget := self._budget):
            self._losses.check(client_id, guarantee.rho, budget)

    def spend(self, client_id: str, guarantee: Guarantee | None, *, release: str) -> None:
        """Write down what a client loses by an answer, right before that leaves.

        Whoever asks again gets other noise, which is another loss.

        Parameters
        ----------
        client_id : str
        guarantee : Guarantee, optional
            What is promised of the answer; None is possible only where the policy has no budget.
        release : str
            For people: what was asked.

        Raises
        ------
        BudgetError
            If it is more than what is left of the budget; nothing is written then.
        """
        if guarantee and (budget := self._budget):
            self._losses.spend(client_id, guarantee.rho, budget, release=release)

    @property
    def _budget(self) -> Budget | None:
        if self.epsilon is None or self.delta is None:
            return None
        return Budget(self.epsilon, self.delta)

    @property
    def _losses(self) -> Ledger:
        return Ledger(Path(self.ledger or _LEDGER))

    def _check_name(self, what: str, name: str) -> None:
        allowed = getattr(self, what)
        if allowed is not None and name not in allowed:
            raise PolicyError(
                f"policy-{what}",
                f"{name!r} is not among the {what} of the site's policy: "
                f"{', '.join(allowed) or 'none is allowed'}",
            )

    def _check_coding(self, sender: Sender, coding: str) -> None:
        arrays = sender.method.summary_type.axes
        for name in sorted(set(parse_codings(coding, arrays).values())):
            self._check_name("codings", name)

    def guarded(self, sender: Sender) -> Sender:
        """Return the sender with what the site adds to its steps, next to the summary.

        Of two thresholds the larger one counts, the server's or the site's.
        """
        if self.min_samples == 1:
            return sender
        asked = [step for step in sender.steps if isinstance(step, MinSamples)]
        least = max([self.min_samples, *(step.min_samples for step in asked)])
        others = tuple(step for step in sender.steps if step not in asked)
        return replace(sender, steps=(replace(self.step, min_samples=least), *others))

    def send(
        self,
        sender: Sender,
        features: ArrayLike,
        labels: ArrayLike,
        *,
        backbone: str = "",
        client_id: str = "",
        origin: Mapping[str, str],
    ) -> Sent:
        """Return what a client sends, after the policy has been asked; say it in the log.

        Parameters
        ----------
        sender, backbone
            As for `check`.
        features, labels, client_id, origin
            As for `Sender.send`. Noise is drawn from a generator that nobody else can seed.

        Raises
        ------
        PolicyError
            If the policy does not allow it.
        SummaryError
            As `Sender.send`; or if nothing is left to send.
        """
        held = Held(features, labels, client_id, origin)
        (sent,) = self.send_each(sender, [held], backbone=backbone)
        if sent is None:
            raise nothing_left(client_id)
        return sent

    def send_each(
        self, sender: Sender, clients: Sequence[Held], *, backbone: str = ""
    ) -> list[Sent | None]:
        """Return what each of several clients sends, None where nothing is left.

        Parameters
        ----------
        sender, backbone
            As for `check`.
        clients : sequence of Held

        Raises
        ------
        PolicyError, SummaryError
            As `send`, for one of them; `send` them one by one to have the others.
        """
        self.check(sender, backbone=backbone)
        guarded = self.guarded(sender)
        noise = np.random.default_rng() if guarded.steps else None
        sent = guarded.send_each(clients, noise=noise)
        for coding in {each.coding for each in sent if each is not None}:
            self._check_coding(sender, coding)
        for held, each in zip(clients, sent, strict=True):
            if each is not None:
                _log.info("%s: %s; steps: %s", held.client_id, each, guarded.steps_in_words)
        return sent

    def trained_on(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Return the samples on which a client may train: those of classes with enough of them."""
        kept, _ = MinSamples(self.min_samples).samples(labels)
        return np.flatnonzero(kept)

    def __and__(self, other: Policy) -> Policy:
        """Return a policy that allows what both allow.

        What becomes of small classes is as the one with the larger threshold says.
        """
        stricter, _ = sorted((self, other), key=lambda policy: -policy.min_samples)
        both: dict[str, Any] = {
            name: _common(getattr(self, name), getattr(other, name)) for name in _LISTS
        }
        for name in ("means_per_class", "epsilon", "delta"):
            limits = {getattr(self, name), getattr(other, name)} - {None}
            both[name] = min(limits, default=None)
        return replace(
            stricter,
            classes="hidden" if "hidden" in (self.classes, other.classes) else "shown",
            training=self.training and other.training,
            own_data_only=self.own_data_only or other.own_data_only,
            report_withheld=self.report_withheld and other.report_withheld,
            ledger=self.ledger or other.ledger,
            **both,
        )


def local_guarantee(sender: Sender) -> Guarantee | None:
    """Return what the steps of a sender promise of a client's own summary; None if nothing."""
    first = sender.steps[0] if sender.steps else None
    return Guarantee(first.epsilon, first.delta) if isinstance(first, LocalPrivacy) else None


WITHHELD = "withheld"
"""The code of a client of which nothing is left to send."""


def nothing_left(client_id: str) -> SummaryError:
    """Return what is said of such a client."""
    message = "nothing is left to send of what this client has"
    return SummaryError(WITHHELD, message, client_id=client_id)


UNREADABLE = "policy"
"""The code of a policy that cannot be read, so that nothing is allowed."""

OPEN = Policy(training=True, report_withheld=True)
"""The policy of a site that states none."""


@dataclass(frozen=True)
class Protected:
    """What a ``load_data`` returns whose clients' data has a policy of its own.

    Parameters
    ----------
    data : object
        What it would return otherwise: ``(data, labels)``, or several clients.
    policy : Policy
    """

    data: Any
    policy: Policy = field(default_factory=Policy)


def read_policy(path: str | Path) -> Policy:
    """Return the policy of a TOML file.

    Raises
    ------
    PolicyError
        If it is not there or no policy, with the key at fault; so nothing is allowed.
    """
    try:
        with Path(path).open("rb") as file:
            content = tomllib.load(file)
        if not content:  # as a file is that was cut off, or is not where it is looked for
            raise ValueError("it has no key; delete it where nothing is to be protected")
        policy = policy_of(content)
        if policy.epsilon is None:
            return policy
        return replace(policy, ledger=str(Path(path).parent / (policy.ledger or _LEDGER)))
    except (OSError, ValueError) as error:
        raise PolicyError(
            UNREADABLE,
            f"the policy {path} cannot be read, so nothing is allowed: {reason_of(error)}",
        ) from None


def policy_of(content: Mapping[str, Any]) -> Policy:
    """Return the policy that a file's keys and values say.

    Raises
    ------
    SettingError
        If a key is none of a policy, or a value cannot be; near keys are named.
    """
    known = [item.name.replace("_", "-") for item in fields(Policy)]
    given: dict[str, Any] = {}
    for name, key in dashed_keys(content).items():
        if name not in known:
            near = " or ".join(get_close_matches(name, known))
            hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
            raise SettingError(key, f"is no key of a policy; {hint}")
        given[name.replace("-", "_")] = content[key]
    try:
        return Policy(**given)
    except SettingError as error:
        raise SettingError(error.name.replace("_", "-"), error.reason) from None


def stated_policy(path: str | Path | None, own: Mapping[str, Any]) -> Policy:
    """Return the policy of a file, if there is one, with what is stated besides.

    Parameters
    ----------
    path : path or None
    own : mapping of str to object
        Keys and values as in a file, which go before those of the file; but of two thresholds the
        larger one counts.

    Raises
    ------
    PolicyError
        If the file cannot be read.
    SettingError
        If a value stated besides cannot be.
    """
    stated = policy_of(own)
    if path is None:
        return stated if own.keys() - {"ledger"} else replace(OPEN, ledger=stated.ledger)
    policy = read_policy(path)
    over: dict[str, Any] = {name.replace("-", "_"): value for name, value in own.items()}
    over["min_samples"] = max(policy.min_samples, stated.min_samples)
    return replace(policy, **over)


def policy_of_node(node_config: Mapping[str, Any]) -> Policy:
    """Return the policy that a SuperNode's configuration states.

    ``policy`` names a file; ``min-samples``, ``small-classes``, ``report-withheld`` and ``ledger``
    go with one or without, see `stated_policy`. A key that looks like one of these and is none is
    refused: it would not protect.

    Raises
    ------
    PolicyError
        If it cannot be read.
    """
    try:
        keys = dashed_keys(node_config)
        for name in keys.keys() - set(_OF_NODES):
            if near := get_close_matches(name, _OF_NODES, n=1, cutoff=_ALIKE):
                raise SettingError(keys[name], f"is none of a node's keys; did you mean {near[0]}?")
        given = {name: node_config[keys[name]] for name in _OF_NODES if name in keys}
        given.pop("dry-run", None)
        path = given.pop("policy", None)
        if path is not None and not (isinstance(path, str) and path):
            raise SettingError("policy", f"must be the path of a file, it is {path!r}")
        return stated_policy(path, given)
    except SettingError as error:
        raise PolicyError(UNREADABLE, f"in the node's configuration: {error}") from None


def dry_run_of_node(node_config: Mapping[str, Any]) -> bool:
    """Return whether a SuperNode only tries, by ``dry-run`` in its configuration.

    Raises
    ------
    PolicyError
        If that is neither true nor false.
    """
    value = node_config.get(dashed_keys(node_config).get("dry-run", "dry-run"), False)
    if not isinstance(value, bool):
        raise PolicyError(UNREADABLE, f"dry-run must be true or false, it is {value!r}")
    return value


def _names_of(transform: Transform) -> list[str]:
    if transform == NO_TRANSFORM:
        return [_NO_TRANSFORM]
    steps = transform.steps if isinstance(transform, Chain) else (transform,)
    return [step.name for step in steps]


def _common(
    first: tuple[str, ...] | None, second: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    if first is None or second is None:
        return second if first is None else first
    return tuple(name for name in first if name in second)
