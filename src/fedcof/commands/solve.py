"""``fedcof solve``: a head from the files that the sites sent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcof.commands.options import (
    Force,
    Given,
    MethodName,
    hyperparameters,
    method_with,
    out_folder,
    with_settings,
)
from fedcof.commands.shared import (
    EXIT_LEFT_OUT,
    Json,
    errors_for_people,
    note,
    print_table,
    say,
)
from fedcof.commands.withdraw import withdrawn
from fedcof.errors import SummaryError, reason_of

if TYPE_CHECKING:
    from fedcof.influence import Influence
    from fedcof.methods import Method
    from fedcof.screening import OddSite
    from fedcof.summaries import Summary

HEAD = "head.safetensors"

SITE_HEAD = ".safetensors"
"""The suffix of a client's own head, after its name."""

_WIDEST = 8
"""Classes that have a column each; of more, only their number is shown."""

_LONGEST = 60
"""Clients that are shown a line each; --json has all."""


@with_settings(hyperparameters=hyperparameters)
def solve(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Files that `fedcof summarize` wrote, or folders of such files."),
    ],
    *,
    out: Annotated[Path, out_folder(f"the head, {HEAD}")] = Path(),
    method: MethodName = "fedcof",
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLIENT",
            help="Take this client, however odd it is beside the others. May be repeated.",
        ),
    ] = None,
    per_site: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            file_okay=False,
            help="Also write a head for every client: the scatter of all, means and priors of its "
            "own as far as it has samples.",
        ),
    ] = None,
    max_influence: Annotated[
        float,
        typer.Option(
            min=0,
            max=2,
            help="Set aside clients that move the weights by more than this, from 0 to 2; 0: none.",
        ),
    ] = 0.0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a file that would be set aside.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
    hyperparameters: Given,
) -> None:
    """Solve a head from the files of all sites; what does not fit is named and set aside."""
    from fedcof.files import file_names, write_new
    from fedcof.site_heads import site_heads

    with errors_for_people():
        chosen = method_with(method, hyperparameters)
        arrived = collect(sources, chosen.summary_type)
        arrived.screen(accept or ())
        if max_influence:
            arrived.weigh(chosen, max_influence, accept or ())
        for line in arrived.lines():
            note(line)
        if not arrived.summaries:
            raise ValueError("no head is made: no file holds a summary that this method takes")
        if strict and arrived.set_aside:
            raise ValueError("no head is made, as --strict asks: something would be set aside")
        head = chosen.solve(arrived.summaries.values(), screened=True)
        own = {} if per_site is None else site_heads(chosen, arrived.summaries.values())
        write_new(out / HEAD, head.to_bytes(), replace=force)
        if per_site is not None:
            for client, name in file_names(own, SITE_HEAD).items():
                write_new(per_site / name, own[client].to_bytes(), replace=force)
        rows = [_row(path, summary) for path, summary in arrived.summaries.items()]
        document = {
            "head": out / HEAD,
            "classes": head.classes,
            "provenance": head.provenance,
            "clients": rows,
            "set_aside": [
                {"file": path, "reason": reason} for path, reason in arrived.set_aside.items()
            ],
            "odd": arrived.odd,
            "influence": arrived.influence,
        }
        print_table(
            [_shown(row, head.classes.tolist()) for row in rows[:_LONGEST]],
            document=document,
            as_json=as_json,
        )
        if len(rows) > _LONGEST:
            say(f"and {len(rows) - _LONGEST:,} more files", as_json=as_json)
        say(
            f"{out / HEAD}: {len(head.classes):,} classes from {len(rows):,} files, "
            f"{len(arrived.set_aside):,} set aside",
            as_json=as_json,
        )
        if per_site is not None:
            say(f"{per_site}: {len(own):,} heads of clients", as_json=as_json)
        if head.provenance is not None and head.provenance.automatic:
            numbers = head.provenance.hyperparameters
            told = [f"{name} {numbers[name]:.3g}" for name in head.provenance.automatic]
            say(f"chosen from the summaries: {', '.join(told)}", as_json=as_json)
        if arrived.set_aside:
            raise typer.Exit(EXIT_LEFT_OUT)


