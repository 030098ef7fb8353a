"""A head from a stream equals that from memory."""

import pickle

import numpy as np
import pytest

from fedcof import from_bytes
from fedcof.errors import StreamingError, SummaryError
from fedcof.methods import METHODS, FedCOF, get_method
from fedcof.scale import Batch, Batches, in_process, solve
from fedcof.scale.solving import added
from fedcof.settings import settings_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::fedcof.errors.OddSiteWarning"),
    pytest.mark.filterwarnings("ignore::fedcof.errors.FewMeansWarning"),
]

SETTINGS = {
    "fedcof-linear-sketch": {"width": 5},
    "fedcof-sketch": {"rank": 2},
    "fedpft-diagonal": {"components": 2, "samples_per_class": 40},
    "fedpft-spherical": {"components": 2, "samples_per_class": 40},
    "ccvr": {"samples_per_class": 40},
    "stsa-e": {"means_per_class": 2},
}
"""Where the defaults are slow, or leave a part of the method out."""

PASSES = {
    "afl": 1,
    "ccvr": 3,
    "fed3r": 1,
    "fed3r-lossless": 1,
    "fedcgs": 1,
    "fedcof": 2,
    "fedcof-diagonal": 1,
    "fedcof-gated": 1,
    "fedcof-linear-sketch": 1,
    "fedcof-oracle": 1,
    "fedcof-pooled": 1,
    "fedcof-sketch": 2,
    "fedcof-spherical": 1,
    "fedcof-within": 1,
    "fedncm": 1,
    "fedpft-diagonal": 2,
    "fedpft-spherical": 2,
    "fedran": 1,
    "fishermix": 1,
    "gh-lda": 1,
    "gh-qda": 3,
    "slot-align": 6,
    "stsa-e": 2,
}
"""How often each reads the summaries here; `docs/scale.md` has the same in words."""


NAMES = [name for name, method in METHODS.items() if method.__module__.startswith("fedcof.")]
"""The methods of the package; other tests add theirs."""


@pytest.fixture(autouse=True)
def _few_classes_at_a_time(monkeypatch):
    monkeypatch.setattr("fedcof.methods.moments_in_turn.AT_A_TIME", 3)


def federation(method, *, clients=23, dim=6, classes=4, names=False, offset=5.0):
    """Return what clients send over the wire, each with some of the classes."""
    rng = np.random.default_rng(0)
    centres = offset + 3 * rng.normal(size=(classes, dim))
    parts = []
    for client in range(clients):
        own = rng.choice(classes, size=rng.integers(1, classes + 1), replace=False)
        labels = rng.choice(own, size=rng.integers(4, 30))
        features = centres[labels] + rng.normal(size=(len(labels), dim))
        texts = np.array([f"class {label}" for label in labels]) if names else labels
        sent = method.summarize(
            features.astype(np.float32), texts, client_id=f"site {client}", rng=rng
        )
        parts.append(from_bytes(sent.to_bytes()))
    return parts


def fragments(parts, size=4):
    return [Batch(parts[first : first + size], first) for first in range(0, len(parts), size)]


def close(first, second):
    np.testing.assert_array_equal(first.classes, second.classes)
    np.testing.assert_allclose(first.slopes, second.slopes, rtol=0, atol=1e-10)


def test_every_method_is_streamed():
    # A new method that does not say how it is streamed has no passes, and fails here.
    assert PASSES.keys() == set(NAMES)


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_streamed_head_is_that_of_memory(name, names):
    method, passes = get_method(name, **SETTINGS.get(name, {})), []
    parts = federation(method, names=names)

    def counted(task, given):
        passes.append(task)
        return map(task, given)

    whole = method.solve(parts)
    streamed = solve(method, fragments(parts[::-1]), engine=counted).head
    close(streamed, whole)
    assert len(passes) == PASSES[name]
    assert streamed.transform == whole.transform
    if name == "fedcof-sketch":  # its provenance has numbers that are chosen; see below
        return
    assert streamed.provenance == whole.provenance


@pytest.mark.parametrize("form", ["regression", "lda"])
@pytest.mark.parametrize("name", ["fedcof", "fedcof-pooled", "fedcof-oracle", "fed3r"])
def test_what_is_chosen_from_the_summaries_is_chosen_alike(name, form):
    automatic = "ridge" if name == "fed3r" else "shrinkage"
    method = get_method(name, **{automatic: "auto", "form": form})
    parts = federation(method)
    whole, streamed = method.solve(parts), solve(method, fragments(parts[::-1])).head
    close(streamed, whole)
    chosen = streamed.provenance.hyperparameters[automatic]
    assert chosen == pytest.approx(whole.provenance.hyperparameters[automatic], rel=1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"form": "regression", "priors": "counts"},
        {"rho": 0.3},
        {"shrinkage_relative": 0.2},
        {"rho": 0.3, "shrinkage": 0.1},
        {"rank": 0},
    ],
)
def test_sketches_are_streamed_with_what_is_chosen(settings):
    method = get_method("fedcof-sketch", **{"rank": 2, **settings})
    parts = federation(method)
    whole, streamed = method.solve(parts), solve(method, fragments(parts[::-1])).head
    np.testing.assert_allclose(streamed.slopes, whole.slopes, rtol=1e-9, atol=1e-9)
    for name, value in whole.provenance.hyperparameters.items():
        found = streamed.provenance.hyperparameters[name]
        assert found == (value if isinstance(value, str) else pytest.approx(value, rel=1e-9))
    two = solve(method, fragments(parts[:2])).head
    np.testing.assert_allclose(two.slopes, method.solve(parts[:2]).slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("fedcof", 3),
        ("fedcof-pooled", 2),
        ("fedcof-oracle", 2),
        ("fedcof-sketch", 3),
        ("fedcof-gated", 2),
        ("stsa-e", 3),
    ],
)
def test_means_far_from_zero_are_summed_once_more_about_those_of_their_classes(name, passes):
    method = get_method(name)
    parts, given = federation(method, offset=3000.0), []

    def counted(task, fragments):
        given.append(task)
        return map(task, fragments)

    head = solve(method, fragments(parts), engine=counted).head
    assert len(given) == passes
    np.testing.assert_allclose(head.slopes, method.solve(parts).slopes, rtol=1e-9, atol=1e-10)


