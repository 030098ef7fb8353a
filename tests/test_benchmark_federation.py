"""The benchmark runs, and the overhead on the wire keeps within its bar."""

import pytest

pytest.importorskip("flwr")

import json
import subprocess
import sys
from pathlib import Path

pytestmark = pytest.mark.slow

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "federation.py"


def test_benchmark_of_federation_runs_and_the_wire_costs_at_most_5_percent_more():
    arguments = ["--clients", "10", "--dim", "8", "--engines", "one process", "--json"]
    arguments += ["--crowd", "30"]
    done = subprocess.run(
        [sys.executable, BENCHMARK, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    tables = json.loads(done.stdout)
    assert [row["clients"] for row in tables["runs"]] == [10]
    assert [row["clients"] for row in tables["crowds"]] == [30]
    assert all(row["overhead"] <= 0.05 for row in tables["wire"])
