"""Every declared line of the paper's training, run for two rounds.

What is run is read off the declarations, and the way is that of ``fedcof reproduce --rounds 2``.
The images are few and small, the clients few, the networks of transformers tiny; all else is as
declared. Lines that differ in the name of the data set alone are run once.
"""

import pytest

pytest.importorskip("torch")

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from threadpoolctl import threadpool_limits

from fedcof.backbones import BACKBONES
from fedcof.client import Sender
from fedcof.data import Dirichlet, ImageSet
from fedcof.experiments import (
    EXPERIMENTS,
    Dealt,
    Experiment,
    FeatureSet,
    Results,
    Row,
    Setting,
    evaluate,
    load_features,
    run,
)
from fedcof.experiments.training import Federation
from fedcof.methods import CCVR
from fedcof.report.names import method_title
from fedcof.training import TrainingSettings, local
from fedcof.training.exchange import State
from tiny_networks import save_resnet, save_vit

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:transformers.*"),
]

ROUNDS = 2
CLASSES = 4
SIZE = 64
DIMS = {"squeezenet1.1": 512, "resnet18": 12, "vit-b-16": 16, "vit-b-32": 16}


@dataclass(frozen=True)
class Line:
    """A line as the paper has it, and as it is run here."""

    declared: Setting
    run: Setting

    @property
    def trained(self):
        """The declared training, None for a training-free line."""
        procedure = self.declared.procedure
        return procedure if procedure.trains else None

    @property
    def start(self):
        """The method that is run before the training, or alone."""
        procedure = self.run.procedure
        return procedure.start if procedure.trains else procedure.method


def small(setting):
    """Few clients, and few virtual features of CCVR."""
    dealing, procedure = setting.dealing, setting.procedure
    if isinstance(dealing, Dirichlet):
        prompts = procedure.trains and procedure.mode == "prompt"
        dealing = replace(dealing, clients=20 if prompts else 8)
    if procedure.trains and isinstance(procedure.start, CCVR):
        start = replace(procedure.start, samples_per_class=20)
        procedure = replace(procedure, start=start)
    return replace(setting, dataset="tiny", dealing=dealing, procedure=procedure)


def declared_lines():
    for experiment in EXPERIMENTS.values():
        if any(setting.procedure.trains for setting in experiment.settings()):
            short = experiment.shortened(ROUNDS).settings()
            for declared, cut in zip(experiment.settings(), short, strict=True):
                columns = declared.columns()
                name = f"{experiment.name}: {declared.dataset}, {method_title(columns)}"
                yield name, Line(declared, small(cut))


LINES = dict(declared_lines())
UNIQUE = {line.run: name for name, line in reversed(LINES.items())}
TRAINED = [name for setting, name in UNIQUE.items() if setting.procedure.trains]


def lines(names):
    return pytest.mark.parametrize("line", [pytest.param(LINES[name], id=name) for name in names])


@dataclass(eq=False)
class Training:
    """What was seen of a training: the model, and its states before, between and after."""

    federation: Federation
    settings: TrainingSettings
    states: list[State]


@dataclass(frozen=True, eq=False)
class Ran:
    """A line that was run."""

    row: Row
    training: Training | None
    data: FeatureSet
    dealt: Dealt


