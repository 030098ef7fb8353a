"""Training over Flower's ClientApp: the numbers of one process, whoever holds the clients."""

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import json
import logging
import re
import subprocess
import sys
import tomllib
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import deploy_loopback
import numpy as np
import torch
from flwr.app import Context, RecordDict
from grid_double import NODES

from fedcof import FedCOF, LinearHead
from fedcof.backbones.torch_backbone import network
from fedcof.client import Sender
from fedcof.data import ImageSet, Partition
from fedcof.errors import FedCOFError, HeadError, NoWeightsError, TrainingError
from fedcof.experiments.training import on_images
from fedcof.federation import server_app
from fedcof.federation.client_app import app
from fedcof.federation.plan import Plan
from fedcof.federation.records import Job
from fedcof.federation.server_app import FlowerGrid
from fedcof.federation.serving import Settings, serve
from fedcof.federation.training.exchange import GridExchange
from fedcof.federation.training.server import Training
from fedcof.settings import settings_of
from fedcof.training import TrainingSettings, load_history, train
from fedcof.training.exchange import in_process
from fedcof.training.heads import random_head
from fedcof.training.local import Samples
from fedcof.training.probing import probe_clients
from fedcof.training.trained import TrainedModel
from fedcof.transforms import parse
from tiny_networks import save_resnet, save_vit

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:transformers.*")

SETTINGS = TrainingSettings(rounds=3, client_lr=0.1, batch_size=4, participation=0.5)
SOURCE = "grid_double:load_data"
JOB = Job(Sender(FedCOF()), data=SOURCE)


class Nodes:
    """SuperNodes that run the ClientApp, with the clients that `NODES` gives them."""

    def __init__(self, nodes):
        NODES.clear()
        NODES.update(nodes)
        self.offline, self.dies_after = set(), None
        self.sent = 0
        self._replies = {}

    def get_node_ids(self):
        return [node for node in NODES if node not in self.offline]

    def get_nodes(self):
        return [
            SimpleNamespace(node_id=node, registered_at="", public_key=b"")
            for node in self.get_node_ids()
        ]

    def push_messages(self, messages):
        return [self._push(message) for message in messages]

    def _push(self, message):
        message_id = message.metadata.message_id
        if message.metadata.dst_node_id in self.offline:
            return None
        if self.sent == self.dies_after:
            raise KeyboardInterrupt
        self.sent += 1
        context = Context(1, message.metadata.dst_node_id, {}, RecordDict(), {})
        self._replies[message_id] = app(message, context)
        return message_id

    def pull_messages(self, message_ids):
        return [self._replies.pop(one) for one in message_ids if one in self._replies]


def holders():
    """The node of each client, as collecting finds them."""
    return {name: node for node in sorted(NODES, reverse=True) for name in NODES[node]}


@pytest.fixture(autouse=True)
def _quiet():
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.CRITICAL)


@pytest.fixture
def head():
    return LinearHead(np.random.default_rng(0).normal(size=(3, 4)), np.arange(3))


def probe(nodes, head, folder, settings=SETTINGS, **options):
    training = Training(Settings(JOB, folder), settings, **options)
    return training.run(FlowerGrid(nodes), holders(), head)


def in_one_process(clients, head, settings=SETTINGS):
    samples = {name: Samples(torch.tensor(x), torch.tensor(y)) for name, (x, y) in clients.items()}
    exchange = in_process(partial(probe_clients, samples))
    start = {"head.weight": head.weight.astype(np.float32)}
    return train(exchange, clients, start, settings, lambda state: 0.0)[0]["head.weight"]


def test_nodes_with_several_clients_train_as_one_process_does(clients, head, tmp_path):
    names = sorted(clients)
    grid = Nodes({7: {n: clients[n] for n in names[:4]}, 3: {n: clients[n] for n in names[4:]}})
    trained, rounds = probe(grid, head, tmp_path)
    np.testing.assert_allclose(trained.weight, in_one_process(clients, head), rtol=1e-6)
    assert LinearHead.load(tmp_path / "head-trained.safetensors").weight.tolist() == (
        trained.weight.tolist()
    )
    assert [one.loss for one in load_history(tmp_path / "history.json")] == [
        one.loss for one in rounds
    ]


