"""What a site's policy file says, and that nothing leaves against it."""

import logging
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fedcof import Fed3R, FedCOF, FedNCM, SettingError, SummaryError
from fedcof.client import Sender
from fedcof.errors import BudgetError, PolicyError
from fedcof.methods import get_method
from fedcof.privacy import OPEN, CountNoise, Guarantee, MinSamples, Policy, read_policy
from fedcof.privacy.local import LocalPrivacy
from fedcof.privacy.policy import dry_run_of_node, local_guarantee, policy_of_node
from fedcof.transforms import PowerTransform, RandomFeatures, Standardize, chain, parse

FEATURES = np.random.default_rng(0).normal(size=(12, 3))
LABELS = np.array([0] * 8 + [1] * 3 + [2])


@pytest.fixture
def written(tmp_path):
    """The path of a policy file with a text."""

    def written(text):
        path = tmp_path / "policy.toml"
        path.write_text(text)
        return path

    return written


def code(error):
    return error.value.code


def send(policy, sender=None, **given):
    return policy.send(sender or Sender(FedNCM()), FEATURES, LABELS, origin={}, **given)


def test_a_whole_file(written):
    path = written(
        """
        methods = ["fedcof", "fedncm"]
        codings = ["float16"]
        transforms = ["none", "power"]
        backbones = ["squeezenet1.1", "/models/own.onnx"]
        min-samples = 5
        small-classes = "merge"
        other-class = "rest"
        means-per-class = 3
        classes = "hidden"
        training = true
        own-data-only = true
        report-withheld = true
        epsilon = 8
        delta = 1e-5
        """
    )
    assert read_policy(path) == Policy(
        methods=("fedcof", "fedncm"),
        codings=("float16",),
        transforms=("none", "power"),
        backbones=("squeezenet1.1", "/models/own.onnx"),
        min_samples=5,
        small_classes="merge",
        other_class="rest",
        means_per_class=3,
        classes="hidden",
        training=True,
        own_data_only=True,
        report_withheld=True,
        epsilon=8.0,
        delta=1e-5,
        ledger=str(path.parent / "privacy.db"),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("min-sample = 5", "min-sample is no key of a policy; did you mean min-samples?"),
        ("privacy = 5", "there are methods, codings, "),
        ("min-samples = '5'", "min-samples must be an integer, at least 1, it is '5'"),
        ("min-samples = 0", "min-samples must be an integer, at least 1, it is 0"),
        ("min-samples = 5\nmin_samples = 1", "is given twice"),
        ("min-samples = 5\nmin-samples = 1", "overwrite"),
        ("training = 1", "training must be true or false"),
        ("methods = 'fedcof'", "methods must be a list"),
        ("methods = ['fedcofe']", "did you mean fedcof"),
        ("methods = [1]", "methods must be a list of names"),
        ("codings = ['float32', 'int5']", "did you mean"),
        ("transforms = ['power:0.5']", "did you mean power"),
        ("small-classes = 'drop'", "one of withhold, merge"),
        ("epsilon = 1.0", "delta is needed"),
        ("epsilon = -1.0\ndelta = 0.0", "epsilon must be"),
        ("epsilon = nan\ndelta = 0.0", "epsilon must be"),
        ("[site]\nmin-samples = 5", "site is no key"),
        ("min-samples = ", "Invalid"),
        ("\x00", "policy.toml cannot be read, so nothing is allowed"),
    ],
)
def test_what_is_no_policy_allows_nothing(written, text, said):
    with pytest.raises(PolicyError, match=r"policy.toml cannot be read.*") as error:
        read_policy(written(text))
    assert said in str(error.value)
    assert code(error) == "policy"