def tiny_images(number, seed):
    """Images with a brighter quarter, which tells the class of most; 5 a user.

    Every image is there twice and some of the second have another label: a head that fits all of
    them has no gradient left.
    """
    rng = np.random.default_rng(seed)
    quarter = np.arange(number // 2) % CLASSES
    pixels = rng.integers(0, 100, (number // 2, 2, 16, 2, 16, 3))
    pixels[np.arange(number // 2), quarter // 2, :, quarter % 2] += 150
    images = np.tile(pixels.reshape(-1, 32, 32, 3).astype(np.uint8), (2, 1, 1, 1))
    labels = np.concatenate([quarter, np.where(rng.random(number // 2) < 0.5, quarter, 0)])
    return ImageSet(images, labels, tuple("abcd"), {"user": np.arange(number) // 5})


def save_tiny_networks(folder):
    save_resnet(folder / "resnet18")
    save_vit(folder / "vit-b-16", patch_size=8)
    save_vit(folder / "vit-b-32", patch_size=16)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Tiny matrices are fastest without threads, above all where other work takes the cores."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def seen(patch):
    """What is trained while the tests run; looked at, not changed."""
    trainings = []
    train, accuracy = Federation.train, local.accuracy

    def watched_train(federation, settings, **options):
        trainings.append(Training(federation, settings, []))
        return train(federation, settings, **options)

    def watched_accuracy(model, samples, state):
        trainings[-1].states.append(state)
        return accuracy(model, samples, state)

    patch.setattr(Federation, "train", watched_train)
    patch.setattr(local, "accuracy", watched_accuracy)
    return trainings


@pytest.fixture(scope="module")
def run_line(tmp_path_factory, patch, seen):
    weights = tmp_path_factory.mktemp("weights")
    save_tiny_networks(weights)
    squeezenet = BACKBONES["squeezenet1.1"]

    def smaller(path):
        layout = squeezenet.layout(path)
        return replace(layout, preprocessing=replace(layout.preprocessing, size=SIZE))

    patch.setitem(BACKBONES, squeezenet.name, replace(squeezenet, layout=smaller))
    patch.setenv("FEDCOF_WEIGHTS", str(weights))
    patch.setenv("FEDCOF_CACHE", str(tmp_path_factory.mktemp("cache")))
    images = tiny_images(40, 0), tiny_images(12, 1)
    patch.setattr("fedcof.data.datasets.load", lambda name, data, reading: images)
    loaded = {}

    def load(dataset, backbone):
        if backbone not in loaded:
            loaded[backbone] = load_features(dataset, backbone)
        return loaded[backbone]

    def run_line(setting):
        results = Results(tmp_path_factory.mktemp("runs"))
        experiment = Experiment("one line", "", ((setting,),), seeds=1, short_rounds=ROUNDS)
        trained = len(seen)
        run([experiment], results, load)
        assert results.skipped() == []
        [row] = results.rows()
        train, test = loaded[setting.backbone].train, loaded[setting.backbone].test
        partition = setting.dealing.deal(train.labels, train.columns, 0)
        dealt = Dealt(train.features, train.labels, partition, test.features, test.labels)
        training = seen[-1] if len(seen) > trained else None
        return Ran(row, training, loaded[setting.backbone], dealt)

    return run_line


@pytest.fixture(scope="module")
def runs():
    return {}


@pytest.fixture
def ran(line, run_line, runs):
    if line.run not in runs:
        runs[line.run] = run_line(line.run)
    return runs[line.run]


def rounds_of(row, stage):
    return [each for each in row.measured.get("rounds", []) if each["stage"] == stage]


@lines(LINES)
def test_line_gives_finite_numbers_after_all_of_its_rounds(line, ran):
    assert 0 <= ran.row.measured["accuracy"] <= 1
    assert ran.row.setting["method"] == line.declared.columns()["method"]
    if not line.trained:
        return
    trained = rounds_of(ran.row, "training")[1:]
    assert len(trained) == ROUNDS
    assert all(np.isfinite(each["loss"]) and not each["refused"] for each in trained)
    assert bool(rounds_of(ran.row, "training-free")) == (line.start is not None)
    numbers = [each["number"] for each in ran.row.measured["rounds"]]
    assert numbers == list(range(0 if line.start is None else 1, 1 + numbers[-1]))


@lines(TRAINED)
def test_training_is_the_declared_one_but_for_the_rounds(line, ran):
    assert ran.training.settings == replace(line.trained.training, rounds=ROUNDS)
    assert {"probe": 1, "finetune": 10, "prompt": 2}[line.trained.mode] <= len(
        ran.training.states[0]
    )


@lines(TRAINED)
def test_bytes_are_those_of_the_formula(line, ran):
    declared, dim = line.trained, DIMS[line.run.backbone]
    pools = [len(state.get("backbone.prompts", ())) for state in ran.training.states]
    assert pools[0] == (declared.pool_size or 0)
    fixed = CLASSES * dim
    if isinstance(declared.start, CCVR):
        fixed += CLASSES  # its head has a bias
    if declared.mode == "finetune":
        fixed += network_size(line.run.backbone, ran)
    sizes = [fixed + dim * pool for pool in pools[:-1]]
    held = sum(len(rows) > 0 for _, rows in ran.dealt.partition)
    chosen = max(1, round(declared.training.participation * held))
    free = rounds_of(ran.row, "training-free")
    before = free[-1]["formula_bytes"] if free else 0
    measured = ran.row.measured
    assert measured["formula_bytes"] == before + sum(2 * size * chosen * 4 for size in sizes)
    assert measured["wire_bytes"] > measured["formula_bytes"]


def network_size(backbone, ran):
    if backbone == "squeezenet1.1":
        return 722_496
    return sum(p.numel() for p in ran.training.federation.model.backbone.parameters())


@lines(TRAINED)
def test_what_is_trained_moves_in_every_round(line, ran):
    states = ran.training.states
    assert len(states) == ROUNDS + 1
    for before, after in pairwise(states):
        moved = {name for name in before if not np.array_equal(before[name], after[name])}
        assert "head.weight" in moved
        # The first layers of random weights have gradients below the resolution of float32.
        assert len(moved) > len(before) / 2


@lines(name for name in TRAINED if LINES[name].trained.training.strategy == "fedadam")
def test_fedadam_steps_by_its_learning_rate_on_the_server(line, ran):
    first, second, *_ = ran.training.states
    moved = np.abs(second["head.weight"] - first["head.weight"])
    assert 0.1 < moved.max() / line.trained.training.server_lr < 5


@lines(name for name in UNIQUE.values() if LINES[name].start)
def test_training_free_rounds_end_with_the_head_of_the_method(line, ran):
    result, _ = evaluate(Sender(line.start.seeded(0)), ran.dealt)
    last = rounds_of(ran.row, "training-free")[-1] if line.trained else ran.row.measured
    assert last["accuracy"] == result.accuracy
    assert last["formula_bytes"] == result.formula_bytes
    assert last["wire_bytes"] == result.wire_bytes


@lines(name for name in TRAINED if LINES[name].start)
def test_training_starts_where_the_head_stands(line, ran):
    start = rounds_of(ran.row, "training")[0]
    assert start["accuracy"] == rounds_of(ran.row, "training-free")[-1]["accuracy"]
    assert start["loss"] is None


KINDS = {
    (setting.backbone, trained.mode, trained.pretrained, trained.training.strategy): name
    for name, setting, trained in (
        (name, LINES[name].run, LINES[name].trained) for name in reversed(TRAINED)
    )
}


@lines(KINDS.values())
def test_the_same_seed_gives_the_same_row(line, ran, run_line):
    again = run_line(line.run).row
    assert again.key == ran.row.key
    assert {**again.measured, "seconds": 0} == {**ran.row.measured, "seconds": 0}
