from importlib.resources import files

import numpy as np
import pytest
from sklearn.neighbors import NearestCentroid

from fedcof.data import fashion_mnist


def test_all_images_are_there_once():
    train, test = fashion_mnist()
    assert (len(train), len(test)) == (7500, 2500)
    images = np.concatenate([train.images, test.images]).reshape(-1, 28 * 28)
    assert len(np.unique(images, axis=0)) == 10_000  # the set has no two equal images


def test_both_sets_hold_the_classes_in_equal_shares():
    train, test = fashion_mnist(1000, test_fraction=0.2)
    assert np.bincount(train.labels).tolist() == [80] * 10
    assert np.bincount(test.labels).tolist() == [20] * 10


def test_labels_fit_their_images():
    train, test = fashion_mnist()
    flat = [images.images.reshape(len(images), -1) / 255 for images in (train, test)]
    accuracy = NearestCentroid().fit(flat[0], train.labels).score(flat[1], test.labels)
    assert accuracy > 0.6  # chance is 0.1


def test_a_seed_makes_the_split():
    first, again, other = (fashion_mnist(100, seed=seed)[0].images for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("num_images", [10_001, 20, 0, -5])
def test_an_impossible_number_of_images_says_what_is_possible(num_images):
    with pytest.raises(ValueError, match="10,000 in all"):
        fashion_mnist(num_images)


@pytest.mark.parametrize("fraction", [0, 1, 1.5])
def test_an_impossible_fraction_is_named(fraction):
    with pytest.raises(ValueError, match="test_fraction"):
        fashion_mnist(test_fraction=fraction)


def test_the_licence_and_the_origin_travel_with_the_images():
    folder = files("fedcof.data.fashion_mnist")
    assert "Zalando SE" in folder.joinpath("LICENSE").read_text()
    assert "dataset-fashion-mnist" in folder.joinpath("ORIGIN.md").read_text()
