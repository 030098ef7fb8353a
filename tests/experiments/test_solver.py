import numpy as np
import pytest

from fedcof.data import Iid
from fedcof.experiments import Clients, Execution, Source, get_experiment
from fedcof.experiments.solver import Solved, pseudo_inverse_float32
from fedcof.heads import normalize_rows
from fedcof.methods import Fed3R, FedCOF, FedCOFOracle


def test_the_pseudo_inverse_is_that_of_torch_in_float32(rng):
    torch = pytest.importorskip("torch")
    # Two of the eight eigenvalues are below the cut of 8 * 1.19e-7 of the largest.
    rotation = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    gram = (rotation * [1e4, 1e3, 1e2, 10.0, 5.0, 2.0, 1e-3, 1e-3]) @ rotation.T
    sums = rng.normal(size=(3, 8))
    weight, cut = pseudo_inverse_float32(gram, sums)
    inverse = torch.linalg.pinv(torch.tensor(gram, dtype=torch.float32)).numpy()
    assert cut == 2
    np.testing.assert_allclose(weight, normalize_rows(sums @ inverse), atol=1e-3)


@pytest.mark.parametrize("method", [Fed3R(), FedCOF(0.1), FedCOFOracle(0.1)])
def test_on_a_definite_matrix_both_solvers_agree(features, method):
    clients = Clients(Source(features), Iid(8), 0)
    exact, authors = (
        Solved(method, solver).measure(clients, Execution()) for solver in ("exact", "pinv32")
    )
    assert exact["directions_cut"] == authors["directions_cut"] == 0
    assert exact["accuracy"] == pytest.approx(authors["accuracy"], abs=0.02)


def test_directions_without_spread_are_counted_as_cut(features):
    clients = Clients(Source(features), Iid(2), 0)  # two means a class: rank 4, and the mean's own
    with pytest.warns(UserWarning, match="rank 5 of 6"):
        measured = Solved(FedCOF(0.0)).measure(clients, Execution())
    assert measured["directions_cut"] == 1


def test_the_comparison_has_a_row_of_each_solver():
    rows = [setting.columns() for setting in get_experiment("solver").settings()]
    places = {(row["dataset"], row["backbone"]) for row in rows}
    assert len(places) == 4
    assert len(rows) == 4 * 7 * 2
    assert {row["solver"] for row in rows} == {"exact", "pinv32"}
