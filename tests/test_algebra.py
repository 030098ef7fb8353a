"""Products on a device, with the CPU of torch in place of CUDA, beside those of SciPy."""

import ast
import re
import sys

import numpy as np
import pytest

from fedcof import Fed3R, FedCOF, FedNCM
from fedcof.algebra import algebra_of, computed_by, current
from fedcof.algebra.host import Host
from fedcof.errors import SingularScatterWarning, SummaryError
from fedcof.methods import METHODS, FedCOFSketch
from fedcof.numerics import outer_products, scatter_about_means
from pages import ROOT

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedcof.errors.OddSiteWarning", "ignore::fedcof.FewMeansWarning"
)


@pytest.fixture
def device():
    pytest.importorskip("torch")
    from fedcof.algebra.torch_algebra import TorchAlgebra

    return TorchAlgebra("cpu")


def summaries_of(method, clients=6, dim=5):
    rng = np.random.default_rng(0)
    for name in range(clients):
        labels = rng.permutation(np.arange(24) % 3)
        features = rng.normal(size=(24, dim)) + 2.0 * labels[:, None]
        yield method.summarize(features, labels, client_id=f"{name}", rng=rng)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_scatter_is_that_of_scipy(device, dtype):
    rng = np.random.default_rng(1)
    rows = (rng.normal(size=(60, 4)) + 50).astype(dtype)
    groups, weights = np.arange(60) % 3, rng.integers(1, 9, 60)
    expected = scatter_about_means([rows[:7], rows[7:]], weights, groups, 3)
    with computed_by(device):
        found = scatter_about_means([rows[:7], rows[7:]], weights, groups, 3)
        products = outer_products([rows], dtype)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(products, outer_products([rows], np.float64), rtol=1e-12)


def test_rows_that_come_in_many_blocks_are_not_mixed_up(device, monkeypatch):
    monkeypatch.setattr("fedcof.numerics._BLOCK_BYTES", 8)
    rng = np.random.default_rng(2)
    rows, groups = rng.normal(size=(97, 2)), np.arange(97) % 2
    expected = scatter_about_means([rows], np.ones(97), groups, 2)[1]
    with computed_by(device):
        found = scatter_about_means([rows], np.ones(97), groups, 2)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "method", [FedCOF(), FedCOF(form="lda"), Fed3R(), FedNCM(), FedCOFSketch(), FedCOF(robust=True)]
)
def test_every_method_has_the_head_of_scipy(device, monkeypatch, method):
    sent = list(summaries_of(method))
    expected = method.solve(sent)
    monkeypatch.setattr("fedcof.methods.base.algebra_of", lambda engine: device)
    found = method.solve(sent, engine="cuda")
    np.testing.assert_allclose(found.slopes, expected.slopes, rtol=1e-8, atol=1e-10)
    assert found.provenance.formula_bytes == expected.provenance.formula_bytes


OURS = sorted(name for name in METHODS if METHODS[name].__module__.startswith("fedcof."))
OURS.remove("ccvr")  # it trains its head, for seconds


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("dim", "counts"), [(40, (2, 1, 3)), (5, (9, 1, 8))])
@pytest.mark.parametrize("name", OURS)
def test_few_means_and_single_samples_in_float32_have_the_head_of_scipy(
    device, monkeypatch, name, dim, counts
):
    method, rng = METHODS[name](), np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], counts)
    sent = [
        method.summarize(
            (rng.normal(size=(len(labels), dim)) + labels[:, None]).astype(np.float32),
            labels,
            client_id=f"{k}",
            rng=rng,
        )
        for k in range(4)
    ]
    monkeypatch.setattr("fedcof.methods.base.algebra_of", lambda engine: device)
    try:
        expected = method.solve(sent)
    except SummaryError as error:
        with pytest.raises(SummaryError, match=re.escape(str(error))):
            method.solve(sent, engine="cuda")
        return
    found = method.solve(sent, engine="cuda")
    scores = expected.decision_function(np.eye(dim))
    np.testing.assert_allclose(
        found.decision_function(np.eye(dim)), scores, rtol=0, atol=1e-5 * np.abs(scores).max()
    )


def test_a_singular_matrix_has_the_minimum_norm_solution(device, monkeypatch):
    method = FedCOF(shrinkage=0)
    sent = list(summaries_of(method, clients=3, dim=40))
    with pytest.warns(SingularScatterWarning):
        expected = method.solve(sent)
    monkeypatch.setattr("fedcof.methods.base.algebra_of", lambda engine: device)
    with pytest.warns(SingularScatterWarning, match="of 40") as told:
        found = method.solve(sent, engine="cuda")
    assert told[0].filename == __file__
    np.testing.assert_allclose(found.slopes, expected.slopes, atol=1e-6)


@pytest.mark.parametrize(
    "matrix", [np.diag([1.0, 0.0]), np.diag([1.0, -1.0]), np.full((2, 2), np.nan)]
)
def test_what_is_not_definite_has_no_solution(device, matrix):
    assert device.solve_definite(matrix, np.ones((1, 2)), 1e-15) is None


def test_means_that_overflow_are_refused(device):
    rows = np.array([[1e200], [-1e200]])
    with computed_by(device), pytest.raises(SummaryError, match="overflows"):
        scatter_about_means([rows], np.ones(2), np.zeros(2, dtype=int), 1)


def test_another_engine_lasts_for_its_block(device):
    with computed_by(device):
        assert current() is device
    assert isinstance(current(), Host)


def test_an_engine_that_is_not_there_is_told(monkeypatch):
    with pytest.raises(ValueError, match="cpu or cuda, not 'tpu'"):
        FedCOF().solve([], engine="tpu")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match=r"engine cuda needs torch: pip install .*\[torch\]"):
        FedCOF().solve([], engine="cuda")


def test_no_cuda_is_told(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="sees no CUDA here"):
        algebra_of("cuda")


def test_torch_is_imported_where_it_may_be():
    """At import of the module: anywhere else it is asked for first, within a function."""
    source = ROOT / "src" / "fedcof"
    importers = {path.relative_to(source) for path in source.rglob("*.py") if imports_torch(path)}
    elsewhere = {
        str(path)
        for path in importers
        if "training" not in path.parts and not path.name.startswith("torch_")
    }
    assert elsewhere == set()


def imports_torch(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import) and any(
            n.name.split(".")[0] == "torch" for n in node.names
        ):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            return True
    return False
