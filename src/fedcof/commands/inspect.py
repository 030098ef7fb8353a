"""``fedcof inspect``: what is in the files of summaries and heads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcof.commands.shared import Json, errors_for_people, note, print_table
from fedcof.errors import FedCOFError, reason_of


def inspect(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Files of summaries or heads, Parquet files, or folders of summaries."),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Show what files hold: kind, coding, client, classes, counts, scale, backbone."""
    from fedcof.scale.dataset import paths_of

    with errors_for_people():
        found, broken = [], []
        for path in paths_of(sources):
            try:
                found.append({"file": path, **contents(path)})
            except (FedCOFError, OSError, ValueError, ImportError) as error:
                text = reason_of(error).removeprefix(f"{path}: ")
                broken.append({"file": path, "error": text})
        rows = [_shown(known) for known in found]
        print_table(rows, document=[*found, *broken], as_json=as_json)
        if len(found) == 1 and not as_json and (counts := found[0].get("counts")):
            print_table([{"class": label, "samples": n} for label, n in counts.items()])
        for known in broken:
            note(f"{known['file']}: {known['error']}")
        if broken:
            raise typer.Exit(1)


def contents(path: Path) -> dict[str, Any]:
    """Return what the file of summaries or a head holds, as JSON has it.

    Raises
    ------
    FedCOFError
        If it is neither, or not whole.
    """
    from fedcof.codings import Float32
    from fedcof.heads import Head
    from fedcof.scale.dataset import is_parquet
    from fedcof.summaries import load
    from fedcof.wire import decode

    if is_parquet(path):
        return _contents_of_table(path)
    arrays, metadata = decode(path.read_bytes())
    if str(metadata.get("kind", "")).startswith("head"):
        head = Head.load(path)
        provenance = head.provenance
        return {
            "kind": "head",
            "coding": str(max(arrays.values(), key=lambda array: array.nbytes).dtype),
            "clients": provenance.clients if provenance else None,
            "samples": provenance.samples if provenance else None,
            "classes": head.classes.tolist(),
            "dim": head.dim,
            "method": provenance.method if provenance else None,
            "hyperparameters": provenance.hyperparameters if provenance else {},
            "origin": provenance.origin if provenance else {},
            "privacy": provenance.privacy if provenance else {},
        }
    summary = load(path)
    counts = summary.counts_by_class
    return {
        "kind": summary.kind,
        "coding": metadata.get("coding", Float32.name),
        "client_ids": summary.client_ids,
        "clients": len(summary.client_ids),
        "samples": summary.total,
        "classes": list(counts),
        "counts": counts,
        "rows": len(summary.classes),
        "dim": summary.dim,
        "scale": summary.scale,
        "origin": summary.origin,
    }


def _contents_of_table(path: Path) -> dict[str, Any]:
    """Return what a Parquet file holds, a row group at a time; the clients as a number."""
    from collections import Counter

    from fedcof.scale.dataset import RowGroup, look_at

    file = look_at(path)
    groups = [piece for piece in file.pieces if isinstance(piece, RowGroup)]
    layout = groups[0].layout
    clients, broken, counts = 0, list[str](), Counter[Any]()
    for piece in groups:
        for read in piece.read(counts_alone=True, left_out=frozenset()):
            broken += [f"row group {piece.index}: {aside.reason}" for aside in read.set_aside]
            for part in read.parts:
                clients += len(part.client_ids)
                for label, count in zip(part.classes.tolist(), part.counts.tolist(), strict=True):
                    counts[label] += count
    return {
        "kind": file.kind,
        "coding": layout.coding,
        "clients": clients,
        "samples": counts.total(),
        "classes": sorted(counts),
        "counts": dict(sorted(counts.items())),
        "rows": file.rows,
        "row_groups": len(groups),
        "dim": layout.lengths["dim"],
        "origin": dict(layout.origin),
        "set_aside": broken,
    }


def _shown(known: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the table."""
    names = known.get("client_ids", ())
    return {
        "file": known["file"],
        "kind": known["kind"],
        "made by": known.get("method") or known["coding"],
        "client": names[0] if len(names) == 1 else f"{known['clients']:,} clients",
        "samples": known["samples"],
        "classes": len(known["classes"]),
        "dim": known["dim"],
        "largest number": f"{known['scale']:.3g}" if "scale" in known else "",
        "privacy": _guarantee(known.get("privacy", {})) or known["origin"].get("noise", ""),
        "features of": ", ".join(f"{name} {of}" for name, of in known["origin"].items()),
    }


def _guarantee(privacy: Mapping[str, Any]) -> str:
    """Return in words what the provenance of a head guarantees."""
    if not privacy:
        return ""
    stated = f"epsilon {privacy['epsilon']:g}, delta {privacy['delta']:g}"
    return f"{stated} by {privacy['neighbours']}; {privacy['mechanism']}"
