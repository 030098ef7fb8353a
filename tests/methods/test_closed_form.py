"""The two heads of a method with a scatter within the classes, and the priors of one of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof import Fed3R, FedCOF, FedCOFOracle, SettingError, SingularScatterWarning, get_method
from fedcof.heads import solve_discriminant
from fedcof.methods.closed_form import class_priors, parse_priors

NAMES = ["fed3r", "fedcof", "fedcof-diagonal", "fedcof-oracle", "fedcof-spherical"]


def test_two_points_are_cut_in_the_middle_and_moved_by_the_priors():
    means, covariance = np.array([[0.0], [2.0]]), np.eye(1)
    weight, bias = solve_discriminant(means, covariance, np.array([0.5, 0.5]))
    np.testing.assert_allclose(weight, [[-1.0], [1.0]])
    np.testing.assert_allclose((weight @ [1.0] + bias) @ [-1, 1], 0.0, atol=1e-15)
    weight, bias = solve_discriminant(means, covariance, np.array([0.1, 0.9]))
    np.testing.assert_allclose((weight @ [1.0] + bias) @ [-1, 1], np.log(9))


def test_the_scores_are_log_posteriors(rng):
    means, root = rng.normal(size=(3, 4)), rng.normal(size=(4, 6))
    covariance, priors = root @ root.T, np.array([0.2, 0.3, 0.5])
    x = rng.normal(size=(5, 4))
    weight, bias = solve_discriminant(means, covariance, priors)
    offsets = x[:, None] - means
    densities = -np.einsum("ncd,de,nce->nc", offsets, np.linalg.inv(covariance), offsets) / 2
    expected = densities + np.log(priors)
    scores = x @ weight.T + bias
    np.testing.assert_allclose(np.diff(scores), np.diff(expected), rtol=1e-9)


def test_the_units_of_the_features_do_not_matter(rng):
    means, root, units = (
        rng.normal(size=(3, 4)),
        rng.normal(size=(4, 6)),
        10.0 ** np.arange(-6, 6, 3),
    )
    priors, covariance = np.full(3, 1 / 3), root @ root.T
    weight, bias = solve_discriminant(means, covariance, priors)
    scaled = solve_discriminant(means * units, covariance * units * units[:, None], priors)
    np.testing.assert_allclose(scaled[0] * units, weight, rtol=1e-8)
    np.testing.assert_allclose(scaled[1], bias, rtol=1e-8)


def test_a_direction_without_spread_counts_for_nothing():
    # Of 0.1 many times, the mean is off by rounding: no difference that a class may be known by.
    means = np.array([[0.0, 0.1, 0.0], [2.0, np.nextafter(0.1, 1), 2.0]])
    covariance = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
    with pytest.warns(SingularScatterWarning, match="rank 1 of 3"):
        weight, _ = solve_discriminant(means, covariance, np.array([0.5, 0.5]))
    np.testing.assert_allclose(weight[1] - weight[0], [1.0, 0.0, 1.0])


@pytest.mark.parametrize("name", NAMES)
class TestEveryClosedForm:
    def test_has_probabilities_in_the_form_lda_alone(self, name, deal, blobs):
        method = get_method(name, form="lda")
        head = method.solve(deal(method, *blobs))
        assert head.probabilistic
        assert head.bias is not None
        assert head.score(*blobs[:2]) > 0.6
        assert not get_method(name).solve(deal(method, *blobs)).probabilistic

    def test_a_head_of_the_form_lda_comes_back_from_its_file(self, name, deal, blobs, tmp_path):
        method = get_method(name, form="lda", priors="0=1,1=1,2=1,3=4", temperature=2.0)
        head = method.solve(deal(method, *blobs))
        head.save(tmp_path / "head")
        loaded = type(head).load(tmp_path / "head")
        np.testing.assert_array_equal(loaded.predict_proba(blobs[0]), head.predict_proba(blobs[0]))
        assert get_method(name, **loaded.provenance.hyperparameters) == method


def test_the_exact_methods_agree_however_the_samples_are_dealt(deal, blobs):
    heads = [
        method.solve(deal(method, *blobs))
        for method in (FedCOFOracle(0.0, form="lda"), Fed3R(0.0, form="lda"))
    ]
    np.testing.assert_allclose(heads[0].weight, heads[1].weight, rtol=1e-9)
    np.testing.assert_allclose(heads[0].bias, heads[1].bias, rtol=1e-9)


class TestPriors:
    def test_counts_and_uniform(self):
        classes, counts = np.array(["a", "b"]), np.array([1, 3])
        assert class_priors("counts", classes, counts).tolist() == [0.25, 0.75]
        assert class_priors("uniform", classes, counts).tolist() == [0.5, 0.5]

    def test_shares_by_name_of_which_absent_classes_are_left_out(self):
        classes, counts = np.array(["a, b", "c"]), np.array([1, 3])
        assert class_priors("a, b=1,c=3,d=6", classes, counts).tolist() == [0.25, 0.75]

    @given(
        st.dictionaries(
            st.text("ab ,=", min_size=1).filter(lambda t: "=" not in t and t.strip(" ,") == t),
            st.floats(0.001, 1e6),
            min_size=1,
        )
    )
    def test_any_shares_are_read_back(self, shares):
        assert parse_priors(",".join(f"{k}={v!r}" for k, v in shares.items())) == shares

    def test_a_class_without_a_share_is_named(self):
        with pytest.raises(SettingError, match="priors say nothing of b, c"):
            class_priors("a=1", np.array(["a", "b", "c"]), np.ones(3))

    @pytest.mark.parametrize(
        "text", ["", "even", "a=", "a=x", "a=0", "a=-1", "a=nan", "=1", "a=1,b"]
    )
    def test_what_is_no_list_of_shares_is_refused(self, text):
        with pytest.raises(SettingError, match="priors must be counts, uniform, or"):
            FedCOF(form="lda", priors=text)

    def test_settings_of_one_form_are_refused_in_the_other(self):
        with pytest.raises(SettingError, match="priors is of the form lda alone"):
            FedCOF(priors="uniform")
        with pytest.raises(SettingError, match="temperature is of the form lda alone"):
            Fed3R(temperature=2.0)
        with pytest.raises(SettingError, match="scatter is 'both'; the form lda has within alone"):
            FedCOF(form="lda", scatter="both")