def test_several_means_a_class():
    method = get_method("fedcof", means_per_class=3)
    parts = federation(method)
    whole, streamed = method.solve(parts), solve(method, fragments(parts)).head
    close(streamed, whole)
    assert streamed.provenance.hyperparameters == whole.provenance.hyperparameters


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_changes_no_bit(name):
    method = get_method(name, **SETTINGS.get(name, {}))
    parts = fragments(federation(method), size=3)

    def elsewhere(task, given):
        """Compute in another order, and send everything as bytes."""
        given = [pickle.loads(pickle.dumps(fragment)) for fragment in given]
        task = pickle.loads(pickle.dumps(task))
        results = {place: task(given[place]) for place in reversed(range(len(given)))}
        return iter([pickle.loads(pickle.dumps(results[place])) for place in range(len(given))])

    here = solve(method, parts, engine=in_process).head
    assert solve(method, parts, engine=elsewhere).head.to_bytes() == here.to_bytes()


def test_sums_of_far_features_lose_no_digits():
    method = get_method("fedcof")
    parts = federation(method, offset=1e4)
    close(solve(method, fragments(parts)).head, method.solve(parts))


def test_a_method_that_says_nothing_of_it_is_not_streamed():
    class Silent(FedCOF):
        def pool(self, parts):
            return super().pool(parts)

    with pytest.raises(StreamingError, match="without all summaries in memory: ") as caught:
        Silent().streamed()
    assert pickle.loads(pickle.dumps(caught.value)).name == "fedcof"


@pytest.mark.parametrize("name", [name for name in NAMES if "robust" in settings_of(METHODS[name])])
def test_a_robust_method_needs_all(name):
    with pytest.raises(StreamingError, match="robust"):
        solve(get_method(name, robust=True), [])


def test_a_client_in_two_fragments_is_named():
    parts = federation(get_method("fedcof"))
    with pytest.raises(
        SummaryError, match="'site 2': appears 2 times, in summary 2 of those given"
    ):
        solve(get_method("fedcof"), fragments([*parts, parts[2]]))


def test_clients_of_other_lengths_or_labels_are_named():
    method = get_method("fedcof")
    for other in (federation(method, clients=1, dim=7), federation(method, clients=1, names=True)):
        (odd,) = other
        parts = federation(method)[1:]
        with pytest.raises(SummaryError, match="client 'site 0': "):
            solve(method, fragments([*parts, odd]))
        with pytest.raises(SummaryError, match="client 'site 0': "):
            solve(method, fragments([*parts, odd], size=1000))


def test_other_origins_do_not_go_together():
    method = get_method("fedcof")
    parts = [
        part.with_origin({"backbone": str(place > 20)})
        for place, part in enumerate(federation(method))
    ]
    with pytest.raises(SummaryError, match="not of one backbone"):
        solve(method, fragments(parts))


def test_any_iterable_that_can_be_iterated_again():
    method = get_method("fedcof")
    parts = federation(method)
    close(solve(method, Batches(parts)).head, method.solve(parts))
    with pytest.raises(SummaryError, match="used up after one pass"):
        solve(method, Batches(iter(parts)))
    sums = get_method("fed3r")
    close(solve(sums, Batches(iter(federation(sums)))).head, sums.solve(federation(sums)))


@pytest.mark.parametrize("name", ["slot-align", "fedpft-diagonal", "ccvr", "gh-qda", "afl"])
def test_a_single_client_is_streamed(name):
    method = get_method(name, **SETTINGS.get(name, {}))
    labels = np.arange(40) % 4
    features = np.random.default_rng(0).normal(size=(40, 6)) + labels[:, None]
    parts = [method.summarize(features, labels, client_id="a", rng=0)]
    close(solve(method, fragments(parts)).head, method.solve(parts))


def test_a_transport_of_zero_takes_one_pass():
    method = get_method("slot-align", transport=0.0)
    parts = federation(method)
    close(solve(method, fragments(parts)).head, method.solve(parts))


def test_what_a_worker_is_sent_does_not_grow_with_the_classes():
    method, sizes = get_method("ccvr", samples_per_class=500), []

    def sent(task, given):
        sizes.append(len(pickle.dumps(task)))
        return map(task, given)

    solve(method, fragments(federation(method, classes=9)), engine=sent)
    assert len(sizes) == 4
    assert max(sizes) < 3000


def test_nothing_to_solve_from():
    with pytest.raises(SummaryError, match="no client is left"):
        solve(get_method("fed3r"), [])


def test_the_tree_depends_on_the_order_alone():
    assert added("", "".join) is None
    assert added("abcdefg", lambda a, b: f"({a}{b})") == "(((ab)(cd))((ef)g))"
