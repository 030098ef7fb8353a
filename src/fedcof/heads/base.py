"""What every head has: labels from scores, probabilities, its provenance and its file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax

from fedcof.errors import HeadError, SettingError
from fedcof.files import write_atomically
from fedcof.labels import as_labels
from fedcof.registry import Registry
from fedcof.rejection import Rejection
from fedcof.transforms import NO_TRANSFORM, Transform, parse
from fedcof.wire import decode, encode

_KINDS: Registry[type[Head]] = Registry("kind of head")


@dataclass(frozen=True)
class Provenance:
    """Where a head comes from.

    Parameters
    ----------
    method : str
        The method's name.
    hyperparameters : mapping of str to number or str
        Its settings, as numbers where they were chosen.
    automatic : sequence of str
        The names of those that were chosen from the summaries.
    clients, samples : int
        How many there were.
    formula_bytes : int
        What the clients sent, by the paper's formulas.
    iterations : int
        What the solver took; 0 for a closed form.
    origin : mapping of str to str
        What made the features, as the clients' summaries say it: fingerprints by name.
    sending : mapping
        How the clients made what they sent, the settings of `fedcof.client.Sender`; empty where the
        server was not told.
    privacy : mapping
        The differential privacy of the head, `fedcof.privacy.CentralPrivacy.guarantee`; empty
        where there is none.
    """

    method: str
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    clients: int = 0
    samples: int = 0
    formula_bytes: int = 0
    iterations: int = 0
    origin: Mapping[str, str] = field(default_factory=dict)
    sending: Mapping[str, Any] = field(default_factory=dict)
    automatic: Sequence[str] = field(default_factory=list)
    privacy: Mapping[str, Any] = field(default_factory=dict)


class Head(ABC):
    """A classifier over the features of a frozen backbone; a subclass says how it scores them.

    A subclass is a dataclass with the fields `classes`, `provenance`, `transform` and, unless all
    of its heads have or lack them, `probabilistic` and `rejection`.
    """

    kind: ClassVar[str]
    """The name in the head's file."""
    shape: ClassVar[str]
    """What its classes are parted by, for messages: "linear"."""
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    classes: NDArray[Any]
    provenance: Provenance | None
    probabilistic: bool
    transform: Transform
    rejection: Rejection | None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in vars(cls):
            _KINDS.add(cls.kind, cls)

    @property
    @abstractmethod
    def transformed_dim(self) -> int:
        """The length of a feature after it is transformed."""

    @property
    @abstractmethod
    def slopes(self) -> NDArray[np.floating[Any]]:
        """How scores grow with a transformed feature amid the classes, shape (classes, dim)."""

    @abstractmethod
    def _scores(self, transformed: NDArray[Any]) -> NDArray[np.floating[Any]]:
        """Return the score of every class, shape (n, classes), of transformed features."""

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the head's file."""

    @classmethod
    @abstractmethod
    def _of_arrays(cls, arrays: dict[str, Any], **known: Any) -> Self:
        """Return the head of the arrays of a file, and of the other fields."""

    def _check_transform(self) -> None:
        try:
            self.transform.input_dim(self.transformed_dim)
        except SettingError as error:
            raise HeadError(str(error)) from None

    @property
    def dim(self) -> int:
        """The length of a feature, d, before it is transformed."""
        return self.transform.input_dim(self.transformed_dim)

    @property
    def of_transformed(self) -> Self:
        """The same head for features that are transformed already."""
        return replace(self, transform=NO_TRANSFORM)

    def with_provenance(self, **changes: Any) -> Self:
        """Return the head with some fields of its provenance changed."""
        return replace(self, provenance=replace(self.provenance or Provenance(""), **changes))

    def decision_function(self, features: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the score of every class, shape (n, classes), for features of shape (n, dim).

        Raises
        ------
        HeadError
            If the features have another length, or hold NaN or infinity.
        """
        array = np.asarray(features)
        if array.ndim != 2 or array.shape[1] != self.dim:
            raise HeadError(f"features of shape {array.shape}, this head takes (n, {self.dim})")
        scores = self._scores(self.transform(array))
        if not np.isfinite(scores).all():
            row = np.flatnonzero(~np.isfinite(scores).all(axis=1))[0]
            raise HeadError(f"features hold NaN or infinity, first in row {row}; leave it out")
        return scores

    def predict(self, features: ArrayLike) -> NDArray[Any]:
        """Return the label of the highest score for features of shape (n, dim)."""
        return np.asarray(self.classes[self.decision_function(features).argmax(axis=1)])

    def predict_proba(self, features: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the probability of every class, shape (n, classes), the softmax of the scores.

        Raises
        ------
        HeadError
            If the scores of this head are no log odds; see `probabilistic`.
        """
        self._check_probabilistic()
        return np.asarray(softmax(self.decision_function(features), axis=1))

    def predict_log_proba(self, features: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the logarithm of `predict_proba`; it does not underflow."""
        self._check_probabilistic()
        return np.asarray(log_softmax(self.decision_function(features), axis=1))

    def _check_probabilistic(self) -> None:
        if not self.probabilistic:
            raise HeadError(
                "the scores of this head have an order and no scale, so they give no "
                "probabilities; one of the form lda, of ccvr, or one that was trained further does"
            )

    def is_unknown(self, features: ArrayLike, share: float) -> NDArray[np.bool_]:
        """Return whether each sample is less familiar than all but a share of the known are.

        Parameters
        ----------
        features : array_like of float, shape (n, dim)
        share : float
            Of the samples of known classes, how many may be rejected; see `Rejection.threshold`.

        Raises
        ------
        HeadError
            If this head cannot tell, or the share is not between 0 and 1.
        """
        rejection = self.rejecting()
        familiarity = rejection.familiarity(self.decision_function(features))
        return np.asarray(familiarity < rejection.threshold(share))

    def rejecting(self) -> Rejection:
        """Return what tells samples of unknown classes.

        Raises
        ------
        HeadError
            If the head has none.
        """
        if self.rejection is None:
            raise HeadError(
                "this head cannot tell samples of unknown classes; one of the form lda can "
                "(fedcof solve --form lda)"
            )
        return self.rejection

    def score(self, features: ArrayLike, labels: ArrayLike) -> float:
        """Return the accuracy, a number from 0 to 1.

        Raises
        ------
        HeadError
            If there is no sample, or the labels are of another length or type than predicted.
        """
        predicted, truth = self.predict(features), as_labels(labels)
        if len(truth) != len(predicted) or len(truth) == 0:
            raise HeadError(f"{len(truth)} labels for {len(predicted)} features")
        if isinstance(truth[0], str) != isinstance(predicted[0], str):
            raise HeadError(
                f"labels of type {truth.dtype}, but the classes of this head are "
                f"{self.classes.dtype}"
            )
        return float(np.mean(predicted == truth))

    def to_bytes(self) -> bytes:
        """Return the head as a safetensors file that `load` reads."""
        metadata: dict[str, Any] = {"kind": self.kind, "classes": self.classes.tolist()}
        if self.probabilistic:
            metadata["probabilistic"] = True
        if self.transform != NO_TRANSFORM:
            metadata["transform"] = str(self.transform)
        if self.provenance is not None:
            metadata["provenance"] = asdict(self.provenance)
        return encode(self._arrays(), metadata)

    def save(self, path: str | Path) -> None:
        """Write the head to a file that `load` reads."""
        write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a head that `save` wrote: of any kind as ``Head.load``, or else of the class's own.

        Raises
        ------
        HeadError
            If the file is truncated, corrupt, not a head, or one of another kind.
        FileNotFoundError
            If there is no such file.
        """
        path = Path(path)
        if path.is_dir():
            raise HeadError(f"{path} is a folder; give the file of the head in it")
        try:
            arrays, metadata = decode(path.read_bytes())
            kind = str(metadata.get("kind"))
            if kind not in _KINDS:
                raise HeadError(f"not a head of fedcof but {kind!r}")
            provenance = metadata.get("provenance")
            if provenance and "bytes" in provenance:  # as version 0.1.0 called it
                provenance["formula_bytes"] = provenance.pop("bytes")
            head = _KINDS[kind]._of_arrays(
                arrays,
                classes=np.asarray(metadata["classes"]),
                provenance=Provenance(**provenance) if provenance else None,
                probabilistic=bool(metadata.get("probabilistic", False)),
                transform=parse(str(metadata.get("transform", NO_TRANSFORM))),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise HeadError(
                f"{path} is not a whole head: {error}; give the file that `fedcof solve`, "
                "`fedcof train` or the method `save` of a head wrote"
            ) from None
        if not isinstance(head, cls):
            raise HeadError(f"{path} holds a {head.shape} head, but {needs(cls)}")
        return head


def needs(kind: type[Head]) -> str:
    """Return what is said where a head of another kind is given."""
    return f"a {kind.shape} one is needed here"
