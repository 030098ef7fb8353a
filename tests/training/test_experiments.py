"""Training-free rounds and training in one process, the declared experiments, and the command."""

import pytest

pytest.importorskip("torch")

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import torch
from typer.testing import CliRunner

from fedcof import FedCOF, FedNCM, HeadError, LinearHead
from fedcof.backbones import resolve
from fedcof.backbones.torch_backbone import network
from fedcof.cli import app
from fedcof.client import Sender
from fedcof.data import Dirichlet, FeatureTable, ImageSet, Partition
from fedcof.experiments import (
    Experiment,
    FeatureSet,
    Results,
    SettingGrid,
    Training,
    get_experiment,
    run,
)
from fedcof.experiments.training import (
    Federation,
    deal_features,
    on_images,
    probing,
    subset,
    training_free_rounds,
    with_temperature,
)
from fedcof.prediction import backbone_of
from fedcof.training import TrainingSettings, best, load_history
from fedcof.training.heads import random_head
from fedcof.training.trained import TrainedModel

pytestmark = pytest.mark.slow

TRAINED = (
    "table_ft_sqnet",
    "table_lp2",
    "fig_ft",
    "fig_lp",
    "fig_sq_lp",
    "ccvr-table2",
    "table_pre-training",
    "table_ft",
    "pfpt-table",
)
QUICK = TrainingSettings(rounds=3, client_lr=0.05, batch_size=8)


def test_the_last_training_free_round_has_the_head_of_all_clients(dealt):
    head, rounds, summaries = training_free_rounds(Sender(FedCOF(), QUICK.seed), dealt, QUICK)
    whole = FedCOF().solve(summaries)
    assert head.weight.tobytes() == whole.weight.tobytes()
    assert sum(one.clients for one in rounds) == 8
    assert rounds[-1].accuracy == whole.score(dealt.test_features, dealt.test_labels)
    assert rounds[-1].formula_bytes == whole.provenance.formula_bytes


def test_one_history_has_both_stages(dealt):
    head, free, _ = training_free_rounds(Sender(FedCOF(), QUICK.seed), dealt, QUICK)
    _, history = probing(dealt, head).train(QUICK, history=free)
    assert [one.number for one in history] == list(range(1, len(free) + 5))
    assert history[len(free)].accuracy == free[-1].accuracy
    assert history[len(free)].formula_bytes == free[-1].formula_bytes
    megabytes = [one.wire_bytes for one in history]
    assert megabytes == sorted(megabytes)


def test_a_temperature_scales_the_head_and_is_told(dealt):
    head, _, summaries = training_free_rounds(Sender(FedNCM(), QUICK.seed), dealt, QUICK)
    scaled = with_temperature(head, summaries)
    factor = scaled.provenance.hyperparameters["temperature"]
    np.testing.assert_allclose(scaled.weight, factor * head.weight)


def test_a_head_of_other_classes_is_refused_before_anything_is_trained(dealt):
    with pytest.raises(HeadError, match="only in the data"):
        probing(dealt, LinearHead(np.ones((2, 6)), np.arange(2)))


def test_fine_tuning_from_fedcof_beats_a_random_head_after_the_same_rounds():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 8)
    pixels = rng.integers(0, 80, (32, 32, 32, 3))
    for c in range(4):  # a class is a bright quarter of the image
        rows, columns = divmod(c, 2)
        pixels[labels == c, 16 * rows : 16 * rows + 16, 16 * columns : 16 * columns + 16] += 150
    images = ImageSet(pixels.astype(np.uint8), labels, tuple("abcd"))
    test, partition = images, Partition(np.arange(32) % 4, tuple("wxyz"))
    settings = TrainingSettings(rounds=2, client_lr=1e-4, participation=0.5)
    net = network("squeezenet1.1", preprocessing={"size": 64})
    dealt = deal_features(images, test, partition, net)
    fedcof, _, _ = training_free_rounds(Sender(FedCOF(), settings.seed), dealt, settings)
    ends = []
    for head in (fedcof, random_head(512, labels, seed=0)):
        net = network("squeezenet1.1", preprocessing={"size": 64})
        federation = on_images(images, test, partition, net, head)
        ends.append(federation.train(settings)[1][-1].accuracy)
    assert ends[0] > ends[1] + 0.2


