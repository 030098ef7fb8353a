"""The errors and warnings of fedcof, each with a text for a person."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class FedCOFError(Exception):
    """Base of every error that fedcof raises on its own account."""


class SummaryError(FedCOFError, ValueError):
    """A summary, or the data that it is made from, is not what it has to be.

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
        return (_rebuild, (self.code, self.message, self.client_id))


def _rebuild(code: str, message: str, client_id: str) -> SummaryError:
    return SummaryError(code, message, client_id=client_id)


@contextmanager
def naming(client_id: str) -> Iterator[None]:
    """Put the client in front of a `SummaryError` that is raised within."""
    try:
        yield
    except SummaryError as error:
        raise SummaryError(error.code, error.message, client_id=client_id) from None


class HeadError(FedCOFError, ValueError):
    """A head's file is broken, or a head does not fit what it is used on."""


class SingularScatterWarning(UserWarning):
    """A scatter matrix is not positive definite; the minimum-norm solution was taken."""


class TrainingError(FedCOFError, RuntimeError):
    """Federated training cannot go on; the text says in which round and why."""


class FewMeansWarning(UserWarning):
    """No class has two means, so that no covariance can be estimated from them."""