def test_a_file_that_is_not_there_or_no_file_allows_nothing(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(PolicyError, match="nothing is allowed"):
            read_policy(path)
    (tmp_path / "latin.toml").write_bytes(b'other-class = "\xe4"')
    with pytest.raises(PolicyError, match="nothing is allowed"):
        read_policy(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("policy", "sender", "rule"),
    [
        (Policy(methods=["fedcof"]), Sender(FedNCM()), "methods"),
        (Policy(methods=[]), Sender(FedCOF()), "methods"),
        (Policy(codings=["int8"]), Sender(FedNCM()), "codings"),
        (Policy(codings=["float32"]), Sender(FedNCM(), coding="means=int8"), "codings"),
        (Policy(transforms=["none"]), Sender(FedNCM(), transform=PowerTransform()), "transforms"),
        (Policy(transforms=["power"]), Sender(FedNCM()), "transforms"),
        (
            Policy(transforms=["power"]),
            Sender(FedNCM(), transform=chain(PowerTransform(), Standardize())),
            "transforms",
        ),
        (Policy(transforms=[]), Sender(FedNCM(), transform=RandomFeatures(8)), "transforms"),
        (Policy(means_per_class=2), Sender(FedCOF(means_per_class=3)), "means-per-class"),
        (Policy(means_per_class=1), Sender(get_method("fedpft-diagonal", components=2)), "means"),
        (Policy(classes="hidden"), Sender(FedNCM()), "classes"),
        (Policy(epsilon=1.0, delta=1e-5), Sender(FedNCM()), "budget"),
        (Policy(epsilon=1.0, delta=1e-5), Sender(FedCOF(), steps=(CountNoise(),)), "budget"),
    ],
)
def test_a_job_that_asks_for_more_is_refused(policy, sender, rule):
    with pytest.raises(PolicyError) as error:
        policy.check(sender)
    assert code(error).startswith(f"policy-{rule}")
    with pytest.raises(PolicyError):
        send(policy, sender)


def test_a_job_within_the_policy_is_not():
    policy = Policy(
        methods=["fedcof"],
        codings=["float16"],
        transforms=["power", "standardize"],
        means_per_class=3,
        backbones=["tiny"],
    )
    transform = chain(PowerTransform(), Standardize())
    sender = Sender(FedCOF(means_per_class=3), coding="float16", transform=transform)
    policy.check(sender, backbone="tiny")
    with pytest.raises(PolicyError, match=r"'other'.* backbones"):
        policy.check(sender, backbone="other")


def test_a_coding_that_the_method_chooses_is_checked_before_it_leaves():
    sender = Sender(get_method("fedcof-sketch"))
    chosen = sender.send(FEATURES, LABELS).coding
    assert chosen != "float32"
    with pytest.raises(PolicyError) as error:
        send(Policy(codings=["float32"]), sender)
    assert code(error) == "policy-codings"


def test_a_budget_is_what_all_answers_spend():
    policy = Policy(epsilon=2.0, delta=1e-5)
    policy.check(Sender(FedNCM()), guarantee=Guarantee(2.0, 1e-5))
    for epsilon, delta in [(2.1, 1e-5), (2.0, 1e-4), (math.nan, 0.0), (1.0, math.nan)]:
        with pytest.raises(PolicyError, match="allows epsilon 2 and delta 1e-05 in all"):
            policy.check(Sender(FedNCM()), guarantee=Guarantee(epsilon, delta))


def test_hidden_classes_are_in_sums_over_clients_only():
    policy = Policy(classes="hidden")
    policy.check(Sender(Fed3R()), summed=True)
    with pytest.raises(PolicyError, match="a summary of its own shows them"):
        policy.check(Sender(Fed3R()))


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (Policy(), "training"),
        (Policy(methods=["fedcof"], min_samples=5), "training"),
        (Policy(training=True, classes="hidden"), "classes"),
        (Policy(training=True, epsilon=1.0, delta=0.0), "budget"),
        (Policy(training=True, backbones=["tiny"]), "backbones"),
        (Policy(training=True, transforms=["power"]), "transforms"),
    ],
)
def test_training_is_refused(policy, rule):
    with pytest.raises(PolicyError) as error:
        policy.check_training(backbone="resnet18")
    assert code(error) == f"policy-{rule}"


def test_a_site_without_a_policy_answers_everything():
    OPEN.check(Sender(FedCOF(means_per_class=9)), backbone="any")
    OPEN.check_training(backbone="any")
    assert send(OPEN).data == Sender(FedNCM()).send(FEATURES, LABELS).data


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (MinSamples(1),),
        (MinSamples(2, "merge"), CountNoise("gaussian", 1e9)),
        (CountNoise("gaussian", 1e9), MinSamples(1)),
    ],
)
def test_the_servers_steps_cannot_take_the_sites_off(steps):
    sent = send(Policy(min_samples=4), Sender(FedNCM(), steps=steps))
    assert sent.summary.counts_by_class == {0: 8}


def test_a_larger_threshold_of_the_server_counts():
    sent = send(Policy(min_samples=2), Sender(FedNCM(), steps=(MinSamples(4),)))
    assert sent.summary.counts_by_class == {0: 8}
    policy = Policy(min_samples=3, small_classes="merge")
    assert policy.guarded(Sender(FedNCM(), steps=(MinSamples(4),))).steps == (
        MinSamples(4, "merge"),
    )


def test_a_client_of_which_nothing_is_left_has_a_code():
    with pytest.raises(SummaryError, match="nothing is left") as error:
        send(Policy(min_samples=100))
    assert code(error) == "withheld"


def test_what_leaves_is_logged_before_it_does(caplog):
    with caplog.at_level(logging.INFO, "fedcof"):
        send(Policy(min_samples=3), client_id="north")
    [line] = caplog.messages
    assert line.startswith("north: class-means of 2 classes: 0 (8), 1 (3); 6 numbers")
    assert "withheld: 1 classes and 1 samples" in line
    assert "min_samples=3" in line


