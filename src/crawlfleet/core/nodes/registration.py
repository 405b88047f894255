"""Registration of nodes: checks a node's description of itself, and its measurements.

The values reach placement, the store and people's screens. So they are checked like those of a
task: every problem at once, each with its field and remedy.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from ipaddress import ip_address
from typing import Any, Final

from crawlfleet.core.network.egress import embedded, refusal
from crawlfleet.core.tasks.admission import (
    MAX_ENTRIES,
    TASK_TYPE,
    feature_problems,
    resource_problems,
)
from crawlfleet.core.text.decode_errors import LONGEST_NAME
from crawlfleet.core.text.names import DESCRIPTION, NAME
from crawlfleet.errors import FieldProblem
from crawlfleet.model.wire.node_protocol import PROTOCOL, Heartbeat, Registration

DISPLAY_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{1,255}\Z")
ADDRESS: Final = re.compile(r"[0-9A-Za-z.:%_-]{0,255}\Z")
LABEL: Final = re.compile(r"[^\x00-\x1f\x7f]{0,200}\Z")
MAX_TASK_TYPES: Final = 1000
MAX_LOAD: Final = 1e6
"""Limit of a node's load. Load may exceed 1 when processes wait; usage may not."""
MAX_TIMEOUT_S: Final = 86_400.0
SHARES: Final = ("cpu_usage", "memory_usage", "gpu_usage", "disk_usage")
RATES: Final = ("network_io", "disk_io")

_A_NAME: Final = "use letters, digits, dot, dash and underscore, at most 64"
_TEXTS: Final = (
    ("name", DISPLAY_NAME, "is not a name for a node", "use 1 to 255 printable characters"),
    ("description", DESCRIPTION, "is too long", "use at most 2000 characters, and no NUL"),
    ("ip_address", ADDRESS, "is not an address", "send an IP address or a host name"),
    ("node_type", NAME, "is not a valid name", _A_NAME),
    ("region", NAME, "is not a valid name", f"{_A_NAME}, or leave it out"),
)


def registration_problems(
    registration: Registration, clusters: Collection[str]
) -> Iterator[FieldProblem]:
    """Yield the problems of a node's description of itself."""
    for field, pattern, message, remedy in _TEXTS:
        value = getattr(registration, field)
        if value is not None and not pattern.match(value):
            yield _problem(field, value, message, remedy)
    if not 0 <= registration.port <= 65535:
        yield _problem("port", registration.port, "is not a port", "use a number from 0 to 65535")
    if registration.cluster_id not in clusters:
        yield _problem(
            "cluster_id",
            registration.cluster_id,
            "is not a cluster",
            f"use one of {', '.join(sorted(clusters))}",
        )
    if registration.protocol != PROTOCOL:
        yield _problem(
            "protocol",
            registration.protocol,
            f"is not the version of the node protocol that this master speaks, which is {PROTOCOL}",
            "install the same crawlfleet on this node and on the master",
        )
    yield from labels_problems(registration.labels)
    yield from _task_types(registration.task_types)
    yield from feature_problems("capabilities", registration.capabilities)
    yield from resource_problems("resources", registration.resources)


def probe_problems(registration: Registration, *, allow_loopback: bool) -> Iterator[FieldProblem]:
    """Yield the problems for which the master will not probe the health endpoint that a node
    advertises."""
    if not registration.probe:
        return
    refused = probe_refusal(registration.ip_address, allow_loopback=allow_loopback)
    if refused is not None:
        yield _problem(
            "ip_address",
            registration.ip_address,
            f"cannot be probed: {refused}",
            "advertise the IP address at which the master reaches the node, or none",
        )
    if not registration.port:
        yield _problem("port", registration.port, "is missing", "send the health endpoint's port")


def probe_refusal(address: str, *, allow_loopback: bool) -> str | None:
    """Return why the master must not connect to an address that a node advertises; `None` if it
    may."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return "not an IP address"
    for spelling in (parsed, *embedded(parsed)):
        if spelling.is_link_local:
            return "a link-local address"
        if spelling.is_loopback and not allow_loopback:
            return "a loopback address"
    return refusal(address, allow_private=True)


def heartbeat_problems(heartbeat: Heartbeat) -> Iterator[FieldProblem]:
    """Yield the measurements of a heartbeat that are impossible."""
    for field in SHARES:
        share = getattr(heartbeat.resources, field)
        if share is not None and not 0 <= share <= 1:
            yield _problem(
                f"resources.{field}", share, "is not a share", "use a number from 0 to 1, not %"
            )
    for field in RATES:
        rate = getattr(heartbeat.resources, field)
        if rate < 0:
            yield _problem(f"resources.{field}", rate, "is below zero", "use bytes per second")
    if (free := heartbeat.resources.disk_free_mb) is not None and free < 0:
        yield _problem("resources.disk_free_mb", free, "is below zero", "use megabytes")
    told = heartbeat.session_timeout_s
    if told is not None and not 0 < told <= MAX_TIMEOUT_S:
        yield _problem(
            "session_timeout_s",
            told,
            "is out of range",
            f"use a number above 0, to {MAX_TIMEOUT_S:g}",
        )
    for field in ("configuration_version", "number"):
        given = getattr(heartbeat, field)
        if given is not None and not 0 <= given < 2**63:
            yield _problem(field, given, "is out of range", "use a number from 0 to 2^63 - 1")
    if not 0 <= heartbeat.load <= MAX_LOAD:
        yield _problem(
            "load", heartbeat.load, "is out of range", f"use a number from 0 to {MAX_LOAD:g}"
        )


def labels_problems(labels: Mapping[str, str]) -> Iterator[FieldProblem]:
    """Yield the problems of labels."""
    if len(labels) > MAX_ENTRIES:
        yield _problem("labels", len(labels), "has too many entries", f"use at most {MAX_ENTRIES}")
    for name, value in labels.items():
        if not (NAME.match(name) and LABEL.match(value)):
            yield _problem(
                f"labels.{name[:LONGEST_NAME]}",
                value,
                "is not a label",
                f"{_A_NAME}, for its name, and at most 200 printable characters for its value",
            )


def _task_types(task_types: tuple[str, ...]) -> Iterator[FieldProblem]:
    if (count := len(task_types)) > MAX_TASK_TYPES:
        yield _problem("task_types", count, "has too many entries", f"use at most {MAX_TASK_TYPES}")
    for index, task_type in enumerate(task_types):
        if not TASK_TYPE.match(task_type):
            yield _problem(
                f"task_types[{index}]",
                task_type,
                "is not the name of a task type",
                "use lower-case letters, digits and underscores, at most 50",
            )


def _problem(field: str, value: Any, message: str, remedy: str) -> FieldProblem:
    return FieldProblem(field=field, value=value, message=message, remedy=remedy)
