"""What settings are called in tables, figures and captions: titles, not ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedcof.backbones import BACKBONES
from fedcof.data.datasets import DATASETS

METHOD_TITLES = {
    "fedncm": "FedNCM",
    "fed3r": "Fed3R",
    "fedcof": "FedCOF",
    "fedcof-sketch": "FedCOF sketch",
    "fedcof-linear-sketch": "FedCOF linear sketch",
    "fedcof-oracle": "FedCOF oracle",
    "fedcof-diagonal": "FedCOF, diagonal",
    "fedcof-spherical": "FedCOF, spherical",
    "ccvr": "CCVR",
    "fed3r-lossless": "Fed3R, lossless",
    "fedcof-pooled": "FedCOF, pooled",
    "fedcof-within": "FedCOF, within clients",
    "fedcof-gated": "FedCOF, gated",
    "afl": "AFL",
    "fedcgs": "FedCGS",
    "gh-lda": "GH-LDA",
    "gh-qda": "GH-QDA",
    "fishermix": "FisherMix",
    "fedpft-spherical": "FedPFT, spherical",
    "fedpft-diagonal": "FedPFT, diagonal",
    "stsa-e": "STSA-E",
    "fedran": "FedRAN",
    "slot-align": "SLOT-Align",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedadam": "FedAdam",
    "fedyogi": "FedYogi",
    "fedadagrad": "FedAdagrad",
    "pfpt": "PFPT",
}
"""The methods, and the strategies that may follow them."""
COLUMN_TITLES = {
    "dataset": "data set",
    "backbone": "backbone",
    "weights": "weights",
    "clients": "clients",
    "alpha": "α",
    "noise": "noise",
    "epsilon": "ε",
    "lie": "lie",
    "defence": "defence",
    "privacy": "privacy",
    "privacy_loss": "ε",
    "attack": "attack",
    "protection": "protection",
    "method": "method",
}
"""The columns of a setting, in the order in which they are shown."""
AXIS_TITLES = {
    "clients": "clients",
    "alpha": "Dirichlet α",
    "shrinkage": "shrinkage γ",
    "epsilon": "noise parameter ε",
    "means_per_class": "means a client",
    "hostile": "share of clients that lie",
    "privacy_loss": "privacy loss ε",
}
"""Settings on the axis of a figure, or at the head of a grid."""
_SYMBOLS = {
    "alpha": "α",
    "shrinkage": "γ",
    "epsilon": "ε",
    "ridge": "λ",
    "lie": "lie",
    "privacy_loss": "ε",
}
_SCATTERS = {"between": "G_btw", "both": "G_btw + G_with"}


def dataset_title(name: str) -> str:
    """Return the title of a data set; of one's own, the name of its file or folder.

    Examples
    --------
    >>> dataset_title("cifar100")
    'CIFAR-100'
    >>> dataset_title("folder:wards/north")
    'north'
    """
    if name in DATASETS:
        return DATASETS[name].title.partition(":")[0]
    return Path(name.partition(":")[2]).stem or name


def is_own(dataset: str) -> bool:
    """Whether a data set is the user's own, which the paper cannot have a number of."""
    return ":" in dataset


def backbone_title(name: str) -> str:
    """Return the title of a backbone."""
    return BACKBONES[name].title if name in BACKBONES else name


def show(column: str, setting: Mapping[str, Any]) -> str:
    """Return the value of a setting's column as text."""
    value = setting.get(column)
    if column == "method":
        return method_title(setting)
    if value is None or value == "":
        return "by " + setting["column"] if column == "clients" and setting.get("column") else "–"
    if column == "dataset":
        return dataset_title(value)
    if column == "backbone":
        return backbone_title(value)
    if column == "participation":
        return f"{value:.0%}".replace("%", " %")
    return f"{value:g}" if isinstance(value, float) else str(value)


def words(column: str, setting: Mapping[str, Any]) -> str:
    """Return the value of a setting's column, with the column's name where it needs one."""
    shown = show(column, setting)
    if shown == "–":
        return ""
    if column == "clients":
        if setting.get("clients") is None:
            return f"clients {shown}"
        return "1 client" if shown == "1" else f"{shown} clients"
    if column == "means_per_class":
        return "1 mean" if shown == "1" else f"{shown} means"
    if column == "participation":
        return f"{shown} of the clients a round"
    return f"{_SYMBOLS[column]} {shown}" if column in _SYMBOLS else shown


def place(columns: Iterable[str], setting: Mapping[str, Any]) -> str:
    """Return some columns of a setting in words, such as "CIFAR-100, 100 clients, α 0.1"."""
    return ", ".join(filter(None, (words(column, setting) for column in columns)))


def seeds(numbers: Iterable[int]) -> str:
    """Return over how many seeds, as words: of one, or of the fewest and the most.

    Examples
    --------
    >>> seeds([5, 5]), seeds([1, 5]), seeds([1])
    ('5 seeds', '1 to 5 seeds', '1 seed')
    """
    found = sorted(set(numbers))
    if found == [1]:
        return "1 seed"
    return f"{' to '.join(map(str, dict.fromkeys((found[0], found[-1]))))} seeds"


def method_title(setting: Mapping[str, Any]) -> str:
    """Return a method's name with its settings that tables vary."""
    title = label_title(setting["method"])
    details = []
    if (gamma := setting.get("shrinkage")) is not None:
        details.append(f"γ {gamma}" if isinstance(gamma, str) else f"γ {gamma:g}")
    if (budget := setting.get("budget")) is not None:
        details.append(f"{budget:g} ×")
    if best := setting.get("best"):
        details.append(f"best {_SYMBOLS.get(best, best)}")
    if setting.get("scatter") not in (None, "within"):
        details.append(_SCATTERS[setting["scatter"]])
    if (means := setting.get("means_per_class") or 1) > 1:
        details.append(f"{means} means")
    if (solver := setting.get("solver")) not in (None, "exact"):
        details.append(str(solver))
    details += _sending(setting)
    return ", ".join([title, *details])


def _sending(setting: Mapping[str, Any]) -> list[str]:
    """Return how clients send, where it is not plainly.

    Examples
    --------
    >>> _sending({"transform": "auto+random-features:2048", "coding": "int8"})
    ['transformed', 'lifted to 2,048', 'int8']
    """
    shown = []
    for step in (setting.get("transform") or "none").split("+"):
        name, *values = step.split(":")
        if name == "random-features":
            shown.append(f"lifted to {int(values[0]):,}")
        elif name == "buckets":
            shown.append("buckets")
        elif name != "none":
            shown.append("transformed" if name == "auto" else step)
    if (coding := setting.get("coding") or "auto") != "auto":
        shown.append(coding)
    return shown


def label_title(label: str) -> str:
    """Return the name of a method, or of a run of training by where it starts and what it trains.

    Examples
    --------
    >>> label_title("fedcof+fedavg-lp")
    'FedCOF + FedAvg-LP'
    """
    run, bracket, remark = label.partition(" (")
    steps = []
    for step in run.split("+"):
        name, _, suffix = step.rpartition("-")
        trains = suffix in ("lp", "pt")  # linear probing, prompt tuning
        method = name if trains else step
        title = METHOD_TITLES.get(method, method)
        steps.append(f"{title}-{suffix.upper()}" if trains else title)
    return " + ".join(steps) + bracket + remark
