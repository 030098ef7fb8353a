"""Nothing phones home: the usage statistics of the libraries that fedcof runs are switched off.

ONNX Runtime from 1.29 on, when it is imported, writes a device id and a queue of events with the
interpreter's path into the user's cache folder, to send them. Flower, Ray and Hugging Face have
events of their own. Each reads its variable when it is imported or started, so ``import fedcof``
sets them all: whatever part of fedcof is used, it comes first, and it imports none of these
libraries itself. Processes that fedcof starts inherit them.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

SWITCHES = {
    "ORT_DISABLE_TELEMETRY": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_UPDATE_DOWNLOAD_COUNTS": "0",
}
"""The environment variables by which each library's statistics are off."""


def switch_off(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables of `SWITCHES` that the user has not set.

    Examples
    --------
    >>> environment = {"RAY_USAGE_STATS_ENABLED": "1"}
    >>> switch_off(environment)
    >>> environment["RAY_USAGE_STATS_ENABLED"], environment["ORT_DISABLE_TELEMETRY"]
    ('1', '1')
    """
    for name, value in SWITCHES.items():
        environment.setdefault(name, value)
