"""What a SuperNode does with a question, whoever brings it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fedcof.federation.answering import answer
from fedcof.federation.delivering import KEEP, keep
from fedcof.federation.readiness import CHECK, check
from fedcof.federation.records import DESCRIBE, SUMMARIZE
from fedcof.federation.secure.statistic import SECURE

RESPONSES: Mapping[str, Callable[[dict[str, Any], Any], dict[str, Any]]] = {
    DESCRIBE: partial(answer, DESCRIBE),
    SUMMARIZE: partial(answer, SUMMARIZE),
    SECURE: partial(answer, SECURE),
    CHECK: check,
    KEEP: keep,
}
"""By its action, what is called with the question and the SuperNode's context; the record of the
answer comes back."""
