"""Options of the command line: those of settings come from where the settings are declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import update_wrapper
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer
from rich.markup import escape

from fedcof.settings import Declaration, settings_of

if TYPE_CHECKING:
    from fedcof.client import Step
    from fedcof.methods import Method

Given = dict[str, Any]
"""Settings by name, of which those that the user did not give are absent."""


def completing(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return what a shell completes an option with: the names that begin as what is typed."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def _methods() -> Iterable[str]:
    from fedcof.methods import METHODS

    METHODS.load_plugins()
    return METHODS


def _datasets() -> Iterable[str]:
    from fedcof.data.datasets import DATASETS

    return DATASETS


def _backbones() -> Iterable[str]:
    from fedcof.backbones import BACKBONES

    return BACKBONES


def _experiments() -> Iterable[str]:
    from fedcof.experiments import EXPERIMENTS

    return EXPERIMENTS


def _partitions() -> Iterable[str]:
    from fedcof.data import dealings

    return dealings({})


COMPLETIONS = {
    "methods": completing(_methods),
    "datasets": completing(_datasets),
    "backbones": completing(_backbones),
    "experiments": completing(_experiments),
    "partitions": completing(_partitions),
}
"""What a shell completes names of each kind with, as the ``autocompletion`` of an option."""

Data = Annotated[
    str | None, typer.Option(envvar="FEDCOF_DATA", help="Folder of the data sets, or 'hub'.")
]

Weights = Annotated[
    str,
    typer.Option(
        help="Where the backbone's weights are from: bundled, torchvision, timm, transformers, or "
        "a file; paper for those of the paper. Default: the first that are found.",
    ),
]
TransformText = Annotated[
    str,
    typer.Option(
        "--transform",
        metavar="TEXT",
        help="What is done to features first: steps such as power:0.5+standardize; none; or auto, "
        "what helps those of the backbone.",
    ),
]
StepsText = Annotated[
    str,
    typer.Option(
        "--steps",
        metavar="TEXT",
        help="What is done to a summary before it leaves a client: steps such as "
        "count-noise:uniform:0.3, with + between them; or none.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seeds everything that is random.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a file that is there already.")]
MethodName = Annotated[
    str,
    typer.Option("--method", help="Name of the method.", autocompletion=COMPLETIONS["methods"]),
]
PartitionName = Annotated[
    str,
    typer.Option(
        "--partition",
        autocompletion=COMPLETIONS["partitions"],
        help="dirichlet, class-wise, iid; or a column that names clients, such as user.",
    ),
]


def out_folder(contents: str) -> Any:
    """Return the option ``--out``, which for every command is the folder that it writes into."""
    return typer.Option(
        "--out", "-o", metavar="FOLDER", file_okay=False, help=f"Folder for {contents}."
    )


def with_settings(**groups: Callable[[], Mapping[str, Declaration]]) -> Callable[..., Command]:
    """Add an option for every setting of some groups to a command.

    Parameters
    ----------
    **groups : callable
        Returns settings by name. The command has a parameter of the group's name, which takes the
        values that the user gave. A setting that is also a parameter of the command itself, such
        as ``seed``, gets no option of its own.

    Examples
    --------
    >>> @with_settings(plan=lambda: {"quorum": Declaration("quorum", int, 0, "Enough.", minimum=0)})
    ... def federate(clients: int, *, plan: Given) -> None:
    ...     print(clients, plan)
    >>> federate(clients=3, quorum=2)
    3 {'quorum': 2}
    >>> federate(clients=3, quorum=None)
    3 {}
    """
    return lambda function: Command(function, groups)


class Command:
    """A function as Typer takes it, with an option for every setting of its groups.

    Typer reads the signature whenever it builds the command line, so a method that was registered
    by then has its options, wherever it comes from.
    """

    def __init__(
        self,
        function: Callable[..., None],
        groups: Mapping[str, Callable[[], Mapping[str, Declaration]]],
    ) -> None:
        update_wrapper(self, function)
        self.__annotations__: dict[str, Any] = {}  # those of the signature are resolved
        self._function, self._groups = function, groups

    @property
    def __signature__(self) -> Signature:
        parameters = [
            _parameter(setting, option, panel=group.capitalize())
            for group, settings in self._settings().items()
            for option, setting in settings.items()
        ]
        return Signature([*self._parameters().values(), *parameters])

    def __call__(self, **options: Any) -> None:
        """Call the function with the options of every group as one mapping."""
        groups = {
            group: {
                setting.name: value
                for option, setting in settings.items()
                if (value := options.pop(option, None)) is not None
            }
            for group, settings in self._settings().items()
        }
        self._function(**options, **groups)

    def _parameters(self) -> dict[str, Parameter]:
        """Return the function's parameters that are no groups."""
        parameters = inspect.signature(self._function, eval_str=True).parameters
        return {name: p for name, p in parameters.items() if name not in self._groups}

    def _settings(self) -> dict[str, dict[str, Declaration]]:
        """Return the settings of every group that the function has no parameter for, by option.

        Of two groups with a setting of one name, as a plugin's may have, that of the later one is
        an option with the group before its name.
        """
        own = self._parameters()
        taken = set(own)
        found: dict[str, dict[str, Declaration]] = {}
        for group, settings in self._groups.items():
            found[group] = {
                f"{group}_{name}" if name in taken else name: setting
                for name, setting in settings().items()
                if name not in own
            }
            taken |= found[group].keys()
        return found


