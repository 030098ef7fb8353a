"""Clients that send together send the same bytes as each alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcof import (
    CCVR,
    Fed3R,
    FedCOF,
    FedCOFSketch,
    FedNCM,
    SummaryError,
    from_bytes,
)
from fedcof.client import Held, Sender
from fedcof.numerics import rows_of_block
from fedcof.privacy import OPEN, CountNoise, MinSamples, Policy
from fedcof.summaries.class_means import ClassMeans
from fedcof.transforms import parse

NAMED = {"backbone": "ab12"}


def held(name, *sizes, dim=3, first=0, texts=False, dtype=np.float32, origin=NAMED):
    """A client with so many samples of some classes, in no order."""
    rng = np.random.default_rng(list(name.encode()))
    labels = rng.permutation(np.repeat(first + np.arange(len(sizes)), sizes))
    features = (rng.normal(size=(len(labels), dim)) + labels[:, None]).astype(dtype)
    return Held(features, labels.astype(str) if texts else labels, name, origin)


CLIENTS = [held("a", 3, 1), held("b", 1), held("c", 2, 2, 5, first=4), held("d", 1, 1)]


def alone(sender, clients):
    return [
        sender.send(own.features, own.labels, client_id=own.client_id, origin=own.origin)
        for own in clients
    ]


@pytest.mark.parametrize(
    "sender",
    [
        Sender(FedNCM()),
        Sender(FedCOF(), coding="int8"),
        Sender(FedCOF(means_per_class=2), seed=3),
        Sender(FedCOF(), transform=parse("power")),
        Sender(FedCOF(), steps=(MinSamples(2),)),
        Sender(FedCOF(), seed=5, steps=(CountNoise("uniform", 0.5),)),
        Sender(FedCOFSketch(budget=0.5)),
        Sender(Fed3R()),
        Sender(CCVR()),
    ],
    ids=lambda sender: f"{sender.method.name} {sender.coding} {sender.steps_in_words}",
)
def test_the_bytes_are_those_of_each_client_alone(sender):
    assert sender.send_each(CLIENTS) == alone(sender, CLIENTS)


def test_clients_that_differ_in_type_length_or_origin_are_not_mixed():
    clients = [
        held("a", 2),
        held("b", 2, texts=True),
        held("c", 2, dim=4),
        held("d", 2, origin={"backbone": "other"}),
        held("e", 2, dtype=np.float64),
        held("d", 3),  # out of order
        held("d", 4),  # twice
        held("", 1),
        held("", 2),  # two without a name
    ]
    sender = Sender(FedCOF())
    assert sender.send_each(clients) == alone(sender, clients)
    assert sender.send_each([]) == []


@given(st.lists(st.integers(1, 700), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_the_last_bit_does_not_depend_on_who_is_summed_together(sizes, seed):
    # a block has 512 rows of 512 numbers, so some clients fill it up and some are larger
    rng = np.random.default_rng(seed)
    clients = [
        Held(
            rng.standard_normal((size, 512)) * 10.0 ** rng.integers(-9, 9, size)[:, None],
            rng.integers(2, size=size),
            f"{place}",
        )
        for place, size in enumerate(sizes)
    ]
    sender = Sender(FedCOF())
    together = sender.method.summarize_each([sender.prepared(own) for own in clients], None)
    for own, summary in zip(clients, together, strict=True):
        expected = ClassMeans.summarize(own.features, own.labels, client_id=own.client_id)
        np.testing.assert_array_equal(summary.means, expected.means)
        np.testing.assert_array_equal(summary.counts, expected.counts)
        np.testing.assert_array_equal(summary.classes, expected.classes)
        assert (summary.total, summary.rows_sent) == (expected.total, expected.rows_sent)


def test_a_block_has_as_many_rows_as_the_test_above_takes_for_granted():
    assert rows_of_block(512, np.float64) == 512


def test_a_client_of_which_nothing_is_left_is_none_among_the_others():
    sent = Sender(FedNCM(), steps=(MinSamples(2),)).send_each(CLIENTS)
    assert [each and from_bytes(each.data).client_ids for each in sent] == [
        ("a",),
        None,
        ("c",),
        None,
    ]
    assert str(sent[0].withheld) == "1 classes and 1 samples"


def test_the_policy_asks_for_its_step_of_every_client():
    policy, sender = Policy(min_samples=2), Sender(FedNCM())
    assert policy.send_each(sender, CLIENTS) == alone(policy.guarded(sender), CLIENTS)


@pytest.mark.parametrize("method", [Fed3R(), CCVR(), FedCOFSketch(budget=0.5)])
def test_summaries_that_are_large_of_few_samples_are_made_one_by_one(method):
    # 300 clients of two samples took 2 GB, and of what was made all but a few was thrown away.
    assert [len(few) for few in Sender(method).a_few_at_a_time(CLIENTS)] == [1] * len(CLIENTS)


def test_a_few_clients_are_few_however_little_data_each_has():
    many = (Held(np.ones((1, 1), np.float32), np.array([0]), str(i)) for i in range(2000))
    sizes = [len(few) for few in Sender(FedCOF()).a_few_at_a_time(many)]
    assert sum(sizes) == 2000
    assert max(sizes) < 600


def test_a_client_whose_sum_overflows_is_named():
    # The means of all were checked at once, which names nobody.
    wrong = Held(np.full((3, 3), 1.5e308), np.zeros(3, np.int64), "b", NAMED)
    with np.errstate(over="ignore"), pytest.raises(SummaryError, match="client 'b'"):
        Sender(FedCOF()).send_each([held("a", 1), wrong, held("c", 1)])


def test_names_of_classes_of_any_length_go_together():
    names = (["x", "yy"], ["z" * 200, "x"], ["\N{CJK UNIFIED IDEOGRAPH-6F22}"])
    clients = [Held(np.ones((len(n), 3)), n, str(i), NAMED) for i, n in enumerate(names)]
    for steps in ((), (MinSamples(2, "merge", "other"),)):
        sender = Sender(FedCOF(), steps=steps)
        assert sender.send_each(clients) == alone(sender, clients)


def test_one_client_that_is_not_well_formed_is_named():
    wrong = held("b", 2)
    wrong.features[1, 2] = np.nan
    with pytest.raises(SummaryError, match=r"client 'b'.*NaN"):
        OPEN.send_each(Sender(FedCOF()), [held("a", 1), wrong, held("c", 1)])
