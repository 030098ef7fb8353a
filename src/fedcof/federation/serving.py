"""The server's whole run: collect into the run folder, solve, write the head and the report."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcof import scale
from fedcof.client import Sender, parse_steps
from fedcof.data.reading import Reading
from fedcof.errors import (
    RunFolderError,
    SettingError,
    StreamingError,
    SummaryError,
    TooFewClientsError,
    reason_of,
)
from fedcof.federation.admission import Admission
from fedcof.federation.asking import Grid
from fedcof.federation.collecting import Collector
from fedcof.federation.delivering import SUFFIX, deliver
from fedcof.federation.plan import Plan
from fedcof.federation.records import Job
from fedcof.federation.report import CollectionReport
from fedcof.federation.secure.kept import KeptSums
from fedcof.federation.secure.plan import SecurePlan
from fedcof.federation.store import IN_MEMORY, KeptSummaries, SummaryGoneError, SummaryStore
from fedcof.federation.watching import Watch
from fedcof.files import file_names
from fedcof.heads import Head
from fedcof.influence import influences, too_influential
from fedcof.methods import METHODS, Method, get_method
from fedcof.screening import Site
from fedcof.settings import check_settings, dashed_keys, read_settings, setting
from fedcof.site_heads import site_heads
from fedcof.summaries import Summary, check_classes, ordered

HEAD = "head.safetensors"
REPORT = "report.json"
STORE = "summaries.sqlite"
SITE_HEADS = "site-heads"

TEXTS = {
    "method": "fedcof",
    "classes": "",
    "backbone": "",
    "weights": "",
    "transform": "none",
    "steps": "none",
    "data": "",
    "run-folder": "fedcof-run",
    "test-data": "",
}
"""Keys of the run configuration whose values are texts, with their defaults."""

OWN_DEFAULT = "default"
"""Value of a key of a method that stands for the method's own default, where methods differ."""


@dataclass(frozen=True)
class Settings:
    """A federation as its server runs it.

    Parameters
    ----------
    job : Job
        What the clients do.
    run_folder : path
        Where summaries, head and report are kept. A run that is started again with the same folder
        goes on where the first one stopped.
    plan : Plan
        Whom to ask, and how long to wait.
    classes : tuple of int or str, default ()
        The classes; a summary with another one is refused. Empty: any is welcome.
    min_clients_per_class, site_heads
        As their declarations say.
    secure : SecurePlan
        Whether the server is told sums alone, and what all must know for it.
    depends_on : mapping, default {}
        What else the summaries depend on, kept beside them so that a run folder is not used for
        other data.
    """

    job: Job
    run_folder: Path
    plan: Plan = field(default_factory=Plan)
    classes: tuple[int | str, ...] = ()
    min_clients_per_class: int = setting(
        0, "Clients that every class must have for a head to be made.", minimum=0
    )
    site_heads: bool = setting(
        False, "Whether every site gets a head of its own, with its own means and priors."
    )
    secure: SecurePlan = field(default_factory=SecurePlan)
    depends_on: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.secure.epsilon and not self.secure.secure:
            raise SettingError(
                "epsilon",
                "needs secure=true: the noise is on a sum over the clients, and without it the "
                "server is sent what every client has. For noise of every client alone there is "
                "the step local-privacy",
            )

    @classmethod
    def from_run_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read the run configuration of the Flower app, ``[tool.flwr.app.config]``.

        Of the hyperparameters in it, the method takes those that it has.

        Raises
        ------
        SettingError
            If a value is of another type or out of range, or a key is given in both spellings.
        """
        from fedcof.backbones import (  # slow, and only needed where a run is set up
            transform_for,
            with_weights,
        )

        texts = TEXTS | {name: str(config[key]) for name, key in dashed_keys(config).items()}
        given = {key: value for key, value in config.items() if value != OWN_DEFAULT}
        method = read_settings(METHODS.find(texts["method"]), given)
        backbone = with_weights(texts["backbone"], texts["weights"])
        transform = transform_for(texts["transform"], backbone)
        job = Job(
            read_settings(
                Sender,
                config,
                method=method,
                transform=transform,
                steps=parse_steps(texts["steps"]),
            ),
            backbone=backbone,
            data=texts["data"],
            reading=read_settings(Reading, config),
        )
        return read_settings(
            cls,
            config,
            job=job,
            run_folder=Path(texts["run-folder"]).absolute(),
            plan=read_settings(Plan, config),
            classes=parse_classes(texts["classes"]),
            secure=read_settings(SecurePlan, config),
        )

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What the summaries depend on; settings of the server alone may change between runs."""
        return {
            **self.job.sender.settings(),
            "backbone": self.job.backbone,
            **({"secure": True} if self.secure.secure else {}),
            **(self._noise if self.secure.epsilon else {}),
            **self.depends_on,
        }

    @property
    def _noise(self) -> dict[str, Any]:
        """The settings by which a kept sum has been noised."""
        return {**asdict(self.secure), "max_samples": self.plan.max_samples}

    def to_keep(self) -> dict[str, Any]:
        """Return what a head is made with, as JSON has it; `kept` reads it."""
        return {
            "sending": self.job.sender.settings(),
            "hyperparameters": asdict(self.job.sender.method),
            "plan": asdict(self.plan),
            "classes": self.classes,
            "min_clients_per_class": self.min_clients_per_class,
            "site_heads": self.site_heads,
            "secure": asdict(self.secure),
        }

    @classmethod
    def kept(cls, run_folder: Path) -> Settings:
        """Return the settings with which the head in a run folder was made.

        Raises
        ------
        RunFolderError
            If no run has used this folder.
        """
        with SummaryStore(run_folder / STORE) as store:
            kept = store.settings()
        if not kept:
            raise RunFolderError(f"{run_folder} says nothing of its run: start the run again")
        sender = Sender.from_settings(kept["sending"])
        method = get_method(sender.method.name, **kept["hyperparameters"])
        return cls(
            job=Job(replace(sender, method=method)),
            run_folder=run_folder,
            plan=Plan(**kept["plan"]),
            classes=tuple(kept["classes"]),
            min_clients_per_class=kept["min_clients_per_class"],
            site_heads=kept["site_heads"],
            secure=SecurePlan(**kept["secure"]),
        )