def test_a_head_with_a_transform_is_trained_on_transformed_features(clients, tmp_path):
    transform = parse("power:0.5+standardize+random-features:6")
    head = random_head(4, range(3), seed=0, transform=transform)
    trained, _ = probe(Nodes({1: clients}), head, tmp_path)
    assert trained.transform == transform.bound(4)
    transformed = {name: (transform(x), y) for name, (x, y) in clients.items()}
    expected = in_one_process(transformed, head.of_transformed)
    np.testing.assert_allclose(trained.weight, expected, rtol=1e-6)
    assert trained.predict(clients["c000"][0]).shape == clients["c000"][1].shape


def test_a_client_that_cannot_train_is_named_by_a_code_and_the_others_go_on(
    clients, head, tmp_path
):
    features, labels = clients["c000"]
    clients["c000"] = (features, labels + 5)  # classes that the head does not have
    grid = Nodes({1: {"c000": clients.pop("c000")}, 2: clients})
    _, rounds = probe(grid, head, tmp_path, TrainingSettings(rounds=1, participation=1.0))
    assert rounds[1].clients == 5
    assert rounds[1].refused == ("client 'c000': it cannot: raised:HeadError",)


def roster(nodes, folder, online=0, timeout=60.0):
    """The node of each client after collecting."""
    settings = Settings(JOB, folder, Plan(timeout=timeout))
    _, _, found = serve(FlowerGrid(nodes), settings, online=online, sleep=lambda seconds: None)
    return found


def test_a_client_that_two_nodes_hold_trains_once(clients, tmp_path):
    nodes = Nodes({9: clients, 4: dict(list(clients.items())[:2])})
    expected = {name: 4 if name in ("c000", "c001") else 9 for name in clients}
    assert roster(nodes, tmp_path) == expected


def test_a_run_that_was_complete_still_finds_the_nodes_that_are_online(clients, tmp_path):
    assert roster(Nodes({1: clients}), tmp_path) == dict.fromkeys(clients, 1)
    assert roster(Nodes({7: clients}), tmp_path) == dict.fromkeys(clients, 7)


def test_a_run_that_was_complete_waits_for_nodes_that_come_late(clients, tmp_path):
    roster(Nodes({1: clients}), tmp_path)
    late = Nodes({7: clients})
    late.offline.add(7)
    looks = []

    def online():
        looks.append(1)
        if len(looks) > 5:
            late.offline.clear()
        return [node for node in NODES if node not in late.offline]

    late.get_node_ids = online
    assert roster(late, tmp_path, online=6) == dict.fromkeys(clients, 7)


def test_nodes_are_asked_for_their_clients_once(clients, tmp_path):
    nodes = Nodes({1: clients})
    roster(nodes, tmp_path, online=6)
    assert nodes.sent == 2  # one question for the clients, one for their summaries


def test_too_few_clients_are_told(clients, head, tmp_path):
    settings = Settings(JOB, tmp_path, Plan(min_clients=7))
    grid = FlowerGrid(Nodes({1: clients}))
    with pytest.raises(TrainingError, match="6 clients are there, min-clients is 7"):
        Training(settings, SETTINGS).run(grid, holders(), head)


def test_a_node_that_goes_offline_is_named_and_the_others_go_on(clients, head):
    names = sorted(clients)
    nodes = Nodes({1: {n: clients[n] for n in names[:2]}, 2: {n: clients[n] for n in names[2:]}})
    nodes.offline.add(1)
    start = {"head.weight": head.weight.astype(np.float32)}
    chosen = replace(SETTINGS, rounds=1, participation=1.0)
    config = {
        "data": SOURCE,
        "reading": "{}",
        "backbone": "",
        "classes": [0, 1, 2],
        "transform": "none",
    }
    exchange = GridExchange(FlowerGrid(nodes), holders(), config)
    _, rounds = train(exchange, clients, start, chosen, lambda state: 0.0)
    assert rounds[1].clients == 4
    assert [one.split(": ")[0] for one in rounds[1].refused] == ["client 'c000'", "client 'c001'"]
    assert "offline" in rounds[1].refused[0]


