import numpy as np
import pytest

from fedcof import Head, HeadError, LinearHead, Provenance, QuadraticHead, SingularScatterWarning
from fedcof.heads import linear, solve_quadratic, whitening
from fedcof.transforms import parse


@pytest.fixture
def head():
    """A narrow class at 0 and a wide one at the same place, in two dimensions."""
    return QuadraticHead(
        means=np.zeros((2, 2)),
        factors=np.stack([np.eye(2), np.eye(2) / 2]),  # deviations 1 and 2
        bias=np.log([0.5, 0.5]) - [0.0, np.log(4.0)],
        classes=np.array(["narrow", "wide"]),
        provenance=Provenance("gh-qda", {"blend": 0.1}),
    )


class TestScores:
    def test_are_log_posteriors_up_to_a_constant(self, head):
        x = np.array([[0.0, 0.0], [3.0, 0.0]])
        narrow = np.exp(-np.array([0.0, 9.0]) / 2)
        wide = np.exp(-np.array([0.0, 9.0]) / 8) / 4
        expected = np.stack([narrow, wide], axis=1) / (narrow + wide)[:, None]
        np.testing.assert_allclose(head.predict_proba(x), expected, rtol=1e-12)
        np.testing.assert_allclose(np.exp(head.predict_log_proba(x)), expected, rtol=1e-12)
        assert head.predict(x).tolist() == ["narrow", "wide"]
        assert head.score(x, ["narrow", "narrow"]) == 0.5

    def test_of_more_rows_than_a_block_are_those_of_each(self, head, rng, monkeypatch):
        x = rng.normal(size=(10, 2))
        whole = head.decision_function(x)
        monkeypatch.setattr("fedcof.heads.quadratic._ROWS", 3)
        np.testing.assert_array_equal(head.decision_function(x), whole)

    def test_take_raw_features_where_there_is_a_transform(self, head):
        of_roots = QuadraticHead(
            head.means, head.factors, head.bias, head.classes, transform=parse("power:0.5")
        )
        np.testing.assert_allclose(
            of_roots.decision_function(np.array([[4.0, -9.0]])),
            head.decision_function(np.array([[2.0, -3.0]])),
        )

    def test_of_features_that_do_not_fit_are_refused(self, head):
        with pytest.raises(HeadError, match=r"shape \(1, 3\), this head takes \(n, 2\)"):
            head.predict(np.zeros((1, 3)))
        with pytest.raises(HeadError, match="NaN or infinity, first in row 1"):
            head.predict(np.array([[0.0, 0.0], [np.nan, 0.0]]))

    def test_say_nothing_of_unknown_classes(self, head):
        with pytest.raises(HeadError, match="cannot tell samples of unknown classes"):
            head.is_unknown(np.zeros((1, 2)), 0.05)

    def test_slopes_are_those_of_the_scores_at_the_mean_of_the_means(self, rng):
        factors, means = rng.normal(size=(3, 2, 2)), rng.normal(size=(3, 2))
        head = QuadraticHead(means, factors, np.zeros(3), np.arange(3))
        middle, steps = means.mean(axis=0), 1e-6 * np.eye(2)
        grown = head.decision_function(middle + steps) - head.decision_function(middle - steps)
        np.testing.assert_allclose(head.slopes, grown.T / 2e-6, rtol=1e-6)


class TestFile:
    def test_comes_back_with_factors_in_float32(self, head, tmp_path, rng):
        head.save(tmp_path / "head")
        loaded = Head.load(tmp_path / "head")
        assert isinstance(loaded, QuadraticHead)
        assert loaded.provenance == head.provenance
        assert loaded.factors.dtype == np.float32
        np.testing.assert_array_equal(loaded.classes, head.classes)
        x = rng.normal(size=(5, 2))
        np.testing.assert_allclose(loaded.decision_function(x), head.decision_function(x), 1e-5)
        loaded.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "head").read_bytes()

    def test_is_refused_where_a_linear_head_is_needed(self, head, tmp_path):
        head.save(tmp_path / "head")
        with pytest.raises(HeadError, match="holds a quadratic head, but a linear one is needed"):
            LinearHead.load(tmp_path / "head")
        with pytest.raises(HeadError, match="a quadratic head, but a linear one is needed"):
            linear(head)

    def test_of_a_linear_head_is_one_for_everybody(self, tmp_path):
        LinearHead(np.eye(2), np.array([0, 1])).save(tmp_path / "head")
        assert isinstance(Head.load(tmp_path / "head"), LinearHead)


@pytest.mark.parametrize(
    "changed",
    [
        {"means": np.zeros((3, 2))},
        {"factors": np.zeros((2, 3, 3))},
        {"bias": np.zeros(3)},
        {"means": np.zeros((2, 0)), "factors": np.zeros((2, 0, 0))},
        {"bias": np.array([0.0, np.nan])},
    ],
)
def test_arrays_that_do_not_fit_are_refused(head, changed):
    fields = {name: getattr(head, name) for name in ("means", "factors", "bias", "classes")}
    with pytest.raises(HeadError, match="means"):
        QuadraticHead(**fields | changed)


class TestSolving:
    def test_whitening_brings_the_covariance_to_the_identity(self, rng):
        root = rng.normal(size=(9, 4)) * [1e-3, 1.0, 1.0, 1e4]
        covariance = root.T @ root
        basis = whitening(covariance)
        np.testing.assert_allclose(basis.T @ covariance @ basis, np.eye(4), atol=1e-9)

    def test_a_direction_without_spread_counts_for_nothing(self):
        covariance = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
        with pytest.warns(SingularScatterWarning, match="rank 1 of 3"):
            basis = whitening(covariance)
        np.testing.assert_allclose(np.abs(basis), [[0.5], [0.0], [0.5]])

    @pytest.mark.parametrize(
        ("share", "variance"), [(0.0, [4.0, 1.0]), (0.5, [2.5, 1.0]), (1.0, [1.0, 1.0])]
    )
    def test_a_covariance_is_drawn_to_the_pooled_one(self, share, variance):
        head = solve_quadratic(
            np.array([0, 1]),
            np.zeros((2, 2)),
            [np.diag([4.0, 1.0]), np.eye(2)],
            basis=np.eye(2),
            pooled_shares=np.full(2, share),
            priors=np.array([0.5, 0.5]),
        )
        np.testing.assert_allclose(head.factors[0], np.diag(np.array(variance) ** -0.5))
        np.testing.assert_allclose(head.bias, np.log(0.5) - [np.log(variance).sum() / 2, 0.0])

    def test_a_singular_covariance_of_a_class_is_named(self):
        with pytest.raises(HeadError, match="of class 'b' is singular: it needs a share of the"):
            solve_quadratic(
                np.array(["a", "b"]),
                np.zeros((2, 2)),
                [np.eye(2), np.diag([1.0, 0.0])],
                basis=np.eye(2),
                pooled_shares=np.zeros(2),
                priors=np.array([0.5, 0.5]),
            )
