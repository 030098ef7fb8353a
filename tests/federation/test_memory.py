"""What is much larger than was asked for is not taken into memory."""

import subprocess
import sys

import pytest

from fedcof.federation import memory
from fedcof.federation.memory import bounded

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the bound")

SCRIPT = """
from fedcof.federation.memory import bounded
try:
    with bounded(2**20):
        bytearray(2**31)
except MemoryError:
    print("bounded")
bytearray(2**30)  # afterwards there is room again
with bounded(2**20):
    bytearray(2**22)
print("done")
"""


@linux
def test_an_answer_may_not_take_much_more_than_was_asked_for():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stdout.split() == ["bounded", "done"], done.stderr


def test_where_the_system_does_not_say_what_is_used_there_is_no_bound(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "none")
    with bounded(1):
        assert bytearray(2**20)
