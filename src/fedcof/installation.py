"""How fedcof was installed, and so what pip has to be told to add an extra to it."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def install_line(extra: str) -> str:
    """Return the command that adds an extra to fedcof, from where fedcof was installed.

    An installation from a clone, a file or a repository is not one from an index, from which
    ``fedcof[...]`` would fetch another version, or none.

    Parameters
    ----------
    extra : str
        Name of the extra, such as ``"data"``.

    Notes
    -----
    pip records the origin of an installation in ``direct_url.json`` (PEP 610), unless it was an
    index. The quotes are those that every shell understands.
    """
    wanted = f"fedcof[{extra}]"
    origin = _origin()
    if not origin:
        return f'pip install "{wanted}"'
    if (revision := origin.get("vcs_info")) is not None:
        source = f"{revision['vcs']}+{origin['url']}@{revision['commit_id']}"
        return f'pip install "{wanted} @ {source}"'
    if origin.get("dir_info", {}).get("editable"):
        return f'pip install -e "{_path(origin["url"])}[{extra}]"'
    return f'pip install "{wanted} @ {origin["url"]}"'


def _origin() -> dict[str, Any]:
    """Return pip's record of the origin; nothing of an index, or of a folder that is gone."""
    try:
        record = metadata.distribution("fedcof").read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # run from its sources, not installed
        return {}
    origin: dict[str, Any] = json.loads(record or "{}")
    local = origin.get("url", "").startswith("file:")
    return {} if local and not _path(origin["url"]).exists() else origin


def _path(url: str) -> Path:
    from urllib.request import url2pathname  # slow, and only for a message

    return Path(url2pathname(urlsplit(url).path))