@pytest.mark.parametrize("name", TRAINED)
def test_every_experiment_of_training_is_declared_with_sound_settings(name):
    experiment = get_experiment(name)
    settings = experiment.settings()
    labels = {setting.columns()["method"] for setting in settings}
    for paper in experiment.paper:
        method = paper.columns.index("method")
        assert {cell[method] for cell in paper.cells} <= labels
    columns = [json.dumps(setting.columns(), sort_keys=True) for setting in settings]
    assert len(set(columns)) == len(columns)


def _features(rng, number, dim=6, classes=3):
    labels = rng.integers(classes, size=number)
    features = rng.normal(size=(number, dim)) + 2 * np.eye(classes, dim)[labels]
    return FeatureTable(features.astype(np.float32), labels, tuple("abc"))


def test_an_experiment_runs_with_few_rounds_and_is_not_run_twice(tmp_path):
    rng = np.random.default_rng(0)
    data = FeatureSet(_features(rng, 120), _features(rng, 60), "0")
    declared = get_experiment("fig_sq_lp")
    [grid] = declared.grids
    runs = tuple(
        replace(each, training=replace(each.training, rounds=2, batch_size=8))
        for each in grid.procedures
    )
    small = SettingGrid(("cifar100",), grid.backbones, (Dirichlet(6, 1.0),), runs)
    experiment = replace(declared, grids=(small,), seeds=1)
    results = Results(tmp_path)
    run([experiment], results, lambda dataset, backbone: data)
    rows = results.rows("fig_sq_lp")
    assert [row.setting["method"] for row in rows] == [each.label for each in runs]
    assert all({"accuracy", "wire_bytes", "rounds"} <= row.measured.keys() for row in rows)
    run([experiment], results, lambda dataset, backbone: pytest.fail("run again"))


def test_fine_tuning_on_a_cpu_is_skipped_and_says_what_it_takes(tmp_path):
    rng = np.random.default_rng(0)
    data = FeatureSet(_features(rng, 120), _features(rng, 60), "0")
    results = Results(tmp_path)
    experiment = replace(get_experiment("ccvr-table2").on("cars", None), seeds=1)
    run([experiment], results, lambda dataset, backbone: data)
    assert not results.rows()
    assert "--device cuda" in results.skipped("ccvr-table2")[0].reason


def probed(rounds):
    """The probing from FedCOF as an experiment of one row on six clients."""
    line = get_experiment("fig_sq_lp").settings()[-1]
    training = replace(line.procedure.training, rounds=rounds, batch_size=8)
    procedure = replace(line.procedure, training=training)
    setting = replace(line, procedure=procedure, dealing=Dirichlet(6, 1.0))
    return Experiment("probed", "", ((setting,),), seeds=1)


@pytest.fixture
def load():
    rng = np.random.default_rng(0)
    data = FeatureSet(_features(rng, 120), _features(rng, 60), "0")
    return lambda dataset, backbone: data


def test_a_run_of_fewer_rounds_is_another_row(load, tmp_path):
    results = Results(tmp_path)
    run([probed(2)], results, load)
    run([probed(3)], results, load)
    assert [row.setting["rounds"] for row in results.rows()] == [2, 3]
    assert [row.measured["rounds"][-1]["number"] for row in Results(tmp_path).rows()] == [
        row.measured["rounds"][-1]["number"] for row in results.rows()
    ]


