"""Which columns of a table are the features, the label and the client.

A column that is named by the user is taken, whatever it is called. Else the usual names are looked
for, without regard to case; where several columns could be meant, that is an error, never a choice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from unicodedata import normalize

from fedcof.data.reading.table import Kind, Table, nameless
from fedcof.errors import OwnDataError, first_of

LABELS = ("label", "labels", "fine_label", "class", "target", "targets", "wnid", "category")
SHORT_LABELS = ("y",)
CLASS_NAMES = ("class", "class_name", "label_name")
CLIENTS = ("client", "clients", "client_id", "client_ids")
FEATURES = (
    "features", "feature", "embeddings", "embedding", "vectors", "vector", "data", "x"
)  # fmt: skip
_SURE_FEATURES = 6
"""How many of them have no other meaning; "data" is a date in some languages."""
IMAGES = ("image", "images", "img", "pixels")
IMAGE_PATHS = ("image_path", "file_name", "filename", "filepath", "path")

_SAYS_WHICH = re.compile(
    r"(.*[_ -])?(client|site|ward|hospital|clinic|institution|cent(er|re)|user|patient|subject|"
    r"device|node|owner|writer|author|region|country|domain|group|source|split|fold|id|ids|idx|"
    r"index|uuid|key|row|label|labels|class|target|date|timestamp)([_ -]id)?s?|"
    r"unnamed: \d+(\.\d+)?|level_\d+|"
)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")

_SHOWN = 12


def says_which(name: str) -> bool:
    """Return whether a column of this name says which, whose or when, and measures nothing."""
    words = _HUMP.sub("_", name).casefold()  # PatientID is patient_id
    return _SAYS_WHICH.fullmatch(words) is not None


@dataclass(frozen=True)
class Roles:
    """What the columns of a table mean.

    Parameters
    ----------
    features : tuple of str
        One column of vectors, or several of numbers; empty where there are images, or neither.
    image : str
        The column of images; empty where there are features, or neither.
    labels : tuple of str
        The columns that could be the label; empty where there is none.
    client : str
        Empty where there is none.
    others : tuple of str
        All other columns but the index.
    """

    features: tuple[str, ...]
    image: str
    labels: tuple[str, ...]
    client: str
    others: tuple[str, ...]


def find_roles(table: Table, *, features: str = "", label: str = "", client: str = "") -> Roles:
    """Say what the columns of a table mean.

    Parameters
    ----------
    table : Table
    features, label, client : str
        Names that the user gave; several features with commas between, or a pattern with ``*``.

    Raises
    ------
    OwnDataError
        If a name is not there, or several columns could be meant.
    """
    where, kinds, names = table.name, table.kinds, table.names
    check_names(where, names)
    labels = find_labels(where, names, label)
    owner = _find_client(where, names, client)
    taken = {*labels, owner}
    free = {name: kind for name, kind in kinds.items() if name not in taken | table.index}
    image = ""
    if features:
        chosen = _named_features(where, names, features, taken)
        for name in chosen:
            if name in taken:
                raise OwnDataError(f"{where}: {name!r} cannot be a feature and label or client")
        if len(chosen) == 1 and kinds[chosen[0]] == "image":
            image, chosen = chosen[0], ()
    else:
        chosen, image = _usual_features(where, free)
    used = {*chosen, image}
    others = tuple(n for n in names if n not in taken | used | nameless(names))
    return Roles(chosen, image, labels, owner, others)


def check_names(where: str, names: Sequence[str]) -> None:
    """Check that no two columns have one name.

    Raises
    ------
    OwnDataError
        With the names that occur twice.
    """
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise OwnDataError(
            f"{where} has several columns of one name: {_list(twice)}; give each its own"
        )


def find_labels(where: str, names: Sequence[str], label: str) -> tuple[str, ...]:
    """Return the columns that could be the label: the one that was named, or those of usual names.

    Raises
    ------
    OwnDataError
        If the one that was named is not there.
    """
    if label:
        return (_present(where, names, label, "--label"),)
    return _of_names(names, LABELS) or _of_names(names, SHORT_LABELS)


def _find_client(where: str, names: Sequence[str], client: str) -> str:
    if client:
        return _present(where, names, client, "--client")
    found = _of_names(names, CLIENTS)
    if len(found) > 1:
        raise OwnDataError(f"{where}: {_list(found)} could all be the clients; name one: --client")
    return found[0] if found else ""


def textual(names: Iterable[str], label: str, client: str) -> list[str]:
    """Return the columns that a reader of text must leave as texts: 007 is not 7."""
    known = {*LABELS, *SHORT_LABELS, *CLIENTS, *CLASS_NAMES}
    return [name for name in names if name in (label, client) or name.casefold() in known]


def _named_features(
    where: str, names: Sequence[str], features: str, taken: Set[str]
) -> tuple[str, ...]:
    """Return the columns of names and of patterns; a pattern leaves out those that are taken."""
    if features in names:
        return (features,)
    chosen: dict[str, None] = {}
    for part in map(str.strip, features.split(",")):
        matching = [n for n in names if n not in taken and fnmatchcase(n, part)]
        if part in names or not matching:
            matching = [_present(where, names, part, "--features")]
        chosen |= dict.fromkeys(matching)
    return tuple(chosen)


def _usual_features(where: str, kinds: Mapping[str, Kind]) -> tuple[tuple[str, ...], str]:
    """Return the columns of features, or the one of images."""
    vectors = [name for name, kind in kinds.items() if kind == "vector"]
    named = _of_names([n for n in kinds if kinds[n] in ("vector", "text")], FEATURES)
    for found in (named, tuple(vectors)):
        if len(found) > 1:
            raise OwnDataError(
                f"{where}: {_list(found)} could all be the features; name one: --features"
            )
        if found:
            return found, ""
    images = [name for name, kind in kinds.items() if kind == "image"]
    for found in (
        _of_names([n for n in kinds if kinds[n] in ("image", "text")], IMAGES),
        tuple(images),
    ):
        if len(found) > 1:
            raise OwnDataError(
                f"{where}: {_list(found)} could all be the images; name one: --features"
            )
        if found:
            return (), found[0]
    unread = [name for name in kinds if kinds[name] == "other"]
    if named := _of_names(unread, FEATURES[:_SURE_FEATURES]):
        return named[:1], ""  # reading it says what is wrong with it
    numbers = tuple(
        name for name, kind in kinds.items() if kind == "number" and not says_which(name)
    )
    if numbers:
        return numbers, ""
    paths = _of_names([n for n in kinds if kinds[n] == "text"], IMAGE_PATHS)
    if len(paths) == 1:
        return (), paths[0]
    return _of_names(unread, FEATURES)[:1], ""


def _of_names(names: Iterable[str], usual: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of usual names, in the order of these."""
    found = [name for name in names if name.casefold() in usual]
    return tuple(sorted(found, key=lambda name: usual.index(name.casefold())))


def _present(where: str, names: Sequence[str], name: str, option: str) -> str:
    if name not in names:
        same = [n for n in names if normalize("NFC", n) == normalize("NFC", name)]
        if len(same) == 1:
            return same[0]
        near = get_close_matches(name, names, n=3)
        raise OwnDataError(
            f"{where} has no column {name!r} ({option}); "
            + (f"did you mean {_list(near)}?" if near else f"it has {_list(names)}")
        )
    return name


def _list(names: Iterable[str]) -> str:
    return first_of(list(map(repr, names)), _SHOWN)
