"""The paper's formulas give the paper's numbers (in MB of a million bytes)."""

import pytest

from fedcof.training import pfpt_bytes, training_bytes


@pytest.mark.parametrize(
    ("classes", "rounds", "megabytes"), [(100, 200, 2458), (200, 200, 4916), (196, 200, 4817)]
)
def test_linear_probing_costs_what_table_lp2_says(classes, rounds, megabytes):
    assert training_bytes(512 * classes, rounds, 30) / 1e6 == pytest.approx(megabytes, abs=0.9)


@pytest.mark.parametrize(("classes", "megabytes"), [(100, 884.7), (200, 1622.0), (196, 1592.5)])
def test_prompt_tuning_costs_what_pfpt_table_says(classes, megabytes):
    parameters = 768 * classes + 20 * 768
    assert training_bytes(parameters, 120, 10) / 1e6 == pytest.approx(megabytes, abs=0.06)


@pytest.mark.parametrize(
    ("classes", "pool_sizes", "megabytes"),
    [(100, 1777, 846.5), (200, 5205, 1794.4), (200, 4736, 1765.5), (196, 4736, 1736.1)],
)
def test_pfpt_costs_what_pfpt_table_says(classes, pool_sizes, megabytes):
    every_round = [pool_sizes // 120] * 119
    every_round.append(pool_sizes - sum(every_round))
    total = pfpt_bytes(768 * classes, 768, every_round, 10) / 1e6
    assert total == pytest.approx(megabytes, abs=0.06)


def test_fine_tuning_of_resnet_18_costs_what_table_ft_says():
    # E: torchvision's resnet18 without its classifier.
    assert training_bytes(11_176_512 + 512 * 100, 200, 30) / 1e6 == pytest.approx(538e3, rel=2e-3)
