"""``fedcof solve``: a head from the files that the sites sent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcof.commands.options import (
    Given,
    MethodName,
    hyperparameters,
    method_with,
    out_folder,
    with_settings,
)
from fedcof.commands.shared import console, error_console, errors_for_people

HEAD = "head.safetensors"


@with_settings(hyperparameters=hyperparameters)
def solve(
    files: Annotated[list[Path], typer.Argument(help="The files that `fedcof summarize` wrote.")],
    *,
    out: Annotated[Path, out_folder(f"the head, {HEAD}")] = Path(),
    method: MethodName = "fedcof",
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a file that is not a good summary.")
    ] = False,
    hyperparameters: Given,
) -> None:
    """Solve a head from the files of all sites; a bad file is named and set aside."""
    from fedcof.errors import SummaryError
    from fedcof.summaries import load

    with errors_for_people():
        chosen = method_with(method, hyperparameters)
        summaries = []
        for path in files:
            try:
                summaries.append(load(path))
            except SummaryError as error:
                if strict:
                    raise
                error_console.print(f"set aside: {error}", markup=False, highlight=False)
        head = chosen.solve(summaries)
        out.mkdir(parents=True, exist_ok=True)
        head.save(out / HEAD)
        console.print(
            f"{out / HEAD}: {len(head.classes)} classes from {len(summaries)} files",
            highlight=False,
        )
