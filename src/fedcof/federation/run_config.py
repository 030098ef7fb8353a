"""The run configuration of the Flower app, ``[tool.flwr.app.config]``: its keys and defaults."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from fedcof.client import Sender
from fedcof.data.reading import Reading
from fedcof.errors import SettingError
from fedcof.federation.plan import Plan
from fedcof.federation.secure.plan import SecurePlan
from fedcof.federation.serving import OWN_DEFAULT, TEXTS, Settings
from fedcof.federation.watching import Watching
from fedcof.methods import METHODS
from fedcof.settings import setting, settings_of
from fedcof.training import TrainingGoal, TrainingSettings


@dataclass(frozen=True, kw_only=True)
class AppTraining(TrainingGoal):
    """Settings of training over SuperNodes besides `TrainingSettings`, prefixed ``train-``."""

    timeout: float = setting(3600.0, "Seconds that a round waits for its clients.", above=0)
    wait: float = setting(
        600.0,
        "Seconds to wait for a client where all of a round are offline.",
        minimum=0,
    )


def known_keys() -> dict[str, Any]:
    """Return every key of the run configuration with its default."""
    METHODS.load_plugins()
    known: dict[str, Any] = {}
    for method in METHODS.values():
        for name, declared in settings_of(method).items():
            default = OWN_DEFAULT if declared.default in declared.words else declared.default
            known[name] = default if known.get(name, default) == default else OWN_DEFAULT
    known |= TEXTS
    cls: type
    for cls in (Sender, Reading, Plan, SecurePlan, Settings, Watching):
        known |= {name: declared.default for name, declared in settings_of(cls).items()}
    for cls in (TrainingSettings, AppTraining):
        known |= {f"train_{name}": declared.default for name, declared in settings_of(cls).items()}
    del known["train_seed"]  # training has the seed of the run
    return {name.replace("_", "-"): default for name, default in known.items()}


def check_keys(config: Iterable[str]) -> None:
    """Check that every key of a run configuration is one of the app's.

    Raises
    ------
    SettingError
        With the first that is not; near ones are named.
    """
    known = known_keys()
    for key in config:
        name = key.replace("_", "-")
        if name not in known:
            near = (
                " or ".join(get_close_matches(name, known)) or f"one of {', '.join(sorted(known))}"
            )
            raise SettingError(key, f"is no setting of the app; did you mean {near}?")
