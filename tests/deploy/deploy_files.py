"""The files below deploy/, as their readers see them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
COMPOSE = DEPLOY / "docker" / "compose.yaml"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def documents(path: Path) -> list[Any]:
    """All documents of a YAML file."""
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def resources() -> dict[tuple[str, str], Any]:
    """What the kustomization makes, by kind and name."""
    (listed,) = documents(KUBERNETES / "kustomization.yaml")
    found = (each for name in listed["resources"] for each in documents(KUBERNETES / name))
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod(name: str) -> Any:
    """The pod of a deployment."""
    return resources()["Deployment", name]["spec"]["template"]["spec"]


def container(name: str) -> Any:
    """Its only container."""
    (found,) = pod(name)["containers"]
    return found


def services() -> dict[str, Any]:
    """The services of the compose file that are ours."""
    (compose,) = documents(COMPOSE)
    return {name: compose["services"][name] for name in ("master", "worker")}


def unit(path: Path) -> dict[str, list[str]]:
    """The settings of a systemd unit; one can be there several times."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if match := re.match(r"(\w+)=(.*)", line):
            found.setdefault(match[1], []).append(match[2])
    return found


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Every command line that starts the program, with where it stands."""
    for path in UNITS:
        (line,) = unit(path)["ExecStart"]
        yield path.name, line.split()[1:]
    for name, service in services().items():
        yield f"compose {name}", service["command"]
    for name in ("crawlfleet-master", "crawlfleet-worker"):
        yield f"kubernetes {name}", container(name)["args"]


def variables() -> Iterator[tuple[str, str]]:
    """Every variable that is set, with where it stands."""
    for path in UNITS:
        for text in unit(path)["Environment"]:
            yield path.name, text.partition("=")[0]
    for path in (DEPLOY / "systemd").glob("*.env"):
        for match in re.finditer(r"^(?:# )?([A-Z_]+)=", path.read_text(), re.MULTILINE):
            yield path.name, match[1]
    for name, service in services().items():
        for variable in service["environment"]:
            yield f"compose {name}", variable
    for name in ("crawlfleet-master", "crawlfleet-worker"):
        for variable in container(name)["env"]:
            yield f"kubernetes {name}", variable["name"]
    for match in re.finditer(r"\b(CRAWLFLEET_\w+)=", DOCKERFILE.read_text()):
        yield "Dockerfile", match[1]