def test_both_of_two_policies_hold():
    first = Policy(methods=["fedcof", "fedncm"], min_samples=2, epsilon=1.0, delta=0.1)
    second = Policy(
        methods=["fedncm"],
        codings=["int8"],
        min_samples=5,
        small_classes="merge",
        training=True,
        means_per_class=2,
        classes="hidden",
        epsilon=2.0,
        delta=0.01,
    )
    both = replace(second, methods=("fedncm",), epsilon=1.0, training=False, report_withheld=False)
    assert first & second == second & first == both
    assert (OPEN & first) == first
    assert OPEN & OPEN == OPEN


def test_a_node_states_its_policy_by_a_file_and_keys(written):
    path = str(written("methods = ['fedncm']\nmin-samples = 5\n"))
    assert policy_of_node({}) == OPEN
    assert policy_of_node({"data": "x", "client-id": "a"}) == OPEN
    assert policy_of_node({"ledger": "losses.db"}) == replace(OPEN, ledger="losses.db")
    assert policy_of_node({"min-samples": 3}) == Policy(min_samples=3)
    assert policy_of_node({"min_samples": 3}) == Policy(min_samples=3)
    stated = Policy(methods=["fedncm"], min_samples=5)
    assert policy_of_node({"policy": path}) == stated
    assert policy_of_node({"policy": path, "min-samples": 3}) == stated
    assert policy_of_node({"policy": path, "min-samples": 7}) == replace(stated, min_samples=7)
    assert policy_of_node({"policy": path, "small-classes": "merge"}).small_classes == "merge"


@pytest.mark.parametrize(
    "config",
    [
        {"policy": "none.toml"},
        {"policy": ""},
        {"policy": 3},
        {"min-samples": "5"},
        {"min-samples": 0},
        {"min-samples": True},
        {"min-sample": 5},
        {"minsamples": 5},
        {"polcy": "policy.toml"},
        {"min-samples": 5, "min_samples": 1},
        {"small-classes": "drop"},
    ],
)
def test_a_configuration_that_would_not_protect_is_refused(config):
    with pytest.raises(PolicyError) as error:
        policy_of_node(config)
    assert code(error) == "policy"


def test_dry_run_is_true_or_false():
    assert dry_run_of_node({"dry-run": True})
    assert dry_run_of_node({"dry_run": True})
    assert not dry_run_of_node({})
    with pytest.raises(PolicyError, match="must be true or false"):
        dry_run_of_node({"dry-run": "yes"})


def test_a_policy_that_cannot_be_is_named_in_code():
    with pytest.raises(SettingError, match="min_samples must be"):
        Policy(min_samples=0)
    with pytest.raises(SettingError, match="epsilon is needed"):
        Policy(delta=1e-5)


NOISED = Sender(FedNCM(), transform=parse("clip:2"), steps=(LocalPrivacy(1.0, 1e-5, "0-9"),))


def test_noise_of_a_client_alone_is_within_a_budget_until_it_is_spent(tmp_path):
    pytest.importorskip("opendp")
    policy = Policy(epsilon=1.2, delta=1e-5, ledger=str(tmp_path / "privacy.db"))
    policy.check(NOISED)
    policy.check_left("north", local_guarantee(NOISED))
    policy.spend("north", local_guarantee(NOISED), release="first")
    for again in (policy.check_left, partial(policy.spend, release="second")):
        with pytest.raises(BudgetError, match=r"'north': epsilon 1 of 1\.2 by sample"):
            again("north", local_guarantee(NOISED))
    policy.check_left("south", local_guarantee(NOISED))


def test_noise_by_client_costs_more_by_sample():
    pytest.importorskip("opendp")
    assert Guarantee(1.0, 1e-5, "client").rho == 4 * Guarantee(1.0, 1e-5).rho


def test_noise_by_sample_does_not_go_with_withholding():
    policy = Policy(min_samples=3)
    with pytest.raises(PolicyError) as error:
        policy.check(NOISED)
    assert code(error) == "policy-min-samples"
    with pytest.raises(PolicyError):
        policy.check(Sender(FedNCM()), summed=True, guarantee=Guarantee(1.0, 1e-5))
    policy.check(Sender(FedNCM()), summed=True, guarantee=Guarantee(1.0, 1e-5, "client"))


def test_a_ledger_stands_beside_its_policy(written):
    path = written("epsilon = 1\ndelta = 1e-5\nledger = 'losses.db'\n")
    assert read_policy(path).ledger == str(path.parent / "losses.db")
    own = policy_of_node({"policy": str(path), "ledger": "own.db"})
    assert (own.ledger, own.epsilon) == ("own.db", 1.0)


def test_an_empty_file_is_no_policy_that_allows_everything(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text("# cut off\n")
    with pytest.raises(PolicyError, match="no key"):
        read_policy(path)