def parse_classes(text: str) -> tuple[int | str, ...]:
    """Return the classes that a text names: their number, or their names with commas between.

    Examples
    --------
    >>> parse_classes("3")
    (0, 1, 2)
    >>> parse_classes("cat, dog")
    ('cat', 'dog')
    """
    if text.strip().isdecimal():
        return tuple(range(int(text)))
    return split_names(text)


def split_names(text: str) -> tuple[str, ...]:
    """Return the names in a text with commas between them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def serve(
    grid: Grid,
    settings: Settings,
    *,
    watch: Watch | None = None,
    online: int = 0,
    **clock: Any,
) -> tuple[Head, CollectionReport, dict[str, int]]:
    """Collect, solve and write; the head and the report are written after every round.

    Parameters
    ----------
    grid : Grid
        The SuperNodes.
    settings : Settings
    watch : Watch, optional
        Is told of every round, and shown how far the run is.
    online : int, default 0
        How many clients to wait for at the end, for what follows: those of a run that goes on may
        have answered before, and be offline now.
    **clock
        As `Collector`'s keywords.

    Returns
    -------
    head : Head
    report : CollectionReport
    nodes : dict of str to int
        The SuperNode of each client that is online and was not refused.

    Raises
    ------
    RunFolderError
        If the run folder belongs to another federation, or cannot be written.
    TooFewClientsError
        If there is no head because too few clients answered; the summaries are kept.
    """
    folder, sender = settings.run_folder, settings.job.sender
    solved, watch = Solved(), watch or Watch()
    with naming_run_folder(folder), opened(settings, settings.fingerprint) as store:
        check_classes_kept(store, settings)
        store.keep_settings(settings.to_keep())
        for line in change(store, settings):
            watch.tell(line, event="withdrawn")
        most = settings.plan.max_samples
        admission = Admission(sender.method, settings.classes, most, sender.transform)
        collector = Collector(
            grid, store, settings.job, admission, settings.plan, watch=watch, **clock
        )
        for report in collector.rounds():
            watch.show(**collector.counts())
            _tell(watch, report)
            report.save(folder / REPORT)
            solved = solve(store, settings)
            report.misfit, report.odd = store.misfits(), store.odd()
        head = solved.head
        if solved.pooled is not None:
            report.influence = _influence(watch, solved, settings)
            report.save(folder / REPORT)
        nodes = {} if head is None else collector.roster(online)
        left_out = report.refused.keys() | report.misfit.keys()
        nodes = {name: node_id for name, node_id in nodes.items() if name not in left_out}
        if head is not None and settings.site_heads:
            own = write_site_heads(store, settings)
            clock.pop("advance", None)
            report.undelivered = deliver(grid, settings.job, own, nodes, settings.plan, **clock)
            report.save(folder / REPORT)
            reached = len(own) - len(report.undelivered)
            watch.tell(f"{reached} of {len(own)} sites have their own head", event="site-heads")
    if head is None:
        raise TooFewClientsError(
            f"no head: {solved.lack} ({report}). {folder / REPORT} says what became of every "
            "client; what was collected is kept: start again with this run folder to ask those who "
            "are missing"
        )
    return head, report, nodes


def opened(settings: Settings, job: Mapping[str, Any] | None = None) -> SummaryStore:
    """Return the store of a run folder."""
    return SummaryStore(settings.run_folder / STORE, job, split_names(settings.plan.accept))


def check_classes_kept(store: SummaryStore, settings: Settings) -> None:
    """Check that what is kept is of the classes of the federation, which may have grown.

    Raises
    ------
    RunFolderError
        With the client and its class that is not among them.
    """
    for site in store.sites() if settings.classes else ():
        try:
            check_classes(site, np.array(settings.classes))
        except SummaryError as error:
            raise RunFolderError(
                f"{settings.run_folder} holds the summary of {error}; classes may grow: give these "
                "too, or withdraw the client"
            ) from None


def change(store: SummaryStore, settings: Settings) -> Iterator[str]:
    """Let clients leave and come back as the plan says; yield what happened, in words.

    Raises
    ------
    SettingError
        If one is to do both.
    """
    leave, back = split_names(settings.plan.withdraw), split_names(settings.plan.readmit)
    if both := set(leave) & set(back):
        raise SettingError("readmit", f"names {min(both)!r}, and so does withdraw: take one out")
    store.readmit(back)
    if leave:
        withdraw(store, settings, leave)
    yield from (f"client {name!r} has withdrawn: what it sent is erased" for name in leave)


def withdraw(
    store: SummaryStore, settings: Settings, client_ids: Collection[str]
) -> tuple[Head | None, str]:
    """Erase clients from a run folder, and make the head again, of the others.

    The old head goes first: whenever this is killed, no head is left that knows them, and doing it
    again goes on.

    Returns
    -------
    head : Head or None
    lack : str
        What the summaries lack for a head; empty if nothing.

    Raises
    ------
    RunFolderError
        If another process is in the way of erasing, or the client is in a sum.
    """
    folder = settings.run_folder
    if settings.secure.secure and KeptSums(folder).read(0):
        raise RunFolderError(
            f"{folder} has sums over its clients, and what one added cannot be taken out of a sum: "
            "run again with another run folder, without the client"
        )
    (folder / HEAD).unlink(missing_ok=True)
    shutil.rmtree(folder / SITE_HEADS, ignore_errors=True)
    store.withdraw(client_ids)
    if (folder / REPORT).exists():
        report = CollectionReport.load(folder / REPORT)
        report.withdraw(set(client_ids))
        report.save(folder / REPORT)
    solved = solve(store, settings)
    if solved.head is not None and settings.site_heads:
        write_site_heads(store, settings)
    return solved.head, solved.lack


def write_site_heads(store: SummaryStore, settings: Settings) -> dict[str, Path]:
    """Write the head of every site into a folder of the run folder; return the files by client."""
    sender, folder = settings.job.sender, settings.run_folder / SITE_HEADS
    heads = site_heads(sender.method, store.summaries())
    paths = {client_id: folder / name for client_id, name in file_names(heads, SUFFIX).items()}
    for client_id, path in paths.items():
        heads[client_id].with_provenance(sending=sender.settings()).save(path)
    return paths


@dataclass(frozen=True, eq=False)
class Solved:
    """What came of solving.

    Parameters
    ----------
    head : Head, optional
        None if there is none.
    lack : str, default ""
        What the summaries lack for a head; empty if nothing.
    parts : sequence of summaries, default ()
        What the head is made of, in the order of the clients; empty where it was a stream.
    pooled : optional
        What the method pools of them; None where it was a stream.
    """

    head: Head | None = None
    lack: str = ""
    parts: Sequence[Summary] = ()
    pooled: Any = None


def solve(store: SummaryStore, settings: Settings) -> Solved:
    """Make the head of the summaries that are kept, and write it."""
    sender, path = settings.job.sender, settings.run_folder / HEAD
    withdrawn = store.withdrawn()
    if settings.plan.max_influence:
        store.set_aside(_too_influential(store, settings))
    if lack := shortage(store.sites(), settings):
        return Solved(lack=lack)
    try:
        solved = _solved(sender.method, store.summaries())
    except SummaryGoneError as error:
        store.forget(error.client_id)
        return solve(store, settings)
    assert solved.head is not None
    head = solved.head.with_provenance(sending=sender.settings())
    head.save(path)
    if store.withdrawn() != withdrawn:  # by another process, in the meantime
        path.unlink(missing_ok=True)
        return solve(store, settings)
    return replace(solved, head=head)


def _solved(method: Method[Any], summaries: KeptSummaries) -> Solved:
    """Solve at once where all fits into memory, or must; else as a stream."""
    with suppress(StreamingError):
        if summaries.size > IN_MEMORY:
            fragments = summaries.fragments()
            return Solved(scale.solve(method, fragments, engine=scale.in_threads).head)
    parts = ordered(summaries, method.summary_type)
    pooled = method.pool(parts)
    head = method.solve(parts, screened=True, pooled=pooled)
    return Solved(head, parts=parts, pooled=None if summaries.size > IN_MEMORY else pooled)


def _too_influential(store: SummaryStore, settings: Settings) -> dict[str, str]:
    """Return the clients that move the head more than one may, with the reason."""
    if shortage(store.sites(), settings):
        return {}
    accepted, most = split_names(settings.plan.accept), settings.plan.max_influence
    found = too_influential(settings.job.sender.method, store.summaries(), most, accepted)
    return {one.client_ids[0]: f"{one} (max-influence is {most:g})" for one in found}


def _influence(watch: Watch, solved: Solved, settings: Settings) -> dict[str, list[float]]:
    """Return who moves the head most, the largest first, and name the first."""
    found = influences(settings.job.sender.method, solved.parts, pooled=solved.pooled)
    for one in found[:1]:
        watch.tell(f"most influence: {one}", event="influence", client=one.client_ids[0])
    return {one.client_ids[0]: [one.shift, one.changed] for one in found}


@contextmanager
def naming_run_folder(folder: Path) -> Iterator[None]:
    """Say of a file of the run that cannot be written what is kept, and how to go on."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(
            f"{reason_of(error)}. What is in {folder} is kept: make room, or let this user write "
            "there, and run again with the same run folder"
        ) from error


