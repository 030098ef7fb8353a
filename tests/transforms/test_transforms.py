import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fedcof import LinearHead
from fedcof.errors import HeadError, SettingError
from fedcof.transforms import (
    NO_TRANSFORM,
    Chain,
    Clip,
    PowerTransform,
    RandomFeatures,
    Standardize,
    chain,
    parse,
)

ROOT_AND_STANDARDIZE = chain(PowerTransform(0.5), Standardize())
MATRICES = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-(2.0**100), 2.0**100, width=32),
)


def test_the_signed_power_keeps_the_sign():
    assert PowerTransform(0.5)([[4.0, -9.0, 0.0]]).tolist() == [[2, -3, 0]]
    np.testing.assert_allclose(PowerTransform(0.25)([[16.0, -81.0]]), [[2, -3]])
    assert PowerTransform(1.0)([[16.0, -81.0]]).tolist() == [[16, -81]]


def test_standardize_by_the_sample_s_own_mean_and_deviation():
    np.testing.assert_allclose(Standardize()([[1.0, 3.0], [-4.0, -4.0]]), [[-1, 1], [0, 0]])


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1.0, 1e30])
def test_standardize_at_any_scale(scale):
    features = (np.random.default_rng(0).normal(size=(4, 50)) * scale).astype(np.float32)
    standardized = Standardize()(features)
    np.testing.assert_allclose(standardized.mean(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(standardized.std(axis=1), 1, rtol=1e-4)


def test_equal_values_become_zeros_and_not_rounding_errors_of_size_1():
    features = np.full((2, 513), 0.1, dtype=np.float32)
    assert not Standardize()(features).any()


@given(MATRICES)
def test_a_sample_is_transformed_by_itself(features):
    transform = chain(ROOT_AND_STANDARDIZE, RandomFeatures(5))
    whole = transform(features)
    alone = np.concatenate([transform(row[None]) for row in features])
    np.testing.assert_allclose(whole, alone, rtol=1e-4, atol=1e-5)
    assert np.isfinite(whole).all()


@pytest.mark.parametrize(
    ("given", "made"),
    [(np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64), (int, float)],
)
def test_the_type_of_the_features_stays(given, made):
    transform = chain(ROOT_AND_STANDARDIZE, RandomFeatures(3))
    features = np.arange(8).reshape(2, 4).astype(given)
    before = features.copy()
    assert transform(features).dtype == made
    np.testing.assert_array_equal(features, before)


def test_random_features_are_rectified_projections_that_keep_the_mean_square():
    features = np.random.default_rng(0).normal(size=(20, 300))
    lifted = RandomFeatures(2000, seed=3)
    matrix = lifted.matrix(300)
    np.testing.assert_allclose(lifted(features), np.maximum(features @ matrix, 0))
    assert abs(matrix.mean()) < 1e-3
    assert matrix.var() == pytest.approx(2 / 300, rel=1e-2)
    assert np.square(lifted(features)).mean() == pytest.approx(1, rel=0.1)


def test_the_matrix_is_that_of_the_seed_on_every_machine():
    first = RandomFeatures(2, seed=7).matrix(3)
    drawn = [0.26037353, 1.0335494, 0.6186622, -0.6162299, -0.4277808, 0.9335418]
    np.testing.assert_allclose(first.ravel(), drawn, rtol=1e-6)
    assert not np.array_equal(first, RandomFeatures(2, seed=8).matrix(3))


@pytest.mark.parametrize(
    "transform",
    [
        NO_TRANSFORM,
        PowerTransform(0.3),
        PowerTransform(1e-05),
        Clip(2.5),
        Standardize(),
        RandomFeatures(7),
        RandomFeatures(7, seed=2, inputs=4),
        chain(ROOT_AND_STANDARDIZE, RandomFeatures(9)),
    ],
)
def test_a_transform_is_its_text(transform):
    assert parse(str(transform)) == transform


def test_texts_are_canonical():
    assert str(ROOT_AND_STANDARDIZE) == "power:0.5+standardize"
    assert str(parse("power+random-features:16")) == "power:0.5+random-features:16:0:relu"
    assert str(NO_TRANSFORM) == "none"


def test_chains_that_do_the_same_are_equal():
    assert chain(Chain((PowerTransform(),)), chain(Standardize())) == ROOT_AND_STANDARDIZE
    assert chain(Standardize()) == Standardize()
    assert chain() == chain(NO_TRANSFORM) == NO_TRANSFORM


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rot13", "no transform is called 'rot13'"),
        ("", "no transform is called ''"),
        ("power:0.5+", "no transform is called ''"),
        ("power:2", "'power:2': power must be a finite number, above 0 and at most 1, it is 2.0"),
        ("power:x", "it is 'x'"),
        ("power:0.5:1", "the settings of power are: power"),
        ("standardize:1", "the settings of standardize are: none"),
        ("random-features:1.5", "dim must be an integer"),
        ("random-features:16:0:tanh", "activation must be one of relu"),
        ("random-features:65536:0:relu:65536", "inputs times dim must be at most"),
        ("power+" * 100, "more than 200 characters"),
    ],
)
def test_a_text_that_is_none_is_refused(text, message):
    with pytest.raises(SettingError, match=message):
        parse(text)


def test_lengths():
    lifted = chain(ROOT_AND_STANDARDIZE, RandomFeatures(9))
    bound = lifted.bound(4)
    assert str(bound) == "power:0.5+standardize+random-features:9:0:relu:4"
    assert (lifted.output_dim(4), bound.output_dim(4), bound.input_dim(9)) == (9, 9, 4)
    assert bound.bound(4) == bound
    assert ROOT_AND_STANDARDIZE.bound(4) == ROOT_AND_STANDARDIZE
    assert ROOT_AND_STANDARDIZE.input_dim(4) == 4
    with pytest.raises(SettingError, match="takes features of length 4, these have 5"):
        bound(np.ones((1, 5)))
    with pytest.raises(SettingError, match="gives features of that length, not of 8"):
        bound.input_dim(8)
    with pytest.raises(SettingError, match="does not say the length"):
        lifted.input_dim(9)


@pytest.mark.parametrize(
    "text", ["power:0.5", "clip:1.0", "standardize", "standardize+random-features:9"]
)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_feature_that_is_not_finite_does_not_become_finite(text, value):
    transform = parse(text)
    features = np.ones((2, 4)) * np.arange(4)
    features[1, 2] = value
    transformed = transform(features)
    assert np.isfinite(transformed[0]).all()
    assert not np.isfinite(transformed[1]).all()
    head = LinearHead(
        np.ones((2, transformed.shape[1])), np.arange(2), transform=transform.bound(4)
    )
    with pytest.raises(HeadError, match="NaN or infinity, first in row 1"):
        head.predict(features)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_no_clipped_feature_is_longer_than_the_radius(dtype, scale):
    rng = np.random.default_rng(0)
    features = (rng.normal(size=(500, 64)) * 3 * scale).astype(dtype)
    clipped = Clip(8.0 * scale)(features)
    lengths = np.linalg.norm(clipped.astype(np.float64), axis=1)
    assert lengths.max() <= 8.0 * scale
    np.testing.assert_allclose(lengths, 8.0 * scale, rtol=2e-6)
    np.testing.assert_array_equal(Clip(200.0 * scale)(features), features)
