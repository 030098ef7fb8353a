"""What starts a federation as services, checked by the schemas and linters of its tools."""

import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from fedcof import __version__
from fedcof.federation.status import Status

DEPLOY = Path(__file__).parents[1] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = DEPLOY / "compose.yaml"
DOCKERFILE = DEPLOY / "Dockerfile"


def documents(path):
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all(path.read_text()))


def test_compose_follows_the_specification():
    pytest.importorskip("check_jsonschema")
    program = Path(sys.executable).with_name("check-jsonschema")
    command = [program, "--builtin-schema", "vendor.compose-spec", COMPOSE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_services_of_compose_are_hardened_and_watched():
    [compose] = documents(COMPOSE)
    for service in compose["services"].values():
        assert service["user"] == "10001:10001"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "healthcheck" in service
        assert service["image"].endswith(f":{__version__}")
        assert set(service["secrets"]) <= compose["secrets"].keys()
    assert all(secret.keys() == {"file"} for secret in compose["secrets"].values())


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_follow_the_schema_of_kubernetes(path):
    validate = pytest.importorskip("kubernetes_validate")
    for document in documents(path):
        validate.validate(document, "1.30", strict=True)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_pods_have_no_rights(path):
    for document in documents(path):
        if document["kind"] != "Deployment":
            continue
        pod = document["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["image"].endswith(f":{__version__}")
            assert container.keys() & {"readinessProbe", "livenessProbe"}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_takes_the_units(path, tmp_path):
    programs = Path(sys.executable).parent
    unit = tmp_path / path.name
    unit.write_text(path.read_text().replace("/opt/fedcof/bin/", f"{programs}/"))
    command = ["systemd-analyze", "verify", "--man=no", unit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if path.name in line]
    assert told == []
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_have_a_user_and_take_keys_as_credentials(path):
    text = path.read_text()
    for line in ("User=fedcof", "UMask=0077", "NoNewPrivileges=true", "Restart=on-failure"):
        assert line in text.splitlines()
    assert "LoadCredential=" in text


def test_the_image_is_pinned_runs_as_nobody_and_is_watched():
    text = DOCKERFILE.read_text()
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    names = [re.match(r"\S+ AS (\w+)", stage)[1] for stage in stages]
    assert names == ["base", "server", "site"]
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.\d+\.\d+-\S+$", text, re.MULTILINE)
    assert "--constraint constraints.txt" in text
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001:10001"]
    assert all("HEALTHCHECK" in stage and "ENTRYPOINT" in stage for stage in stages[1:])
    sources = re.search(r"^COPY (pyproject.*) \./$", text, re.MULTILINE)[1].split()
    assert all((DEPLOY.parent / name).exists() for name in sources)
    for form in re.findall(r"(?:CMD|ENTRYPOINT) (\[.*?\])$", text, re.MULTILINE | re.DOTALL):
        json.loads(form.replace("\\\n", ""))


@cache
def help_of(program):
    command = [Path(sys.executable).with_name(program), "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [*UNITS, DOCKERFILE, COMPOSE, *MANIFESTS], ids=lambda path: path.name
)
def test_options_of_flower_are_those_that_it_has(path):
    for program in ("flower-superlink", "flower-supernode"):
        text = path.read_text()
        lines = re.findall(rf"{program}.*?(?=\n(?![ \t])|\Z)", text, re.DOTALL)
        options = {option for line in lines for option in re.findall(r"--[a-z-]+", line)}
        assert {o for o in options if o not in help_of(program)} <= {"--root-certificates"}


def test_the_dashboard_asks_for_metrics_that_there_are():
    pytest.importorskip("prometheus_client")
    from fedcof.federation.metrics import families

    status = Status(
        state="collecting",
        refused={"shape": 1},
        missing={"offline": 1},
        classes={"a": 1},
        timeline=((0.0, 0), (1.0, 1)),
        waiting=1,
        accuracy=0.5,
        training={"number": 1, "loss": 0.1, "accuracy": 0.5},
    )
    served = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in families(status)
    }
    dashboard = json.loads((DEPLOY / "grafana" / "fedcof.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"fedcof_\w+", target["expr"])
    }
    assert asked <= served
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
