"""What a client adds to a sum, checked before anything is masked."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedcof.client import Held, Step, said
from fedcof.errors import SettingError, SummaryError
from fedcof.federation.records import Job
from fedcof.federation.secure.statistic import Statistic
from fedcof.federation.sources import Clients, extract
from fedcof.methods import client_rng
from fedcof.privacy.differential import Neighbours, check_noised
from fedcof.privacy.secure.ring import Vector

_log = logging.getLogger(__name__)


def addends(
    job: Job, statistic: Statistic, clients: Clients, client_id: str
) -> tuple[Vector, int, Mapping[str, str]]:
    """Return a client's numbers as integers, the length of its features and what made them.

    Where the statistic does not say the length of a feature yet, it is that of the client's.

    Raises
    ------
    SummaryError
        If the data is not well-formed, a number is out of range, or a class is not on the list.
    """
    sender = job.sender
    if statistic.privacy:
        _check_steps(sender.steps, statistic.privacy.neighbours)
    features, labels, origin = extract(*clients[client_id], job.backbone)
    array, coded, _, made_by = sender.prepared(
        Held(features, labels, client_id, origin or job.origin)
    )
    if not len(coded):
        raise SummaryError("withheld", "nothing is left to sum of what this client has")
    _check_range(statistic, np.asarray(array, np.float64))
    dim = array.shape[1]
    agreed = replace(statistic, dim=statistic.dim or dim)
    if agreed.privacy:
        vector = agreed.mechanism(sender.method).addends(array, coded, client_id=client_id)
        return vector, dim, made_by
    sums = agreed.sums(sender.method)
    rng = client_rng(sender.seed, client_id)
    summary = sums.summarize(array, coded, client_id=client_id, rng=rng)
    for step in sender.steps:
        left = step(summary, rng)
        if left is None:
            raise SummaryError("withheld", "a step leaves nothing of this client's summary")
        summary = left
    _log.info("%s: %s; steps: %s; under masks", client_id, said(summary), sender.steps_in_words)
    arrays = sums.of_summary(agreed.phase, summary, agreed.totals)
    return agreed.layout(sender.method).encode(arrays), dim, made_by


def _check_steps(steps: Sequence[Step], neighbours: Neighbours) -> None:
    """Check that noise is made for what the steps leave.

    Raises
    ------
    SummaryError
        If it is not; a server that follows the protocol does not ask for that.
    """
    try:
        check_noised(steps, neighbours)
    except SettingError as error:
        raise SummaryError("steps", error.reason) from None
    if foreign := [step.name for step in steps if not step.chooses_samples]:
        raise SummaryError("steps", f"{foreign[0]} is not done to what a noised sum is made of")


def _check_range(statistic: Statistic, features: Any) -> None:
    """Check that features are within the bounds that all agreed on."""
    longest = float(np.sqrt(np.einsum("nd,nd->n", features, features).max(initial=0.0)))
    if longest > statistic.radius:
        raise SummaryError(
            "range",
            f"a feature has the norm {longest:.4g}, the run sums those up to "
            f"{statistic.radius:g} (radius); nothing is clipped, so nothing is sent",
        )
    by_client = statistic.privacy is not None and statistic.privacy.neighbours == "client"
    if len(features) > statistic.samples and not by_client:
        raise SummaryError(
            "samples",
            f"{len(features):,} samples, the run sums up to {statistic.samples:,} of a client "
            "(max-samples)",
        )