def test_a_client_that_does_not_answer_in_time_is_named_with_the_deadline(clients, head, tmp_path):
    nodes = Nodes({1: clients})
    push = nodes._push
    nodes._push = lambda message: push(message) and "lost"
    with pytest.raises(TrainingError, match=r"client 'c\d+': no reply within 0\.5 s"):
        probe(nodes, head, tmp_path, timeout=0.5)


def test_a_malformed_reply_is_named_and_the_others_are_not_lost(clients, head, tmp_path):
    grid = Nodes({1: clients})
    pull = grid.pull_messages

    def harmed(message_ids):
        [reply] = pull(message_ids)
        if reply.metadata.message_type == "train" and "c002" in str(reply.content):
            raise ValueError("not a message")
        return [reply]

    grid.pull_messages = harmed
    _, rounds = probe(grid, head, tmp_path, replace(SETTINGS, rounds=1, participation=1.0))
    assert rounds[1].refused == ("client 'c002': malformed answer (ValueError)",)


def test_the_test_set_of_the_server_is_measured_and_stops_the_run(clients, head, tmp_path):
    wrong = LinearHead(-np.eye(3, 4), np.arange(3))
    settings = replace(SETTINGS, rounds=50, participation=1.0, client_lr=1.0)
    test = {"one": clients["c000"], "other": clients["c001"]}
    _, rounds = probe(Nodes({1: clients}), wrong, tmp_path, settings, test=test, target=0.5)
    assert len(rounds) < 51
    assert rounds[-1].accuracy >= 0.5
    assert all(one.accuracy < 0.5 for one in rounds[:-1])
    trained = LinearHead.load(tmp_path / "head-trained.safetensors")
    both = [np.concatenate(pair) for pair in zip(*test.values(), strict=True)]
    assert rounds[-1].accuracy == pytest.approx(trained.score(*both))


def test_without_a_test_set_the_history_has_no_accuracy(clients, head, tmp_path):
    probe(Nodes({1: clients}), head, tmp_path)
    history = json.loads((tmp_path / "history.json").read_text(), parse_constant=pytest.fail)
    assert {one["accuracy"] for one in history} == {None}
    assert all(np.isnan(one.accuracy) for one in load_history(tmp_path / "history.json"))


APP = Path(deploy_loopback.__file__).parent / "pyproject.toml"


def configured(**chosen):
    """The app's run configuration with some values of another."""
    config = tomllib.loads(APP.read_text())["tool"]["flwr"]["app"]["config"]
    return config | {key.replace("_", "-"): value for key, value in chosen.items()}


def training_of(**chosen):
    config = configured(**chosen)
    return Training.from_run_config(config, Settings.from_run_config(config), {})


def test_every_setting_is_in_the_run_configuration_of_the_app_with_its_default():
    config = configured()
    assert {f"train-{one.name.replace('_', '-')}" for one in fields(TrainingSettings)} - {
        "train-seed"
    } <= config.keys()
    training = training_of(train_rounds=200)
    assert training.settings == TrainingSettings()
    own = settings_of(Training)
    assert own.keys() == {
        "mode",
        "pool_size",
        "target",
        "keep",
        "evaluate_every",
        "timeout",
        "wait",
    }
    assert {f"train-{name.replace('_', '-')}" for name in own} <= config.keys()
    assert all(getattr(training, name) == one.default for name, one in own.items())


