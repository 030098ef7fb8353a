"""Noise of every client alone, as a step before it sends."""

import numpy as np
import pytest

pytest.importorskip("opendp")

from fedcof import Fed3R, FedCOF, FedNCM, LinearSketch, from_bytes
from fedcof.client import Sender, parse_steps
from fedcof.errors import LocalNoiseWarning, SettingError, SummaryError
from fedcof.privacy import CountNoise, MinSamples
from fedcof.privacy.local import LocalPrivacy, parse_classes
from fedcof.transforms import parse


def samples(n=600):
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=n)
    return rng.normal(size=(n, 4)) + 2 * labels[:, None] - 1, labels


def sent(method, transform="clip:2.0", **settings):
    step = LocalPrivacy(**{"epsilon": 8.0, "classes": "0-2", **settings})
    sender = Sender(method, transform=parse(transform), steps=(step,))
    return sender.send(*samples(), client_id="north")


@pytest.mark.parametrize("method", [FedNCM(), Fed3R(), FedCOF()], ids=lambda m: m.name)
def test_what_is_sent_has_noise_and_is_still_a_summary(method):
    first, second = (from_bytes(sent(method).data) for _ in range(2))
    exact = method.summarize(parse("clip:2.0")(samples()[0]), samples()[1])
    assert first.classes.tolist() == [0, 1]  # the third is within the noise
    assert (first.row_means != second.row_means).any()
    np.testing.assert_allclose(first.row_means, exact.row_means, atol=0.2)


def test_the_step_travels_with_a_job():
    [step] = parse_steps("local-privacy:2.0:1e-05:0-9")
    assert step == LocalPrivacy(epsilon=2.0, delta=1e-5, classes="0-9")


def test_much_noise_is_said_in_numbers():
    with pytest.warns(LocalNoiseWarning, match=r"mean of a class of \S+ samples is \S+ times"):
        sent(FedNCM(), epsilon=0.01)


def test_a_transform_without_a_bound_is_refused():
    with pytest.raises(SummaryError, match="let the transform end with clip:RADIUS"):
        sent(FedNCM(), transform="standardize")


def test_several_means_of_a_class_are_refused():
    with pytest.raises(SummaryError, match="no noise is known"):
        sent(FedCOF(means_per_class=2))


def test_another_statistic_is_refused_before_anything_is_made():
    with pytest.raises(SettingError, match="not linear-sketch"):
        LocalPrivacy().check(LinearSketch)


@pytest.mark.parametrize("text", ["", "9-3", " , "])
def test_no_list_of_classes_is_refused(text):
    with pytest.raises(SettingError, match="classes"):
        parse_classes(text)


@pytest.mark.parametrize("beside", [MinSamples(3), CountNoise("laplace", 0.1)])
def test_no_step_comes_before_it(beside):
    with pytest.raises(SettingError, match="must be the first"):
        Sender(FedNCM(), steps=(beside, LocalPrivacy()))


def test_small_classes_cannot_be_withheld_beside_it():
    with pytest.raises(SettingError, match="min-samples must not stand beside noise by sample"):
        Sender(FedNCM(), steps=(LocalPrivacy(), MinSamples(3)))


def noised(method, **settings):
    step = LocalPrivacy(epsilon=8.0, classes="0-2", **settings)
    sender = Sender(method, transform=parse("clip:2.0"), steps=(step,))
    return [from_bytes(sender.send(*samples(), client_id=name).data) for name in ("a", "b")]


@pytest.mark.filterwarnings("ignore::fedcof.errors.FewMeansWarning")
def test_the_head_says_what_its_clients_added():
    head = FedNCM().solve(noised(FedNCM()))
    said = {name: head.provenance.privacy[name] for name in ("epsilon", "delta", "neighbours")}
    assert said == {"epsilon": 8.0, "delta": 1e-5, "neighbours": "sample"}
    assert "at every client" in head.provenance.privacy["mechanism"]
    with pytest.warns(LocalNoiseWarning, match="which fedcof takes for part of the data"):
        FedCOF().solve(noised(FedCOF()))


def test_summaries_with_and_without_noise_are_not_of_one_head():
    [first, _] = noised(FedNCM())
    exact = FedNCM().summarize(parse("clip:2.0")(samples()[0]), samples()[1], client_id="b")
    with pytest.raises(SummaryError, match="not of one noise"):
        FedNCM().solve([first, exact.with_origin({"transform": first.origin["transform"]})])
