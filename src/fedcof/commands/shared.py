"""What the commands have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from fedcof.errors import FedCOFError

console = Console()
error_console = Console(stderr=True)


@contextmanager
def errors_for_people() -> Iterator[None]:
    """Print what fedcof has to say without a traceback."""
    try:
        yield
    except (FedCOFError, ValueError, OSError) as error:
        error_console.print(f"[bold red]error:[/] {error}", highlight=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        error_console.print("stopped; the same command goes on from here")
        raise typer.Exit(130) from None