def test_a_training_that_was_stopped_goes_on_at_its_checkpoint(load, tmp_path, monkeypatch):
    whole, stopped = Results(tmp_path / "whole"), Results(tmp_path / "stopped")
    run([probed(12)], whole, load)
    told = []

    def stop(advance, title, one):
        if len(told) == 12:  # the start and eleven rounds; the tenth was kept
            raise KeyboardInterrupt
        told.extend([one] if one.stage == "training" else [])

    with monkeypatch.context() as patch:
        patch.setattr("fedcof.experiments.runner._show_round", stop)
        with pytest.raises(KeyboardInterrupt):
            run([probed(12)], stopped, load)
    assert not stopped.rows()
    assert list((tmp_path / "stopped").glob("unfinished-*"))
    updates = []
    original = Federation.train

    def counted(federation, settings, **options):
        assert options["checkpoint"].exists()
        updates.append(settings)
        return original(federation, settings, **options)

    monkeypatch.setattr(Federation, "train", counted)
    run([probed(12)], stopped, load)
    [expected], [row] = whole.rows(), stopped.rows()
    assert len(updates) == 1
    assert row.measured["rounds"] == expected.measured["rounds"]
    assert not list((tmp_path / "stopped").glob("unfinished-*"))


@pytest.mark.parametrize("name", TRAINED)
def test_a_short_run_has_rows_of_its_own_and_no_number_of_the_paper(name):
    declared = get_experiment(name)
    short = declared.shortened(2)
    assert short.name == declared.name
    assert short.title == f"{declared.title} (short run)"
    assert short.paper == ()
    for whole, cut in zip(declared.settings(), short.settings(), strict=True):
        assert short.columns(cut)["short_rounds"] == 2
        assert "short_rounds" not in declared.columns(whole)
        if whole.procedure.trains:
            training = whole.procedure.training
            assert cut.procedure.training == replace(training, rounds=2)
        else:
            assert cut == whole


def test_a_short_run_stands_apart_on_the_terminal_and_on_the_page(images_folder, tmp_path):
    options = ["--dataset", f"folder:{images_folder}", "--rounds", "2"]
    options += ["--out", str(tmp_path / "runs")]
    done = CliRunner().invoke(app, ["reproduce", "fig_sq_lp", *options])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "short run" in said
    assert "training stops after 2 rounds" in said
    assert "paper" not in said
    rows = Results(tmp_path / "runs").rows()
    assert [row.setting["method"] for row in rows] == [
        "fedavg-lp",
        "fedncm+fedavg-lp",
        "fed3r+fedavg-lp",
        "fedcof+fedavg-lp",
    ]
    assert {(row.experiment, row.short_rounds) for row in rows} == {("fig_sq_lp", 2)}
    written = ["--paper", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, ["report", str(tmp_path / "runs"), *written]).exit_code == 0
    page = tmp_path / "report.html"
    assert "(short run)" in page.read_text()
    assert 'id="fig_sq_lp-rounds-2"' in page.read_text()
    assert "--rounds 2" in page.read_text()
    assert not list((tmp_path / "paper").iterdir())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["table1", "--rounds", "2"], "table1 trains nothing"),
        (["table_lp2", "--rounds", "0"], "0 is not in the range"),
        (["table_lp2", "--device", "cuda"], "torch sees no device 'cuda'"),
    ],
)
def test_a_run_that_cannot_be_is_refused(options, text, tmp_path):
    if torch.cuda.is_available() and "cuda" in options:
        pytest.skip("there is one")
    done = CliRunner().invoke(app, ["reproduce", *options, "--out", str(tmp_path)])
    assert done.exit_code != 0
    assert text in " ".join(done.output.split())


def test_the_device_reaches_the_network(load, tmp_path, monkeypatch):
    devices = []

    def measure(procedure, clients, execution):
        devices.append(execution.device)
        return {"accuracy": 0.0}

    monkeypatch.setattr(Training, "measure", measure)
    experiment = replace(get_experiment("ccvr-table2").on("cars", None), seeds=1)
    run([experiment], Results(tmp_path), load, device="cuda")
    assert devices == ["cuda"] * 4