def _tell(watch: Watch, report: CollectionReport) -> None:
    """Say what became of a round, and name the clients that are odd beside the others."""
    text = f"round {report.rounds}: {report}"
    if not report.asked and report.resumed:
        text = (
            f"all {len(report.resumed)} clients are there from before: none is asked, the head is "
            "solved from what is kept"
        )
    watch.tell(text, event="round", **report.counts())
    for node_id in sorted(report.unnamed):
        watch.tell(f"SuperNode {node_id}: {report.nodes[node_id]}", event="unnamed", node=node_id)
    for client_id, reason in report.claimed.items():
        watch.tell(f"client {client_id!r}: {reason}", event="claimed", client=client_id)
    for client_id, reason in {**report.misfit, **report.odd}.items():
        counts = "does not count" if client_id in report.misfit else "counts"
        watch.tell(f"client {client_id!r} {counts}: {reason}", event="odd", client=client_id)


def shortage(sites: Sequence[Site], settings: Settings) -> str:
    """Return what these summaries lack for a head; empty if nothing."""
    least = settings.plan.min_clients
    if len(sites) < least:
        return f"{len(sites)} clients have answered, at least {least} are needed (min-clients)"
    clients = Counter(dict.fromkeys(settings.classes, 0))
    for site in sites:
        clients.update(set(site.classes.tolist()))
    if sum(held > 0 for held in clients.values()) < 2:
        return "the clients hold fewer than two classes"
    label, held = min(clients.items(), key=lambda item: item[1])
    if held < settings.min_clients_per_class:
        return (
            f"{held} clients hold class {label!r}, at least {settings.min_clients_per_class} are "
            "needed (min-clients-per-class)"
        )
    return ""