def _parameter(setting: Declaration, name: str, panel: str) -> Parameter:
    """Return a setting as an option; None stands for one that is not given."""
    kind: Any = Literal[setting.choices] if setting.choices else setting.kind
    option = typer.Option(help=_help(setting), rich_help_panel=panel)
    if setting.words:
        option.parser = _number_or_word(setting)
        option.metavar = "|".join([setting.kind.__name__.upper(), *setting.words])
    annotation = Annotated[Optional[kind], option]  # noqa: UP045
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _number_or_word(setting: Declaration) -> Callable[[str], float | int | str]:
    """Return what reads a setting that is a number, or a word in its place such as "auto"."""

    def parse(text: str) -> float | int | str:
        if text in setting.words:
            return text
        try:
            number: float | int = setting.kind(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not {setting.expected}") from None
        return number

    return parse


def _help(setting: Declaration) -> str:
    sentences = [setting.description]
    if setting.range:
        sentences.append(f"{setting.range.capitalize()}.")
    if setting.default not in (None, ""):
        sentences.append(escape(f"[default: {setting.default}]"))
    return " ".join(sentences)


def reading_settings() -> Mapping[str, Declaration]:
    """Return the settings by which own data is read."""
    from fedcof.data import Reading

    return settings_of(Reading)


def sending_settings() -> dict[str, Declaration]:
    """Return the settings of how clients send, whatever the method, besides the seed."""
    from fedcof.client import Sender

    return {name: known for name, known in settings_of(Sender).items() if name != "seed"}


def site_settings() -> Mapping[str, Declaration]:
    """Return the settings of what a site lets out."""
    from fedcof.privacy import MinSamples

    return settings_of(MinSamples)


def steps_with(text: str, site: Given) -> tuple[Step, ...]:
    """Return the steps of ``--steps``, behind what every site lets out."""
    from fedcof.client import parse_steps
    from fedcof.privacy import MinSamples

    return (*([MinSamples(**site)] if site else []), *parse_steps(text))


def dealing_settings() -> dict[str, Declaration]:
    """Return the settings of all schemes by which data is dealt to clients."""
    from fedcof.data.dealing import SCHEMES

    return {name: known for scheme in SCHEMES for name, known in settings_of(scheme).items()}


def hyperparameters(*, client: bool = False) -> dict[str, Declaration]:
    """Return the hyperparameters of all methods by name.

    Parameters
    ----------
    client : bool, default False
        Those alone that shape what a client sends.

    Raises
    ------
    TypeError
        If two methods have one of the same name, and it is not of the same type.
    """
    from fedcof.methods import METHODS

    METHODS.load_plugins()
    found: dict[str, dict[str, Declaration]] = {}
    for method in METHODS.values():
        for name, setting in settings_of(method).items():
            if setting.client or not client:
                found.setdefault(name, {})[method.name] = setting
    return {name: _of_several(by_method) for name, by_method in found.items()}


def _of_several(by_method: Mapping[str, Declaration]) -> Declaration:
    """Return the hyperparameter of several methods as one, with the default of each method."""
    first = next(iter(by_method.values()))
    kinds = {method: setting.kind.__name__ for method, setting in by_method.items()}
    if len(set(kinds.values())) > 1:
        raise TypeError(f"the hyperparameter {first.name} is of several types: {kinds}")
    methods: dict[Any, list[str]] = {}
    for method, setting in by_method.items():
        methods.setdefault(setting.default, []).append(method)
    defaults = "; ".join(f"{default} for {', '.join(names)}" for default, names in methods.items())
    choices = dict.fromkeys(choice for setting in by_method.values() for choice in setting.choices)
    words = dict.fromkeys(word for setting in by_method.values() for word in setting.words)
    return replace(first, default=defaults, choices=tuple(choices), words=tuple(words))


def method_with(name: str, hyperparameters: Given) -> Method[Any]:
    """Return a method with the hyperparameters that were given.

    Raises
    ------
    ValueError
        If there is no such method, or it has no such hyperparameter.
    """
    from fedcof.methods import get_method

    known = settings_of(type(get_method(name)))
    for lacking in (key for key in hyperparameters if key not in known):
        options = ", ".join(f"--{key.replace('_', '-')}" for key in known) or "no hyperparameters"
        raise ValueError(f"the method {name} has no {lacking.replace('_', '-')}; it has {options}")
    return get_method(name, **hyperparameters)