@dataclass
class Arrived:
    """The summaries that arrived, and what is not taken.

    Attributes
    ----------
    summaries : dict of path to Summary
        Those that a head may be made of.
    set_aside : dict of path to str
        The other files, with the reason.
    odd : list of OddSite
        What is odd about those that are taken.
    influence : list of Influence
        Who of those that are taken moves the head most, where it was asked.
    """

    summaries: dict[Path, Summary] = field(default_factory=dict)
    set_aside: dict[Path, str] = field(default_factory=dict)
    odd: list[OddSite] = field(default_factory=list)
    influence: list[Influence] = field(default_factory=list)

    def screen(self, accepted: Sequence[str]) -> None:
        """Set aside what does not fit the others, unless it is accepted.

        Raises
        ------
        ValueError
            If no client has an accepted name, or no majority agrees on what is usual.
        """
        from fedcof.screening import Site, misfits, screen

        known = {name for summary in self.summaries.values() for name in summary.client_ids}
        if unknown := sorted(set(accepted) - known):
            names = ", ".join(map(repr, sorted(known)[:10]))
            raise ValueError(f"--accept {unknown[0]!r}: there is no such client; there are {names}")
        misfit = misfits({path: Site.of(kept) for path, kept in self.summaries.items()})
        if 2 * len(misfit) >= len(self.summaries) > 0:
            raise ValueError(
                f"no head is made: {_reasons(misfit)}. No majority of the files goes together, so "
                "which of them are wrong cannot be told: give only those that do"
            )
        self._set_aside(misfit)
        refused: dict[Path, str] = {}
        paths, unsure = list(self.summaries), False
        for site, odd in screen(self.summaries.values()):
            if odd.refused and not set(accepted) & set(odd.client_ids):
                path = paths[site]
                refused[path] = f"{refused[path]}; {odd.reason}" if path in refused else str(odd)
                unsure |= odd.unsure
            else:
                self.odd.append(odd)
        if unsure:
            reasons = "; ".join(refused.values())
            raise ValueError(
                f"no head is made: {reasons}. Give --accept CLIENT to take one as it is"
            )
        self._set_aside(refused, "; --accept takes it as it is")

    def weigh(self, method: Method[Any], most: float, accepted: Sequence[str]) -> None:
        """Set aside who moves the weights by more than `most`, unless it is accepted."""
        from fedcof.influence import influences, too_influential

        paths = {summary.client_ids: path for path, summary in self.summaries.items()}
        self._set_aside(
            {
                paths[one.client_ids]: f"{one}, more than --max-influence {most:g}"
                for one in too_influential(method, self.summaries.values(), most, accepted)
            },
            "; --accept takes it as it is",
        )
        self.influence = influences(method, self.summaries.values())

    def _set_aside(self, reasons: dict[Path, str], remedy: str = "") -> None:
        for path, reason in reasons.items():
            del self.summaries[path]
            self.set_aside[path] = reason + remedy

    def lines(self) -> list[str]:
        """Return what was set aside and what is odd, as lines for people."""
        aside = [f"set aside {path}: {reason}" for path, reason in self.set_aside.items()]
        return [*aside, *(f"warning: {odd}" for odd in self.odd)]


def _reasons(of_files: Mapping[Path, str]) -> str:
    return "; ".join(f"{path}: {reason}" for path, reason in of_files.items())


def collect(sources: Sequence[Path], kind: type[Summary]) -> Arrived:
    """Read the summaries of a kind from files and folders; any other file is set aside.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or no summary in a folder.
    SummaryError
        If a client is in two files.
    """
    from fedcof.summaries import from_bytes

    arrived = Arrived()
    by_content: dict[bytes, Path] = {}
    paths = summary_files(sources)
    left = {folder: withdrawn(folder) for folder in {path.parent for path in paths}}
    for path in paths:
        try:
            data = path.read_bytes()
            summary = from_bytes(data)
        except (SummaryError, OSError) as error:
            arrived.set_aside[path] = reason_of(error)
            continue
        if not isinstance(summary, kind):
            arrived.set_aside[path] = (
                f"a summary of kind {summary.kind!r}, but the method takes {kind.kind!r}: give "
                "the --method that the sites had"
            )
            continue
        if gone := left[path.parent].intersection(summary.client_ids):
            arrived.set_aside[path] = (
                f"client {min(gone)!r} has withdrawn: `fedcof withdraw` takes it out of this file, "
                "with --readmit it counts again"
            )
            continue
        first = by_content.setdefault(hashlib.sha256(data).digest(), path)
        if first != path:
            arrived.set_aside[path] = f"the same summary as {first}"
            continue
        arrived.summaries[path] = summary
    _check_one_file_a_client(arrived.summaries)
    return arrived


def summary_files(sources: Sequence[Path]) -> list[Path]:
    """Return the files that are named, and the summaries in the folders that are named.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or no summary in a folder.
    """
    from fedcof.commands.summarize import SUFFIX

    found: dict[Path, Path] = {}
    for source in sources:
        if not source.exists():
            raise FileNotFoundError(f"there is no file or folder {source}")
        paths = sorted(source.glob(f"*{SUFFIX}")) if source.is_dir() else [source]
        if not paths:
            raise FileNotFoundError(
                f"no file in the folder {source} ends in {SUFFIX}; `fedcof summarize` writes them"
            )
        for path in paths:
            found.setdefault(path.resolve(), path)
    return list(found.values())


def _check_one_file_a_client(summaries: dict[Path, Summary]) -> None:
    holders: dict[str, Path] = {}
    for path, summary in summaries.items():
        for client_id in filter(None, summary.client_ids):
            first = holders.setdefault(client_id, path)
            if first != path:
                raise SummaryError(
                    "duplicate-client",
                    f"is in two files, {first} and {path}; a client may be counted once: leave "
                    "one out, or let the sites have different names (fedcof summarize --client-id)",
                    client_id=client_id,
                )


def _row(path: Path, summary: Summary) -> dict[str, Any]:
    """Return what is known of a file, as JSON has it."""
    return {
        "client": ", ".join(summary.client_ids),
        "file": path,
        "samples": summary.total,
        "scale": summary.scale,
        "counts": summary.counts_by_class,
    }


def _shown(row: dict[str, Any], classes: list[Any]) -> dict[str, Any]:
    """Return a line of the table: the counts of all classes where they are few."""
    few = len(classes) <= _WIDEST
    by_class = {f"{label}": row["counts"].get(label) for label in classes} if few else {}
    return {
        "client": row["client"],
        "samples": row["samples"],
        "classes": len(row["counts"]),
        "largest number": f"{row['scale']:.3g}",
        **by_class,
    }
