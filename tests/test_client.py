"""The one path from features to bytes."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedcof import Fed3R, FedCOF, FedCOFOracle, FedNCM, SummaryError, from_bytes, merge
from fedcof.client import STEPS, Sender, Step
from fedcof.errors import HeadError, SettingError
from fedcof.heads import LinearHead
from fedcof.settings import setting
from fedcof.transforms import NO_TRANSFORM, PowerTransform, RandomFeatures, Standardize, chain
from fedcof.wire import decode, encode

FEATURES = np.arange(12.0).reshape(6, 2)
LABELS = [0, 0, 1, 1, 2, 2]


def test_what_is_sent_is_the_summary_of_the_method_in_bytes():
    sent = Sender(FedNCM()).send(FEATURES, LABELS, client_id="a")
    assert sent.data == FedNCM().summarize(FEATURES, LABELS, client_id="a").to_bytes()
    assert sent.wire_bytes == len(sent.data)
    assert sent.formula_bytes == 4 * 3 * 2


def test_a_client_draws_from_the_seed_and_its_id():
    sender = Sender(FedCOF(means_per_class=2), seed=3)
    labels = [0] * 6
    first, again, other_client, other_seed = (
        one.send(FEATURES, labels, client_id=name).data
        for one, name in (
            (sender, "a"),
            (sender, "a"),
            (sender, "b"),
            (replace(sender, seed=4), "a"),
        )
    )
    assert first == again
    means = {from_bytes(data).means.tobytes() for data in (first, other_client, other_seed)}
    assert len(means) > 1


def test_an_unknown_coding_is_refused_with_those_known():
    with pytest.raises(ValueError, match=r"no coding is called 'float33'.* float32"):
        Sender(FedNCM(), coding="float33")


def test_settings_are_all_that_a_client_must_know():
    sender = Sender(FedCOF(shrinkage=0.1, means_per_class=4), seed=5)
    assert sender.settings() == {
        "method": "fedcof",
        "client_settings": {"means_per_class": 4},
        "seed": 5,
        "coding": "float32",
        "transform": "none",
        "steps": [],
    }
    assert Sender.from_settings(sender.settings()) == Sender(FedCOF(means_per_class=4), seed=5)


@pytest.fixture
def every_other():
    """A step, registered while the test runs."""

    @dataclass(frozen=True)
    class Every(Step):
        name = "every"
        nth: int = 2

        def __call__(self, summary, rng):
            return None if summary.total < self.nth else summary.with_origin({"step": "done"})

    yield Every
    del STEPS["every"]


def test_steps_stand_between_the_summary_and_its_bytes(every_other):
    sender = Sender(FedNCM(), steps=(every_other(3),))
    assert sender.send(FEATURES[:2], LABELS[:2]) is None
    assert from_bytes(sender.send(FEATURES, LABELS).data).origin == {"step": "done"}
    assert sender.settings()["steps"] == [{"name": "every", "nth": 3}]
    assert Sender.from_settings(sender.settings()) == sender


class TestOrigin:
    def sent(self, client_id, origin):
        features = FEATURES + len(client_id)
        return Sender(FedCOF()).send(features, LABELS, client_id=client_id, origin=origin).data

    def test_it_goes_over_the_wire_and_stands_in_the_head(self):
        summaries = [from_bytes(self.sent(name, {"backbone": "ab12"})) for name in ("a", "bb")]
        assert summaries[0].origin == {"backbone": "ab12"}
        assert merge(summaries).origin == {"backbone": "ab12"}
        assert FedCOF().solve(summaries).provenance.origin == {"backbone": "ab12"}

    def test_two_backbones_are_refused_and_the_clients_named(self):
        summaries = [
            from_bytes(self.sent(name, {"backbone": fingerprint}))
            for name, fingerprint in (("a", "ab12"), ("bb", "ab12"), ("ccc", "cd34"))
        ]
        with pytest.raises(
            SummaryError, match=r"'a', 'bb' have ab12, clients 'ccc' have cd34"
        ) as e:
            FedCOF().solve(summaries)
        assert e.value.code == "backbone"

    def test_a_plain_table_goes_with_any(self):
        summaries = [
            from_bytes(self.sent("a", {"backbone": "ab12"})),
            from_bytes(self.sent("b", {})),
        ]
        assert FedCOF().solve(summaries).provenance.origin == {"backbone": "ab12"}

    @pytest.mark.parametrize(
        "origin",
        [{"backbone": ""}, {"backbone": 7}, {"b": "x" * 201}, {str(i): "x" for i in range(9)}],
    )
    def test_an_origin_that_is_none_is_refused(self, origin):
        with pytest.raises(SummaryError, match="fingerprints") as caught:
            FedNCM().summarize(FEATURES, LABELS).with_origin(origin)
        assert caught.value.code == "origin"


def test_a_head_of_version_0_1_0_loads(tmp_path):
    from fedcof.wire import encode

    provenance = {
        "method": "fedcof",
        "hyperparameters": {"shrinkage": 1.0},
        "clients": 2,
        "samples": 4,
        "bytes": 48,
        "iterations": 0,
    }
    metadata = {"kind": "head-1", "classes": [0, 1], "provenance": provenance}
    (tmp_path / "head").write_bytes(encode({"weight": np.eye(2)}, metadata))
    head = LinearHead.load(tmp_path / "head")
    assert (head.provenance.formula_bytes, head.provenance.origin) == (48, {})
    (tmp_path / "head").write_bytes(encode({"weight": np.eye(2)}, metadata | {"kind": "head-9"}))
    with pytest.raises(HeadError, match="head-9"):
        LinearHead.load(tmp_path / "head")


def test_steps_may_have_a_base_without_a_name_and_their_settings_are_checked():
    known = set(STEPS)

    class Base(Step):
        pass

    assert set(STEPS) == known

    @dataclass(frozen=True)
    class Clip(Base):
        name = "test-clip"
        norm: float = setting(1.0, "Largest norm.", above=0)

        def __call__(self, summary, rng):
            return summary

    job = {**Sender(FedNCM()).settings(), "steps": [{"name": "test-clip", "norm": 0.0}]}
    with pytest.raises(SettingError, match="norm must be a finite number, above 0"):
        Sender.from_settings(job)


def test_a_hyperparameter_of_numpy_travels_in_the_settings():
    settings = Sender(FedCOF(means_per_class=np.int64(2))).settings()
    assert Sender.from_settings(json.loads(json.dumps(settings))).method == FedCOF(
        means_per_class=2
    )


class TestTransform:
    transform = chain(PowerTransform(0.5), Standardize(), RandomFeatures(6))

    def sent(self, client_id="a", transform=transform, features=FEATURES):
        sender = Sender(FedCOF(), transform=transform)
        return from_bytes(sender.send(features + len(client_id), LABELS, client_id=client_id).data)

    def test_it_comes_before_the_method_and_what_is_sent_says_it(self):
        summary = self.sent()
        own = FedCOF().summarize(self.transform(FEATURES + 1), LABELS)
        np.testing.assert_array_equal(summary.means, own.means.astype(np.float32))
        bound = f"power:0.5+standardize+random-features:6:0:relu:{FEATURES.shape[1]}"
        assert summary.origin == {"transform": bound}

    def test_the_head_takes_features_as_they_are(self, tmp_path):
        head = FedCOF().solve([self.sent(), self.sent("bb")])
        assert (head.dim, head.weight.shape[1]) == (FEATURES.shape[1], 6)
        assert str(head.transform) == head.provenance.origin["transform"]
        scores = head.decision_function(FEATURES)
        np.testing.assert_array_equal(scores, self.transform(FEATURES) @ head.weight.T)
        head.save(tmp_path / "head")
        again = LinearHead.load(tmp_path / "head")
        assert again.transform == head.transform
        np.testing.assert_array_equal(again.decision_function(FEATURES), scores)

    def test_summaries_of_different_transforms_are_refused_together(self):
        for other in (NO_TRANSFORM, PowerTransform(0.5)):
            with pytest.raises(SummaryError, match="the features are not of one transform") as e:
                FedNCM().solve([self.sent(transform=Standardize()), self.sent("bb", other)])
            assert e.value.code == "transform"

    def test_random_features_of_features_of_different_lengths_are_refused_together(self):
        with pytest.raises(SummaryError, match="random-features:6:0:relu:1"):
            FedNCM().solve([self.sent(), self.sent("bb", features=FEATURES[:, :1])])

    def test_features_that_are_none_are_refused_before_they_are_transformed(self):
        with pytest.raises(SummaryError, match="client 'a': features holds NaN"):
            Sender(FedNCM(), transform=self.transform).send(
                np.full((2, 3), np.nan), [0, 1], client_id="a"
            )

    def test_the_expected_bytes_are_those_of_what_is_sent(self):
        for coding in ("float32", "float16", "int8", "int4"):
            sender = Sender(FedCOF(), coding=coding, transform=self.transform)
            sent = sender.send(FEATURES, LABELS, client_id="a", origin={"backbone": "ab"})
            expected = sender.expected_bytes(
                np.unique(LABELS), FEATURES.shape[1], client_id="a", origin={"backbone": "ab"}
            )
            assert expected == (sent.formula_bytes, sent.wire_bytes)

    def test_it_travels_in_the_settings(self):
        sender = Sender(FedCOF(), transform=self.transform, coding="means=int8")
        assert sender.settings()["transform"] == "power:0.5+standardize+random-features:6:0:relu"
        assert Sender.from_settings(sender.settings()) == sender


@pytest.mark.parametrize("method", [FedNCM(), FedCOF(), Fed3R(), FedCOFOracle()])
@pytest.mark.parametrize("coding", ["float16", "int8", "int4"])
def test_any_method_in_any_coding(method, coding):
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=60)
    features = rng.normal(size=(60, 5)) + 4 * np.eye(2, 5)[labels]
    sender = Sender(method, coding=coding)
    parts = [
        from_bytes(sender.send(features[k::3], labels[k::3], client_id=str(k)).data)
        for k in range(3)
    ]
    assert method.solve(parts).score(features, labels) > 0.9


def test_a_summary_says_its_coding_and_is_checked():
    data = Sender(FedNCM(), coding="means=int4").send(FEATURES, LABELS).data
    assert b'\\"coding\\": \\"means=int4\\"' in data
    assert from_bytes(data).means.shape == (3, FEATURES.shape[1])
    with pytest.raises(SummaryError, match="unknown coding 'meons=int4': no array is called 'meon"):
        from_bytes(data.replace(b"means=int4", b"meons=int4"))


@pytest.mark.parametrize("coding", ["float16", "int8", "int4"])
@pytest.mark.parametrize("rows", [1, 20])
def test_codes_that_overflow_are_refused_where_they_arrive(coding, rows):
    features = np.arange(rows * 4.0).reshape(rows, 4) + 3
    data = FedNCM().summarize(features, range(rows)).to_bytes(coding)
    arrays, metadata = decode(data)
    [name] = [name for name in arrays if name.startswith("means")]
    arrays[name] = arrays[name].copy()
    arrays[name][:, :2] = 0x7F  # the scale of every row: 3.4e38
    with pytest.raises(SummaryError, match="means holds NaN or infinity"):
        from_bytes(encode(arrays, metadata))


def test_integers_of_all_arrays_leave_matrices_that_are_inverted_in_float16():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=300)
    features = 1 + rng.normal(size=(300, 20)) * np.geomspace(0.3, 2, 20)
    features += np.eye(3, 20)[labels]
    parts = {}
    for coding in ("int8", "int4", "gram=int8"):
        data = Sender(Fed3R(), coding=coding).send(features, labels).data
        parts[coding] = from_bytes(data)
    for coding in ("int8", "int4"):
        assert decode(parts[coding].to_bytes(coding))[0]["gram"].shape == (20, 2 + 2 * 20)
        assert Fed3R().solve([parts[coding]]).score(features, labels) > 0.9
    as_asked = decode(parts["gram=int8"].to_bytes("gram=int8"))[0]
    assert as_asked["gram"].shape == (20, 2 + 20)
