import pytest

from fedcof.training import TrainingSettings


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ({"rounds": 0}, "rounds"),
        ({"batch_size": 0}, "batch_size"),
        ({"local_epochs": 0}, "local_epochs"),
        ({"client_lr": float("nan")}, "client_lr"),
        ({"client_lr": -1.0}, "client_lr"),
        ({"participation": 0.0}, "participation"),
        ({"seed": -1}, "seed"),
        ({"optimizer": "lbfgs"}, "optimizer"),
        ({"strategy": "fedsgd"}, "strategy"),
        ({"strategy": "fedavg", "server_lr": 0.1}, "server_lr"),
        ({"strategy": "fedavg", "proximal_mu": 0.1}, "proximal_mu"),
        ({"strategy": "fedprox", "proximal_mu": 0.0}, "proximal_mu"),
        ({"strategy": "fedprox", "proximal_mu": float("inf")}, "proximal_mu"),
        ({"strategy": "fedavg", "proximal_mu": float("nan")}, "proximal_mu"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(setting, word):
    with pytest.raises(ValueError, match=word):
        TrainingSettings(**setting)
