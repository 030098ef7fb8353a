"""Every error and warning of fedcof, each with a text for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial


def first_of(names: Sequence[str], limit: int) -> str:
    """Return names as a message has them: the first, and how many more there are.

    Examples
    --------
    >>> first_of(["north", "south", "east"], limit=2)
    'north, south and 1 more'
    """
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")


def reason_of(error: Exception) -> str:
    """Return what an error says; one of the file system without its number, the file first.

    Examples
    --------
    >>> reason_of(FileNotFoundError(2, "No such file or directory", "head.safetensors"))
    'head.safetensors: No such file or directory'
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class FedCOFError(Exception):
    """Base of every error that fedcof raises on its own account."""


class SettingError(FedCOFError, ValueError):
    """A setting has a value that it cannot have.

    Parameters
    ----------
    name : str
        The setting, as the reader of the message knows it.
    reason : str
        What it must be, and what it is.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name = name
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return (SettingError, (self.name, self.reason))


class PluginWarning(UserWarning):
    """A plugin of another package cannot be imported and is left out."""


# Summaries and heads


class CodedError(FedCOFError, ValueError):
    """A fault that has a code, and perhaps a client.

    Parameters
    ----------
    code : str
        A short, stable name of the fault ("non-finite", "shape", ...). It never carries data, so it
        may travel from a client to the server where the message must not.
    message : str
        What was wrong, where, what was expected and what to do.
    client_id : str, optional
        The client at fault, put in front of the message.
    """

    def __init__(self, code: str, message: str, *, client_id: str = "") -> None:
        super().__init__(f"client {client_id!r}: {message}" if client_id else message)
        self.code = code
        self.message = message
        self.client_id = client_id

    def __reduce__(self) -> tuple[object, ...]:
        # Exception pickles its args, which are not the parameters of __init__.
        rebuild = partial(type(self), client_id=self.client_id)
        return (rebuild, (self.code, self.message))


class SummaryError(CodedError):
    """A summary, or the data that it is made from, breaks a rule."""


@contextmanager
def naming(client_id: str) -> Iterator[None]:
    """Put the client in front of a `SummaryError` that is raised within."""
    try:
        yield
    except SummaryError as error:
        raise type(error)(error.code, error.message, client_id=client_id) from None


class PolicyError(SummaryError):
    """A site's policy does not allow what is asked, or cannot be read and so allows nothing.

    Its code names the key of the policy, such as ``policy-methods``.
    """


class LocalNoiseWarning(UserWarning):
    """The noise of clients is longer than their class means, or the method does not suit it."""


class BudgetError(SummaryError):
    """A client's privacy budget does not allow a release, or its ledger cannot be used."""


class CorruptBytesError(FedCOFError, ValueError):
    """Bytes are truncated, altered, or not in the format of fedcof."""


class StreamingError(FedCOFError, ValueError):
    """A method, or a setting of it, cannot be solved in bounded memory.

    Parameters
    ----------
    name : str
        The method.
    reason : str
        What it needs all summaries for.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} cannot be solved without all summaries in memory: {reason}")
        self.name = name
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return (StreamingError, (self.name, self.reason))


class HeadError(FedCOFError, ValueError):
    """A head's file is broken, or a head does not fit what it is used on."""


class FewMeansWarning(UserWarning):
    """No class has two means, so that no covariance can be estimated from them."""


class OddSiteWarning(UserWarning):
    """A site's summary is not like the others', so that something may be wrong with its data."""


class SingularScatterWarning(UserWarning):
    """A scatter matrix is not positive definite; the minimum-norm solution was taken."""


# Images, data sets, backbones


class UnreadableImageError(FedCOFError, ValueError):
    """An image cannot be read; the text says why."""


class UnreadableImageWarning(UserWarning):
    """Some images could not be read and were skipped."""


class FolderError(FedCOFError, ValueError):
    """A folder of images can be read in two ways, or in none; the text says how to choose."""


class DiskUseWarning(UserWarning):
    """The pixels of decoded images take much of a disk, or more than it has."""


class SamePictureWarning(UserWarning):
    """The same picture is there twice: in a class, in two classes, or to train and to test on."""


class OwnDataError(FedCOFError, ValueError):
    """Own data cannot be read as samples; the text names file, row or column, and what to do."""


class NoRowsError(OwnDataError):
    """A table of own data has columns and no rows."""


class OwnDataWarning(UserWarning):
    """Own data was read, and something about it may not be as it was meant."""


class DatasetMissingError(FedCOFError, FileNotFoundError):
    """A data set is not there, or not all of it; the text says what and where to get it."""


class BackboneError(FedCOFError, ValueError):
    """A model cannot serve as a backbone; the text says why and what to do."""


class NoWeightsError(BackboneError):
    """There are no weights; the text says what would be needed."""


# Federation and training


class AnswerError(FedCOFError, ValueError):
    """A SuperNode's answer breaks the rules of the wire."""


class RunFolderError(FedCOFError, ValueError):
    """A run folder belongs to another run, or to another version of fedcof."""


class LaunchError(FedCOFError, RuntimeError):
    """Flower cannot start or follow a run; the text has Flower's words."""


class TooFewClientsError(FedCOFError):
    """Not enough clients answered for a head; what was collected is kept."""


class TrainingError(FedCOFError, RuntimeError):
    """Federated training cannot go on; the text says in which round and why."""


class RefusedReplyError(FedCOFError, ValueError):
    """A client's update cannot be used; the text says why."""


class SecureError(CodedError):
    """A message of secure aggregation is refused, or its sum cannot be opened."""


# Experiments


class NotRunError(FedCOFError):
    """A setting cannot be run here; the text says why."""


class NoResultsError(FedCOFError):
    """A folder holds no results of experiments."""


class ResultsFormatError(FedCOFError, ValueError):
    """Results were written by a version of fedcof whose format is not read here."""
