"""Whom the server asks, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

from fedcof.errors import SettingError
from fedcof.settings import check_settings, setting


@dataclass(frozen=True)
class Plan:
    """The settings of collecting."""

    participation: float = setting(
        1.0, "Share of the known clients that a round asks.", above=0, maximum=1
    )
    rounds: int = setting(0, "Rounds; 0: until every known client has been asked.", minimum=0)
    quorum: int = setting(0, "Summaries that are enough; 0: wait for all.", minimum=0)
    one_question: bool = setting(
        False,
        "Ask a SuperNode for the names of its clients and their summaries at once. Who may answer "
        "for whom is judged when they are there; else it is before anything leaves a site.",
    )
    min_clients: int = setting(
        1, "Clients to wait for before the first round; fewer: no head.", minimum=1
    )
    timeout: float = setting(
        600.0,
        "Seconds to wait for an answer, for clients to come, for SuperNodes to return.",
        above=0,
    )
    attempts: int = setting(
        3, "Faults in a row, one client asked each time, until a SuperNode is given up.", minimum=1
    )
    max_message: int = setting(32 << 20, "Bytes of summaries in one answer.", minimum=1)
    max_clients: int = setting(1_000_000, "Clients of the federation.", minimum=1)
    max_classes: int = setting(100_000, "Classes of the federation.", minimum=1)
    max_samples: int = setting(0, "Samples that one client may claim; 0: any number.", minimum=0)
    max_influence: float = setting(
        0.0,
        "By how much one client may move the weights of the head, from 0 to 2; 0: by any amount.",
        minimum=0,
        maximum=2,
    )
    roster: str = setting(
        "",
        "File of lines CLIENT, KEY: who may answer for whom. Without it a client belongs to the "
        "key of the SuperNode that named it first.",
    )
    accept: str = setting(
        "", "Clients that count however odd they are beside the others, with commas between."
    )

    withdraw: str = setting(
        "", "Clients that leave, with commas between: what they sent is erased, they are not asked."
    )
    readmit: str = setting("", "Clients that had left and come back, with commas between.")

    def __post_init__(self) -> None:
        check_settings(self)
        if self.one_question and (self.participation < 1 or self.quorum):
            raise SettingError(
                "one-question",
                "asks everybody at once, and participation or quorum ask some: leave one out",
            )