def test_settings_come_from_the_run_configuration():
    chosen = {"train_rounds": 5, "train_strategy": "fedadam", "train_server_lr": 1, "seed": 3}
    training = training_of(**chosen, train_optimizer="adam")
    assert training.settings == TrainingSettings(
        rounds=5, strategy="fedadam", server_lr=1.0, seed=3, optimizer="adam"
    )


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ({"train_mode": "guess"}, "train-mode must be one of probe.*, it is 'guess'"),
        ({"train_mode": "finetune"}, "train-mode finetune is for images: name their backbone"),
        ({"train_strategy": "pfpt"}, "train-mode must be prompt with pfpt.* it is probe"),
        (
            {"train_mode": "prompt", "backbone": "squeezenet1.1"},
            "train-mode prompt: prompts need a ViT",
        ),
        ({"train_pool_size": 0}, "train-pool-size must be an integer, at least 1"),
        ({"train_target": 0.5}, "train-target is by accuracy on the server's test-data"),
        ({"train_keep": "best"}, "train-keep is by accuracy on the server's test-data"),
        ({"train_keep": "first"}, "train-keep must be one of last, best"),
        ({"train_timeout": 0}, "train-timeout must be a finite number, above 0, it is 0"),
        ({"train_target": 50.0}, "train-target must be .* at most 1, it is 50.0"),
        ({"train_rounds": "ten"}, "train-rounds must be an integer, at least 1, it is 'ten'"),
        ({"train_rounds": -1}, "train-rounds must be .* at least 1, it is -1"),
        ({"train_strategy": "fedadam"}, "train-server-lr .* small beside the weights"),
        ({"train_server_lr": 0.5}, "train-server-lr must be 1 with fedavg"),
        ({"train_proximal_mu": 0.5}, "train-proximal-mu is the weight of fedprox"),
        ({"train_optimizer": "lion"}, "train-optimizer must be one of sgd, adam, it is 'lion'"),
    ],
)
def test_a_wrong_run_configuration_is_told_before_anybody_is_asked(chosen, text):
    with pytest.raises(ValueError, match=text):
        training_of(**{"train_rounds": 1, **chosen})


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ({"min_clients": 7, "timeout": 0.1}, "6 clients have answered, at least 7 .*min-clients"),
        ({"train_mode": "guess"}, "train-mode must be one of"),
        ({"train_rounds": 1.5}, "train-rounds must be an integer"),
        ({"seed": 1}, "give another run-folder"),
        ({"test_data": "nowhere.npz"}, "test-data nowhere.npz: "),
        ({"test_data": "grid_double:short_rows"}, "test-data grid_double:short_rows: .*takes"),
    ],
)
def test_a_refused_setting_ends_the_run_with_one_line_and_no_traceback(  # noqa: PLR0917
    clients, tmp_path, capsys, caplog, monkeypatch, chosen, text
):
    monkeypatch.setattr(logging.getLogger("flwr"), "filters", [])
    monkeypatch.setattr(server_app, "_PAUSE", 0.01)
    common = {"run_folder": str(tmp_path), "data": SOURCE, "train_rounds": 1, "min_clients": 1}

    def run(**options):
        context = SimpleNamespace(
            run_config=configured(**common | options), node_config={}, node_id=0
        )
        server_app.main(Nodes({1: clients}), context)

    run()
    capsys.readouterr()
    with pytest.raises((FedCOFError, OSError)) as caught:  # so that Flower marks the run as failed
        run(**chosen)
    [line] = [one for one in capsys.readouterr().out.splitlines() if one.startswith("error:")]
    assert re.match(f"error: {text}|error: .*{text}", line)
    logging.getLogger("flwr").error("ServerApp raised an exception", exc_info=caught.value)
    assert "Traceback" not in caplog.text


def test_a_backbone_that_cannot_be_trained_is_told_before_anybody_is_asked(tmp_path):
    with pytest.raises(NoWeightsError, match=r"config\.json"):
        training_of(train_rounds=1, train_mode="finetune", backbone=str(tmp_path))


# Networks and prompts, on images


@pytest.fixture(scope="module")
def resnet(tmp_path_factory):
    """A tiny ResNet in the format of transformers."""
    return save_resnet(tmp_path_factory.mktemp("resnet"))


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """A tiny ViT in the format of transformers."""
    return save_vit(tmp_path_factory.mktemp("vit"), layers=1, patch_size=16)