@pytest.fixture
def images_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("FEDCOF_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "images"
    from PIL import Image

    rng = np.random.default_rng(0)
    for name, level in {"dark": 0, "light": 150}.items():
        (data / name).mkdir(parents=True)
        for k in range(8):
            pixels = rng.integers(level, level + 100, (32, 32, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(data / name / f"{k}.png")
    return data


@pytest.fixture
def train(images_folder, tmp_path):
    def invoke(*options, out="out"):
        arguments = [
            "train",
            "--dataset",
            f"folder:{images_folder}",
            "--clients",
            "3",
            "--rounds",
            "2",
        ]
        arguments += ["--alpha", "100", "--out", str(tmp_path / out), *options]
        return CliRunner().invoke(app, arguments)

    return invoke


def test_the_command_probes_saves_logs_and_goes_on(train, tmp_path):
    done = train("--log-dir", str(tmp_path / "logs"))
    assert done.exit_code == 0, done.output
    assert "training-free" in done.output
    head = LinearHead.load(tmp_path / "out" / "head.safetensors")
    assert head.weight.shape == (2, 512)
    assert list((tmp_path / "logs").iterdir())
    history = load_history(tmp_path / "out" / "history.json")
    assert train("--rounds", "3").exit_code == 0
    longer = load_history(tmp_path / "out" / "history.json")
    assert longer[: len(history)] == history
    assert len(longer) == len(history) + 1
    again = train("--start", str(tmp_path / "out" / "head.safetensors"), out="again")
    assert again.exit_code == 0, again.output
    for out in ("out", "again"):
        head = LinearHead.load(tmp_path / out / "head.safetensors")
        assert backbone_of(head).name == "squeezenet1.1"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--start", "nowhere.safetensors"], "no such file"),
        (["--strategy", "pfpt"], "mode must be prompt with pfpt"),
        (["--rounds", "0"], "--rounds must be an integer, at least 1, it is 0"),
        (["--target", "50"], "--target must be a finite number, above 0 and at most 1, it is 50"),
        (["--start", "random", "--temperature"], "--temperature is for a --start that is a method"),
        (["--start", "random", "--ridge", "1"], "--ridge is for a --start that is a method"),
        (["--from-scratch"], "needs --mode finetune"),
        (["--precision", "bf16"], "--precision is float32 with --mode probe"),
        (["--start", "fedncm", "--shrinkage", "1"], "fedncm has no shrinkage"),
        (["--strategy", "fedadam"], "server-lr"),
        (["--mode", "prompt"], "need a ViT"),
        (["--client-lr", "1e40", "--start", "random"], "NaN or infinity"),
    ],
)
def test_the_command_says_what_is_wrong(train, options, text):
    done = train(*options)
    assert done.exit_code == 1
    assert text in " ".join(done.output.split())


def test_the_model_of_the_best_round_is_saved(train, tmp_path):
    options = ["--start", "random", "--client-lr", "10", "--rounds", "4", "--keep", "best"]
    done = train(*options)
    assert done.exit_code == 0, done.output
    kept = best(load_history(tmp_path / "out" / "history.json"))
    assert f"kept: round {kept.number}, accuracy {kept.accuracy:.1%}" in done.output
    assert (tmp_path / "out" / "head.safetensors").exists()


def test_a_head_is_probed_on_a_backbone_that_is_an_onnx_model(train, tmp_path):
    model = tmp_path / "mine.onnx"
    model.write_bytes(resolve("squeezenet1.1").onnx_model())
    done = train("--backbone", str(model))
    assert done.exit_code == 0, done.output
    refused = train("--backbone", str(model), "--mode", "finetune", out="finetuned")
    assert refused.exit_code == 1
    assert "an ONNX model only computes features" in " ".join(refused.output.split())


def test_clients_of_training_are_dealt_by_any_scheme(train):
    done = train("--start", "random", "--partition", "class-wise")
    assert done.exit_code == 0, done.output
    again = train("--start", "random")
    assert again.exit_code == 1
    assert "'partition': 'class-wise'" in " ".join(again.output.split())


def test_training_needs_no_flower(images_folder, tmp_path):
    code = "import sys; sys.modules['flwr'] = None; from fedcof.cli import app; app()"
    options = ["--dataset", f"folder:{images_folder}", "--clients", "3", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, "-c", code, "train", *options, "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "head.safetensors").exists()


@pytest.mark.parametrize("option", ["--mode", "--strategy", "--optimizer", "--keep"])
def test_a_choice_that_there_is_not_is_refused_with_those_that_there_are(train, option):
    done = train(option, "guess")
    assert done.exit_code == 2
    assert f"Invalid value for '{option}': 'guess' is not one of" in " ".join(done.output.split())


def test_another_partition_does_not_go_on_from_the_checkpoint_of_the_first(train):
    assert train("--start", "random").exit_code == 0
    other = train("--start", "random", "--alpha", "0.5")
    assert other.exit_code == 1
    assert "'alpha': 100" in " ".join(other.output.split())


def test_a_run_that_goes_on_has_each_round_once_in_tensorboard(train, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logs = str(tmp_path / "logs")
    for rounds in ("2", "3"):
        assert train("--start", "random", "--rounds", rounds, "--log-dir", logs).exit_code == 0
    events = EventAccumulator(logs).Reload()
    assert [event.step for event in events.Scalars("accuracy")] == [0, 1, 2, 3]
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3]


def test_a_head_of_another_length_is_refused_by_the_command(train, tmp_path):
    LinearHead(np.ones((2, 5)), np.arange(2)).save(tmp_path / "short.safetensors")
    done = train("--start", str(tmp_path / "short.safetensors"))
    assert done.exit_code == 1
    assert "length 5" in " ".join(done.output.split())


def test_rounds_between_two_measurements_have_no_accuracy(train, tmp_path):
    done = train("--rounds", "3", "--evaluate-every", "2")
    assert done.exit_code == 0, done.output
    rounds = [r for r in load_history(tmp_path / "out" / "history.json") if r.loss is not None]
    assert [np.isnan(r.accuracy) for r in rounds] == [
        True,
        False,
        False,
    ]  # the last one is measured


@pytest.mark.slow
def test_fine_tuning_in_bfloat16_is_near_that_in_float32(train, tmp_path):
    tuning = ["--mode", "finetune", "--start", "random", "--image-size", "32", "--rounds", "1"]
    tuning += ["--client-lr", "1e-4"]
    states = []
    for precision in ("float32", "bf16"):
        done = train(*tuning, "--precision", precision, out=precision)
        assert done.exit_code == 0, done.output
        states.append(TrainedModel.load(tmp_path / precision / "model.safetensors").state)
    exact, rounded = (np.concatenate([s[name].ravel() for name in sorted(s)]) for s in states)
    assert rounded.dtype == np.float32
    difference = np.linalg.norm(rounded - exact) / np.linalg.norm(exact)
    assert 0 < difference < 1e-3
    other = train(*tuning, out="bf16")
    assert "'precision': 'bf16'" in " ".join(other.output.split())


def test_features_are_extracted_on_the_device_that_trains(train, monkeypatch):
    from fedcof import backbones

    devices, get = [], backbones.get
    monkeypatch.setattr("fedcof.commands.train.check_device", lambda device: None)
    monkeypatch.setattr(
        "fedcof.backbones.get",
        lambda name, device, **rest: devices.append(device) or get(name, **rest),
    )
    assert train("--device", "cuda").exit_code == 0
    assert devices == ["cuda"]


def test_there_is_no_gpu_where_there_is_none(train):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert "--device cpu" in train("--device", "cuda").output


def test_a_subset_has_the_first_classes_and_as_many_images_of_each():
    images = ImageSet(np.zeros((12, 2, 2, 3), np.uint8), np.arange(12) % 3, ("a", "b", "c"))
    small = subset(images, 2, 3, seed=0)
    assert np.bincount(small.labels).tolist() == [3, 3]
    assert len(subset(images, 3, 100, seed=0)) == 12
