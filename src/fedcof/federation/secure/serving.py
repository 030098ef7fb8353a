"""The server's whole run where it is told sums alone: ask, sum, solve, write the head.

Nothing of one client is kept: the run folder has the totals of each phase, and over whom they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedcof.errors import SettingError
from fedcof.federation.admission import Admission
from fedcof.federation.asking import Grid
from fedcof.federation.collecting import Collector
from fedcof.federation.report import CollectionReport
from fedcof.federation.secure.kept import KeptSum, KeptSums
from fedcof.federation.secure.rounds import SumRounds
from fedcof.federation.secure.statistic import Totals
from fedcof.federation.serving import (
    HEAD,
    REPORT,
    Settings,
    change,
    naming_run_folder,
    opened,
)
from fedcof.federation.watching import Watch
from fedcof.heads import Head
from fedcof.privacy.sums import sums_of


def serve_securely(
    grid: Grid,
    settings: Settings,
    *,
    watch: Watch | None = None,
    online: int = 0,
    **clock: Any,
) -> tuple[Head, CollectionReport, dict[str, int]]:
    """Sum over the clients, solve and write; parameters and results are those of `serving.serve`.

    Raises
    ------
    SettingError
        If the method or a setting needs more than sums.
    RunFolderError
        If the run folder belongs to another federation, or cannot be written.
    TooFewClientsError
        If there is no head because too few clients answered.
    """
    check_secure(settings)
    folder, watch = settings.run_folder, watch or Watch()
    advance = clock.pop("advance", lambda steps: None)
    with naming_run_folder(folder), opened(settings, settings.fingerprint) as store:
        store.keep_settings(settings.to_keep())
        for line in change(store, settings):
            watch.tell(line, event="withdrawn")
        admission = Admission(settings.job.sender.method, settings.classes)
        collector = Collector(
            grid, store, settings.job, admission, settings.plan, watch=watch, **clock
        )
        report = collector.report
        try:
            phases = sums_of(settings.job.sender.method, settings.classes, dim=2).phases
            rounds = SumRounds(grid, settings, collector, watch, clock)
            sums = rounds.phases(phases, KeptSums(folder))
        finally:
            collector.name_silent()
            report.save(folder / REPORT)
        if not report.sums:
            report.resumed = set(sums[0].clients)
        head = solve_sums(settings, sums)
        head.save(folder / HEAD)
        advance(len(sums[0].clients))
        watch.tell(f"{len(report.sums)} sums: {report}", event="round", **report.counts())
        nodes = collector.roster(online)
    return head, report, {name: node for name, node in nodes.items() if name not in report.refused}


def check_secure(settings: Settings) -> None:
    """Check that a run needs nothing but sums, and says what must be public before it.

    Raises
    ------
    SettingError
        With the setting that stands in the way.
    """
    plan = settings.plan
    if len(settings.classes) < 2:
        raise SettingError(
            "classes",
            'must name all classes for secure rounds, as in classes="cat, dog": who holds a class '
            "is not told, so every client sums over the same list",
        )
    sums_of(settings.job.sender.method, settings.classes, dim=2)  # refuses what does not add up
    alone = {
        "site_heads": settings.site_heads,
        "min_clients_per_class": settings.min_clients_per_class,
        "quorum": plan.quorum,
        "rounds": plan.rounds > 1,
        "participation": plan.participation < 1,
        "max_influence": plan.max_influence,
        "accept": plan.accept,
    }
    for name, given in alone.items():
        if given:
            raise SettingError(
                name.replace("_", "-"),
                "needs what single clients send, and a secure run knows one sum over all: leave it "
                "out, or secure",
            )


def solve_sums(settings: Settings, sums: list[KeptSum]) -> Head:
    """Return the head of the totals of all phases, with its provenance."""
    method, first = settings.job.sender.method, sums[0]
    made = sums_of(method, settings.classes, first.dim)
    head = made.head([_completed(kept, first) for kept in sums], origin=first.origin)
    assert head.provenance is not None
    provenance = replace(
        head.provenance, clients=len(first.clients), sending=settings.job.sender.settings()
    )
    return replace(head, provenance=provenance)


def _completed(kept: KeptSum, first: KeptSum) -> Totals:
    """Return the totals of a phase; who dropped out after the first counts as the others' mean."""
    factor = len(first.clients) / len(kept.clients)
    return {name: factor * array for name, array in kept.totals.items()}