IMAGES = ImageSet(
    images=np.random.default_rng(0).integers(0, 256, (24, 32, 32, 3)).astype(np.uint8),
    labels=np.arange(24) % 3,
    classes=("a", "b", "c"),
)
PARTITION = Partition(np.arange(24) % 5, tuple("vwxyz"))


def pictures():
    """The images of every client, with the names of their classes as labels."""
    parts = {name: IMAGES.subset(rows) for name, rows in PARTITION}
    return {n: (one.images, np.array(IMAGES.classes)[one.labels]) for n, one in parts.items()}


def tune(nodes, backbone, folder, settings, mode, **options):
    """Train a random head and what is before it, over the SuperNodes."""
    job = Job(Sender(FedCOF()), data=SOURCE, backbone=str(backbone))
    head = random_head(network(str(backbone)).dim, IMAGES.classes, seed=0)
    training = Training(Settings(job, folder), settings, mode=mode, **options)
    return training.run(FlowerGrid(nodes), holders(), head)


def tune_in_one_process(backbone, settings, pool_size=None):
    net = network(str(backbone))
    head = random_head(net.dim, range(3), seed=0)
    return on_images(IMAGES, IMAGES, PARTITION, net, head, pool_size=pool_size).train(settings)


def model_in(folder):
    return TrainedModel.load(folder / "model.safetensors")


TUNING = TrainingSettings(rounds=2, client_lr=0.05, batch_size=3, participation=0.6)
STRATEGIES = {
    "fedavg": TUNING,
    "fedprox": replace(TUNING, strategy="fedprox", proximal_mu=0.5),
    "fedadam": replace(TUNING, strategy="fedadam", server_lr=0.01),
    "adam at the clients": replace(TUNING, optimizer="adam", client_lr=0.01),
}


