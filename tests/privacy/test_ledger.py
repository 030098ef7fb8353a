"""Budgets of privacy: composed over runs, refused when spent, on disk before all else."""

import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("opendp")

from fedcof.errors import BudgetError
from fedcof.privacy.accountant import epsilon_of
from fedcof.privacy.ledger import Budget, Ledger

BUDGET = Budget(epsilon=2.0, delta=1e-5)


def test_losses_add_up_over_runs_and_are_refused_when_spent(tmp_path):
    path = tmp_path / "site" / "privacy.db"
    for run in range(4):
        Ledger(path).spend("north", BUDGET.rho / 4, BUDGET, release=f"run {run}")
    ledger = Ledger(path)
    assert ledger.epsilon("north", 1e-5) == pytest.approx(2.0)
    with pytest.raises(BudgetError, match="'north': epsilon 2 of 2 by sample"):
        ledger.spend("north", BUDGET.rho / 4, BUDGET, release="run 4")
    assert ledger.spent("north") == pytest.approx(BUDGET.rho)


def test_two_releases_cost_less_than_twice_the_epsilon(tmp_path):
    ledger = Ledger(tmp_path / "privacy.db")
    ledger.spend("north", 0.02, BUDGET, release="run")
    assert ledger.epsilon("north", 1e-5, more=0.02) == epsilon_of(0.04, 1e-5)
    assert epsilon_of(0.04, 1e-5) < 2 * epsilon_of(0.02, 1e-5)


def test_clients_and_kinds_of_neighbours_have_budgets_of_their_own(tmp_path):
    ledger = Ledger(tmp_path / "privacy.db")
    ledger.spend("north", BUDGET.rho, BUDGET, release="run")
    ledger.spend("south", BUDGET.rho, BUDGET, release="run")
    ledger.spend("north", 0.01, Budget(2.0, 1e-5, "client"), release="run")
    assert ledger.spent("north", "client") == 0.01


def test_two_at_once_stay_within_the_budget(tmp_path):
    ledger = Ledger(tmp_path / "privacy.db")

    def spend(number):
        try:
            ledger.spend("north", BUDGET.rho / 5, BUDGET, release=str(number))
        except BudgetError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(16))) == 5


def test_what_was_spent_outlasts_a_killed_process(tmp_path):
    path = tmp_path / "privacy.db"
    code = (
        "import os, signal, pathlib; from fedcof.privacy.ledger import Budget, Ledger;"
        f"ledger = Ledger(pathlib.Path({str(path)!r}));"
        "ledger.spend('north', 0.01, Budget(2.0, 1e-5), release='run');"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    assert Ledger(path).spent("north") == 0.01


def test_a_loss_that_is_none_is_refused(tmp_path):
    for loss in (0.0, -1.0, float("nan")):
        with pytest.raises(BudgetError, match="must be positive"):
            Ledger(tmp_path / "privacy.db").spend("north", loss, BUDGET, release="run")


def test_a_file_that_is_no_ledger_lets_nothing_out(tmp_path):
    path = tmp_path / "privacy.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(BudgetError, match="nothing is sent without it"):
        Ledger(path)


def test_a_ledger_is_for_its_owner_only(tmp_path):
    path = Ledger(tmp_path / "privacy.db").path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
