"""``fedcof solve``: a head from the files that the sites sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    check_address,
    errors_for_people,
    note,
    print_table,
    say,
)
from fedcof.errors import StreamingError

if TYPE_CHECKING:
    from fedcof.commands.arrived import Arrived
    from fedcof.heads import Head
    from fedcof.methods import Method
    from fedcof.scale.dataset import DataSet
    from fedcof.summaries import Summary

HEAD = "head.safetensors"

SITE_HEAD = ".safetensors"
"""The suffix of a client's own head, after its name."""

_WIDEST = 8
"""Classes that have a column each; of more, only their number is shown."""

_LONGEST = 60
"""Clients that are shown a line each; --json has all."""

_IN_MEMORY = 512 * 2**20
_ROWS_IN_MEMORY = 200_000
"""Up to so many bytes of numbers and so many rows, all summaries are held in memory."""

Engine = Literal["auto", "memory", "stream", "ray", "cuda"]


@with_settings(hyperparameters=hyperparameters)
def solve(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Files that `fedcof summarize` and `collect` wrote, or folders of such files."
        ),
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
    engine: Annotated[
        Engine,
        typer.Option(
            help="memory holds all summaries; stream goes through them in bounded memory, ray lets "
            "workers of Ray do that, with the same result; auto takes memory where they fit; cuda "
            "is memory, with the products of matrices on a GPU by torch."
        ),
    ] = "auto",
    address: Annotated[
        str, typer.Option(help="Of a cluster of Ray, such as auto. Default: start Ray here.")
    ] = "",
    force: Force = False,
    as_json: Json = False,
    hyperparameters: Given,
) -> None:
    """Solve a head from the files of all sites; what does not fit is named and set aside."""
    from fedcof.algebra import algebra_of
    from fedcof.commands.arrived import collect
    from fedcof.commands.streamed import show, solve_streamed
    from fedcof.files import write_new
    from fedcof.scale import in_process
    from fedcof.scale.dataset import DataSet
    from fedcof.scale.ray_engine import ray_engine
    from fedcof.site_heads import site_heads

    with errors_for_people("no head is written, and the same command begins anew"):
        check_address(address, engine)
        chosen = method_with(method, hyperparameters)
        products: Literal["cpu", "cuda"] = "cuda" if engine == "cuda" else "cpu"
        algebra_of(products)  # one that is not there is told before anything is read
        if engine == "ray":
            sources = [source.absolute() for source in sources]  # workers may be elsewhere
        data = DataSet.open(sources, chosen.summary_type)
        if engine in ("stream", "ray") or (engine == "auto" and _must_be_streamed(chosen, data)):
            _check_streamed(per_site, max_influence)
            workers = ray_engine(address) if engine == "ray" else nullcontext(in_process)
            with workers as compute:
                outcome = solve_streamed(chosen, data, compute, accept or (), strict=strict)
            head, left_out = outcome.head, len(outcome.set_aside)
            write_new(out / HEAD, head.to_bytes(), replace=force)
            show(outcome, out / HEAD, as_json=as_json)
        else:
            arrived = collect(data)
            arrived.settle(chosen, accept or (), max_influence, strict=strict)
            head = chosen.solve(arrived.summaries.values(), screened=True, engine=products)
            left_out = len(arrived.set_aside)
            own = {} if per_site is None else site_heads(chosen, arrived.summaries.values())
            write_new(out / HEAD, head.to_bytes(), replace=force)
            _show(arrived, head, out / HEAD, as_json=as_json)
            _write_own(own, per_site, force=force, as_json=as_json)
            _name_shift(list(arrived.summaries.values()))
        if head.provenance is not None and head.provenance.automatic:
            numbers = head.provenance.hyperparameters
            told = [f"{name} {numbers[name]:.3g}" for name in head.provenance.automatic]
            say(f"chosen from the summaries: {', '.join(told)}", as_json=as_json)
        if left_out:
            raise typer.Exit(EXIT_LEFT_OUT)


def _write_own(own: Mapping[str, Head], folder: Path | None, *, force: bool, as_json: bool) -> None:
    from fedcof.files import file_names, write_new

    if folder is None:
        return
    for client, name in file_names(own, SITE_HEAD).items():
        write_new(folder / name, own[client].to_bytes(), replace=force)
    say(f"{folder}: {len(own):,} heads of clients", as_json=as_json)


def _name_shift(summaries: Sequence[Summary]) -> None:
    """Say what to do where the sites' means of a class differ more than their samples explain."""
    from fedcof.choosing import growth_between
    from fedcof.summaries import ClassMeans, ordered

    if not isinstance(summaries[0], ClassMeans):
        return
    growth = growth_between(ordered(summaries, ClassMeans))
    if growth.is_shift:
        note(
            "the samples of a class differ from site to site: the spread of the sites' means grows "
            f"with the samples behind them, by an exponent of {growth.exponent:.2f} (0 without "
            "shift). fed3r and fedcof-sketch are safe; several means a site (--means-per-class) "
            "lose less than one"
        )


def _check_streamed(per_site: Path | None, max_influence: float) -> None:
    if per_site is not None or max_influence:
        option = "--max-influence" if max_influence else "--per-site"
        raise ValueError(
            f"{option} needs all summaries in memory, and these are streamed: give --engine "
            "memory, if they fit"
        )


def _must_be_streamed(method: Method[Any], data: DataSet) -> bool:
    """Return whether there is too much for memory; say so where a method needs all of it there."""
    if data.size <= _IN_MEMORY and data.rows <= _ROWS_IN_MEMORY:
        return False
    try:
        method.streamed()
    except StreamingError as error:
        note(f"all summaries are held in memory, {data.size / 1e9:.1f} GB: {error.reason}")
        return False
    return True


def _show(arrived: Arrived, head: Head, path: Path, *, as_json: bool) -> None:
    """Print what the head is made of, a line a client."""
    rows = [_row(place, summary) for place, summary in arrived.summaries.items()]
    document = {
        "head": path,
        "classes": head.classes,
        "provenance": head.provenance,
        "clients": rows,
        "set_aside": [
            {"file": place, "reason": reason} for place, reason in arrived.set_aside.items()
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
        say(f"and {len(rows) - _LONGEST:,} more", as_json=as_json)
    say(
        f"{path}: {len(head.classes):,} classes from {len(rows):,} files, "
        f"{len(arrived.set_aside):,} set aside",
        as_json=as_json,
    )


def _row(place: str, summary: Summary) -> dict[str, Any]:
    """Return what is known of a client, as JSON has it."""
    return {
        "client": ", ".join(summary.client_ids),
        "file": place,
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