@pytest.mark.parametrize("settings", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("mode", ["finetune", "prompt"])
def test_nodes_train_on_images_as_one_process_does(request, tmp_path, mode, settings):
    backbone = request.getfixturevalue("resnet" if mode == "finetune" else "vit")
    pool_size = 4 if mode == "prompt" else None
    expected, history = tune_in_one_process(backbone, settings, pool_size)
    shares = list(pictures().items())
    nodes = Nodes({1: dict(shares[:3]), 2: dict(shares[3:])})
    options = {"test": pictures(), **({"pool_size": pool_size} if pool_size else {})}
    _, rounds = tune(nodes, backbone, tmp_path, settings, mode, **options)
    state = model_in(tmp_path).state
    assert state.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(state[name], value, rtol=1e-5, atol=1e-6)
    assert [one.accuracy for one in rounds] == [one.accuracy for one in history]
    assert [one.formula_bytes for one in rounds] == [one.formula_bytes for one in history]


def test_pfpt_runs_over_nodes(vit, tmp_path):
    settings = replace(TUNING, strategy="pfpt")
    _, rounds = tune(Nodes({1: pictures()}), vit, tmp_path, settings, "prompt", pool_size=4)
    assert rounds[-1].loss is not None
    assert not rounds[-1].refused


@pytest.mark.parametrize("mode", ["finetune", "prompt"])
def test_the_trained_model_is_loaded_again_and_classifies(request, tmp_path, mode):
    backbone = request.getfixturevalue("resnet" if mode == "finetune" else "vit")
    test = {"all": (IMAGES.images, np.array(IMAGES.classes)[IMAGES.labels])}
    _, rounds = tune(Nodes({1: pictures()}), backbone, tmp_path, TUNING, mode, test=test)
    predicted = model_in(tmp_path).predict(IMAGES.images)
    assert np.mean(predicted == test["all"][1]) == pytest.approx(rounds[-1].accuracy)


@pytest.mark.parametrize("mode", ["finetune", "prompt"])
def test_a_server_that_is_killed_goes_on_to_the_same_bits(request, tmp_path, mode):
    backbone = request.getfixturevalue("resnet" if mode == "finetune" else "vit")
    settings = replace(STRATEGIES["fedadam"], rounds=3)
    tune(Nodes({1: pictures()}), backbone, tmp_path / "whole", settings, mode)
    dying = Nodes({1: pictures()})
    dying.dies_after = 6  # messages: two rounds of three
    with pytest.raises(KeyboardInterrupt):
        tune(dying, backbone, tmp_path / "killed", settings, mode)
    again = Nodes({1: pictures()})
    tune(again, backbone, tmp_path / "killed", settings, mode)
    assert again.sent == 3  # the last round alone
    files = [tmp_path / run / "model.safetensors" for run in ("whole", "killed")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_node_with_other_weights_than_the_server_is_refused(vit, tmp_path, monkeypatch):
    from fedcof.federation.training import client

    other = lambda name, prompted: (None, None, "other")  # noqa: E731
    monkeypatch.setattr(client, "_network", other)
    with pytest.raises(TrainingError, match="it cannot: other-network:SummaryError"):
        tune(Nodes({1: pictures()}), vit, tmp_path, TUNING, "prompt")


def test_a_client_with_features_cannot_fine_tune_and_one_with_a_bad_image_can(resnet, tmp_path):
    clients = pictures()
    clients["v"] = (np.zeros((3, 12), np.float32), np.array(["a", "b", "c"]))
    clients["w"] = ([b"not an image", *clients["w"][0]], np.array(["a", *clients["w"][1]]))
    settings = replace(TUNING, rounds=1, participation=1.0)
    _, rounds = tune(Nodes({1: clients}), resnet, tmp_path, settings, "finetune")
    assert rounds[1].refused == ("client 'v': it cannot: no-images:SummaryError",)
    assert rounds[1].clients == 4


def test_a_learning_rate_that_diverges_names_the_clients(resnet, tmp_path):
    settings = replace(TUNING, client_lr=1e38)
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(TrainingError, match=r"client '.'.*NaN or infinity.*client_lr"),
    ):
        tune(Nodes({1: pictures()}), resnet, tmp_path, settings, "finetune")


def test_a_head_of_another_backbone_is_refused(resnet, tmp_path):
    job = Job(Sender(FedCOF()), data=SOURCE, backbone=str(resnet))
    head = random_head(5, IMAGES.classes, seed=0)
    with pytest.raises(HeadError, match="length 5, the backbone gives 12"):
        Training(Settings(job, tmp_path), TUNING, mode="finetune").run(
            FlowerGrid(Nodes({1: pictures()})), holders(), head
        )


def test_the_server_app_collects_measures_trains_and_goes_on(clients, tmp_path, capsys):
    features, labels = (np.concatenate(pair) for pair in zip(*clients.values(), strict=True))
    np.savez(tmp_path / "test.npz", features=features, labels=labels)
    config = configured(
        run_folder=str(tmp_path / "run"),
        data=SOURCE,
        min_clients=6,
        test_data=str(tmp_path / "test.npz"),
        train_rounds=2,
        train_client_lr=0.1,
    )
    context = SimpleNamespace(run_config=config, node_config={}, node_id=0)
    server_app.main(Nodes({1: clients}), context)
    told = capsys.readouterr().out
    head = LinearHead.load(tmp_path / "run" / "head.safetensors")
    assert f"accuracy on {tmp_path / 'test.npz'}: {head.score(features, labels):.1%}" in told
    assert "training, round 4: 2 clients, loss" in told
    history = load_history(tmp_path / "run" / "history.json")
    assert [one.stage for one in history] == ["training-free", *3 * ["training"]]
    assert history[0].clients == 6
    assert history[0].formula_bytes == head.provenance.formula_bytes == history[1].formula_bytes
    assert history[0].accuracy == history[1].accuracy == head.score(features, labels)
    before = (tmp_path / "run" / "head-trained.safetensors").read_bytes()
    server_app.main(Nodes({1: clients}), context)
    assert (tmp_path / "run" / "head-trained.safetensors").read_bytes() == before


def test_the_server_app_reads_keys_with_underscores(clients, tmp_path):
    # ``train_rounds`` passed the check of keys, and nothing was trained.
    run = {"run_folder": str(tmp_path), "data": SOURCE, "min_clients": 6, "train_rounds": 1}
    context = SimpleNamespace(run_config=run, node_config={}, node_id=0)
    server_app.main(Nodes({1: clients}), context)
    assert len(load_history(tmp_path / "history.json")) == 3


_SIMULATION = """
import sys
from pathlib import Path
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation
from fedcof import FedCOF, LinearHead
from fedcof.client import Sender
from fedcof.federation.admission import Admission
from fedcof.federation.client_app import app
from fedcof.federation.collecting import Collector
from fedcof.federation.plan import Plan
from fedcof.federation.records import Job
from fedcof.federation.server_app import FlowerGrid
from fedcof.federation.serving import Settings
from fedcof.federation.store import SummaryStore
from fedcof.scale.ray_engine import ray_engine
from fedcof.federation.training.server import Training
from fedcof.training import TrainingSettings

folder, server = Path(sys.argv[1]), ServerApp()

@server.main()
def main(grid, context):
    for mode, backbone, clients, client_lr in (
        ("probe", "", 6, 0.1),
        ("finetune", sys.argv[2], 5, 0.05),
        ("prompt", sys.argv[3], 5, 0.05),
    ):
        job = Job(Sender(FedCOF()), data=str(folder / mode / "data"), backbone=backbone)
        settings = TrainingSettings(
            rounds=2, client_lr=client_lr, batch_size=3, participation=0.6
        )
        federation = Settings(job, folder / mode, Plan(min_clients=clients))
        head = LinearHead.load(folder / mode / "start.safetensors")
        with SummaryStore(folder / mode / "summaries.sqlite", {}) as store:
            admission = Admission(job.sender.method, ())
            asking = Collector(FlowerGrid(grid), store, job, admission, federation.plan)
            nodes = asking.roster(clients)
        Training(federation, settings, mode=mode, pool_size=4).run(FlowerGrid(grid), nodes, head)

with ray_engine():
    resources = {"num_cpus": 1, "num_gpus": 0.0}
    run_simulation(server, app, 3, backend_config={"client_resources": resources})
"""


def write(folder, name, clients, head):
    """Write clients as a folder that `sources` reads, and the head that they start from."""
    (folder / "data").mkdir(parents=True)
    for file, arrays in {
        name: [x for x, _ in clients.values()],
        "labels": [y for _, y in clients.values()],
        "clients": [np.repeat(client_id, len(y)) for client_id, (_, y) in clients.items()],
    }.items():
        np.save(folder / "data" / f"{file}.npy", np.concatenate(arrays))
    head.save(folder / "start.safetensors")


@pytest.mark.slow
def test_the_simulation_of_flower_trains_as_one_process_does(clients, head, resnet, vit, tmp_path):
    write(tmp_path / "probe", "features", clients, head)
    for mode, backbone in (("finetune", resnet), ("prompt", vit)):
        start = random_head(network(str(backbone)).dim, IMAGES.classes, seed=0)
        write(tmp_path / mode, "images", pictures(), start)
    done = subprocess.run(
        [sys.executable, "-c", _SIMULATION, *map(str, (tmp_path, resnet, vit))],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    trained = LinearHead.load(tmp_path / "probe" / "head-trained.safetensors")
    expected = in_one_process(clients, head, replace(TUNING, client_lr=0.1))
    np.testing.assert_allclose(trained.weight, expected, rtol=1e-5, atol=1e-6)
    for mode, backbone, pool_size in (("finetune", resnet, None), ("prompt", vit, 4)):
        state = model_in(tmp_path / mode).state
        expected, _ = tune_in_one_process(backbone, TUNING, pool_size)
        for name, value in expected.items():
            np.testing.assert_allclose(state[name], value, rtol=1e-5, atol=1e-6)
