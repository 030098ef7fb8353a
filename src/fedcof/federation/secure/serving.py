"""The server's whole run where it is told sums alone: ask, sum, solve, write the head.

Nothing of one client is kept: the run folder has the totals of each phase, and over whom they are.
"""

from __future__ import annotations

from typing import Any

from fedcof.errors import SettingError
from fedcof.federation.admission import Admission
from fedcof.federation.asking import Grid
from fedcof.federation.collecting import Collector
from fedcof.federation.report import CollectionReport
from fedcof.federation.secure.kept import KeptSum, KeptSums
from fedcof.federation.secure.rounds import SumRounds, statistic_of
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
            phases = statistic_of(settings, dim=2).sums(settings.job.sender.method).phases
            rounds = SumRounds(grid, settings, collector, watch, clock)
            sums = rounds.phases(phases, KeptSums(folder))
        finally:
            collector.name_silent()
            report.save(folder / REPORT)
            watch.show(**collector.counts())
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
    statistic_of(settings, dim=2).sums(settings.job.sender.method)  # refuses what does not add up
    if settings.secure.epsilon:
        settings.secure.check_noised(settings.job.sender, plan.max_samples)
    alone = {
        "site_heads": settings.site_heads,
        "min_clients_per_class": settings.min_clients_per_class,
        "quorum": plan.quorum,
        "one_question": plan.one_question,
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
    statistic = statistic_of(settings, first.dim, first.called)
    clients = len(first.clients)
    if statistic.privacy:
        mechanism = statistic.mechanism(method)
        head = mechanism.head_of(first.totals, answered=clients, origin=first.origin)
    else:
        totals = [_completed(kept, first) for kept in sums]
        head = statistic.sums(method).head(totals, origin=first.origin)
    return head.with_provenance(clients=clients, sending=settings.job.sender.settings())


def _completed(kept: KeptSum, first: KeptSum) -> Totals:
    """Return the totals of a phase; who dropped out after the first counts as the others' mean."""
    factor = len(first.clients) / len(kept.clients)
    return {name: factor * array for name, array in kept.totals.items()}
