"""Which transform helps: a strict answer where it is clear, the simplest where it is not."""

import numpy as np
import pytest

from fedcof.backbones.advice import CANDIDATES, FOLDS, advise
from fedcof.errors import SummaryError
from fedcof.transforms import NO_TRANSFORM, Standardize, parse


def gaussian(classes=4, each=40, dim=12, seed=0, apart=2.0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    return rng.normal(size=(len(labels), dim)) + apart * rng.normal(size=(classes, dim))[
        labels
    ], labels


def test_where_nothing_differs_the_one_to_be_preferred_is_taken():
    features, labels = gaussian()
    found = advise(features, labels)
    assert found.recommended.transform == Standardize() == CANDIDATES[0]
    measured = [measured.transform for measured in found.measured]
    assert measured == [NO_TRANSFORM, *CANDIDATES]
    assert (found.samples, found.classes) == (160, 4)
    first = found.measured[0]
    assert (first.lead, first.deviation) == (0, 0)


def test_what_a_transform_destroys_is_left_as_it_is():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 60)
    # Of two values, standardizing leaves which of them is the larger.
    features = np.array([[1.0, 0.2], [1.0, 0.8]])[labels] + 0.05 * rng.normal(size=(120, 2))
    found = advise(features, labels, candidates=[Standardize()])
    assert found.recommended.transform == NO_TRANSFORM


def test_brightness_that_says_nothing_is_taken_away_by_standardizing():
    features, labels = gaussian(dim=60, seed=1, apart=0.4)
    brightness = np.random.default_rng(2).lognormal(0, 3, size=(len(features), 1))
    found = advise(features * brightness, labels)
    assert found.recommended.transform == Standardize()
    assert found.recommended.lead > 3 * found.recommended.deviation


def test_skewed_features_want_the_root():
    features, labels = gaussian(each=100, seed=3)
    found = advise(np.exp(1.5 * features), labels)
    assert "power" in str(found.recommended.transform)


def test_same_seed_same_advice_and_the_candidates_are_the_caller_s():
    features, labels = gaussian(each=12)
    names = np.array(["ant", "bee", "cat", "dog"])[labels]
    candidates = (parse("standardize+random-features:8"),)
    first, second = (advise(features, names, candidates=candidates, seed=3) for _ in range(2))
    assert first == second
    assert len(first.measured) == 2


def test_every_sample_is_held_out_once_from_a_head_of_all_classes():
    told = []
    features, labels = gaussian(each=2 * FOLDS)
    advise(features, labels, candidates=[Standardize()], advance=told.append)
    assert told == [1] * 2 * FOLDS


def test_too_few_samples_are_refused():
    features, labels = gaussian(each=2 * FOLDS - 1)
    with pytest.raises(SummaryError, match="fewer than two classes have 10 samples"):
        advise(features, labels)
    with pytest.raises(SummaryError, match="NaN"):
        advise(np.full((40, 2), np.nan), np.repeat([0, 1], 20))
