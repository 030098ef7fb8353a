"""Differential privacy of every client alone: noise on its own sums before they are sent."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedcof.client import Step
from fedcof.errors import LocalNoiseWarning, SettingError, SummaryError
from fedcof.methods import Fed3R, FedNCM
from fedcof.privacy.accountant import rho_of
from fedcof.privacy.differential import CentralPrivacy, check_noised
from fedcof.privacy.sums import GramSums, MeanSums, Sums, unpacked
from fedcof.settings import setting
from fedcof.summaries import ClassMeans, Gram, Summary
from fedcof.summaries.base import NOISE, TRANSFORM
from fedcof.transforms import Chain, Clip, parse

_MOST_SAMPLES = 2**20


@dataclass(frozen=True)
class LocalPrivacy(Step):
    """The mechanism of `CentralPrivacy` with all of the noise at one client, by sample.

    Nobody has to be trusted: not the server, not other clients. The price is noise of every client
    in every sum, so its deviation grows with the root of their number. The client sends class means
    or Gram matrices of *all* classes on the list whose noisy count is not below its noise, so
    which classes it holds is protected, too. It knows the largest length of a feature by the
    transform, whose last step must be ``clip:RADIUS``.

    It must be the first step, next to the summary, and none may stand beside it that leaves out a
    class with few samples: one sample more would let all of them appear.

    The noise is exact and of a secure generator, never of the seed of a federation.

    Parameters
    ----------
    epsilon, delta : float
    classes : str
        All labels that clients may have, with commas; integers also as a range, ``0-99``.
    """

    name: ClassVar[str] = "local-privacy"

    epsilon: float = setting(1.0, "Privacy loss of what one client sends.", above=0, maximum=100)
    delta: float = setting(1e-5, "The delta of that loss.", above=0, maximum=1)
    classes: str = setting("0-99", "All labels: with commas, or integers as a range such as 0-99.")

    def check(self, kind: type[Summary]) -> None:
        """Check that the statistic is one of class means or a Gram matrix.

        Raises
        ------
        SettingError
            If it is another one.
        """
        if kind not in (ClassMeans, Gram):
            raise SettingError(
                "steps", f"local-privacy knows class means and Gram matrices, not {kind.kind}"
            )

    def check_among(self, steps: tuple[Step, ...]) -> None:
        """Check that the noise is made for what the step gets.

        Raises
        ------
        SettingError
            If another step comes before it, or has a say in which samples are summarized.
        """
        if steps[0] is not self:
            raise SettingError("steps", "local-privacy must be the first: its noise is for a sum")
        check_noised(steps[1:])

    @property
    def rho(self) -> float:
        """What a summary costs its client, in zCDP."""
        return rho_of(self.epsilon, self.delta)

    def __call__(self, summary: Summary, rng: np.random.Generator) -> Summary | None:
        """Return the summary with noise, which its origin says; None where no class is left.

        Warns
        -----
        LocalNoiseWarning
            If the noise on the class means is larger than they can be.
        """
        privacy = self.mechanism(summary)
        exact = privacy.sums.of_summary(0, summary)
        layout = privacy.layout
        totals = layout.decode(np.asarray(layout.encode(exact) + privacy.share_of_noise()))
        variances = {name: each.variance(1) for name, each in privacy.releases.items()}
        self._warn(privacy, summary, math.sqrt(variances["sums"] * summary.dim))
        kept = totals["counts"] >= max(1.0, 2 * math.sqrt(variances["counts"]))
        if not kept.any():
            return None
        counts = np.rint(totals["counts"][kept]).astype(np.int64)
        common: dict[str, Any] = {
            "client_ids": summary.client_ids,
            "classes": privacy.sums.classes[kept],
            "counts": counts,
            "origin": {**summary.origin, NOISE: f"{self.name}:{self.epsilon:g}:{self.delta:g}"},
        }
        if isinstance(summary, ClassMeans):
            return ClassMeans(**common, means=totals["sums"][kept] / counts[:, None])
        gram = unpacked(totals["gram"], summary.dim)
        return Gram(**common, sums=totals["sums"][kept], gram=gram)

    def mechanism(self, summary: Summary) -> CentralPrivacy:
        """Return the mechanism for a client's summary.

        Raises
        ------
        SummaryError
            If the statistic has none, or the transform does not end with ``clip``.
        """
        classes, dim = parse_classes(self.classes), summary.dim
        kinds: dict[type[Summary], Sums] = {
            ClassMeans: MeanSums(FedNCM(), classes, dim),
            Gram: GramSums(Fed3R(), classes, dim),
        }
        sums = kinds.get(type(summary))
        if sums is None or len(np.unique(summary.classes)) < len(summary.classes):
            raise SummaryError(
                "privacy", f"no noise is known for {summary.kind} with these rows; fedncm, fed3r"
            )
        radius = clipped_at(summary.origin)
        return CentralPrivacy(
            sums, self.epsilon, self.delta, radius, samples=_MOST_SAMPLES, clients=1
        )

    def _warn(self, privacy: CentralPrivacy, summary: Summary, noise: float) -> None:
        held = float(np.median(summary.counts))
        ratio = noise / held / privacy.radius
        if ratio > 1:
            warnings.warn(
                f"local privacy of epsilon {self.epsilon:g}: the noise on the mean of a class of "
                f"{held:g} samples is {ratio:.3g} times as long as a feature can be; it takes "
                f"{math.ceil(ratio**2):,} such clients until their mean noise is no longer "
                "(noise on the sum of all clients, under secure aggregation, needs one)",
                LocalNoiseWarning,
                stacklevel=2,
            )


def clipped_at(origin: Mapping[str, str]) -> float:
    """Return the largest length of a feature, as the transform that made it says.

    Raises
    ------
    SummaryError
        If its last step is not ``clip``.
    """
    transform = parse(origin.get(TRANSFORM, "none"))
    last = transform.steps[-1:] if isinstance(transform, Chain) else (transform,)
    if last and isinstance(last[0], Clip):
        return last[0].radius
    raise SummaryError(
        "privacy",
        f"features of any length ({transform}) have no bounded influence: let the transform end "
        "with clip:RADIUS, such as standardize+clip:22.63 for features of 512 numbers",
    )


def parse_classes(text: str) -> np.ndarray[Any, Any]:
    """Return the labels of a list, ascending.

    Raises
    ------
    SettingError
        If it is empty, or a range is none.

    Examples
    --------
    >>> parse_classes("0-3"), parse_classes("dog,cat")
    (array([0, 1, 2, 3]), array(['cat', 'dog'], dtype='<U3'))
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise SettingError("classes", "must list the labels, such as cat,dog or 0-99")
    first, dash, last = parts[0].partition("-")
    if len(parts) == 1 and dash and first.isdecimal() and last.isdecimal():
        if int(first) >= int(last) or int(last) - int(first) > _MOST_SAMPLES:
            raise SettingError("classes", f"{text!r} is no range of labels")
        return np.arange(int(first), int(last) + 1)
    whole = all(part.lstrip("-").isdecimal() for part in parts)
    return np.unique([int(part) for part in parts] if whole else parts)
