"""The master does what its description says, whatever is sent to it, and has no defect."""

import contextlib
import copy
import time
from collections.abc import Iterator
from typing import Any, Final
from zlib import crc32

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core import NotSet
from schemathesis.pytest._keys import _PYTEST_SCHEMAS_KEY
from schemathesis.schemas import BaseSchema

from crawlfleet.api.app import ROUTES
from tests.api.description import DOCUMENT
from tests.api.plain_http import Master, Node, deploy, measured_task, webhook_with_delivery
from tests.sampling import SOAK

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api schemathesis")]

MAX_WAIT_S: Final = 0.05
EXAMPLES: Final = 20 if SOAK else 3
"""Beside those at the bounds of each field."""
ALIKE: Final = {
    "pause_tasks": "cancel_tasks",
    "resume_tasks": "cancel_tasks",
    "retry_tasks": "cancel_tasks",
    "reprioritise_tasks": "cancel_tasks",
    "discard_dead_letters": "requeue_dead_letters",
}
"""Routes whose bodies are what another takes, too, where all bounds are tried: of these a part is,
each day another, and all in the soak."""
SHARED: Final = {
    "submit_workflow": "document",
    "validate_workflow": "document",
    "create_tasks": "tasks",
    "create_schedule": "task",
    "change_schedule": "task",
}
"""Fields that hold what `save_workflow` or `create_task` takes: of the cases that are about what is
within them a part is tried likewise; all that these routes have of their own always is."""
PART: Final = 1 if SOAK else 10
DAY: Final = int(time.time() // 86_400)
load_all_checks()
ACCEPTS_GOOD, REFUSES_BAD = (
    CHECKS.get_one(name) for name in ("positive_data_acceptance", "negative_data_rejection")
)

schema = schemathesis.pytest.from_fixture("description")
"""The cases of an operation take megabytes: each test makes its own when it runs."""


@pytest.fixture
def description() -> BaseSchema:
    return schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT))  # cases are changed


@pytest.fixture(autouse=True)
def forgotten(pytestconfig: pytest.Config) -> Iterator[None]:
    """Schemathesis makes a copy of the description for each test, some 6 MB with what it derives
    from it, and would keep all of them for a report that nobody asks for."""
    yield
    pytestconfig.stash.get(_PYTEST_SCHEMAS_KEY, {}).clear()


@pytest.fixture(scope="module")
def ids(master: Master) -> dict[str, str]:
    """Things that are there to be found."""
    node: Node = master.node(task_types=["once"])
    master.submit(task_type="once")
    work = node.take()
    # It has ended, so that whoever follows its log is soon told so.
    node.report(work, "succeeded")
    for kind in ("projects", "clusters"):
        master.post(f"/api/v1/{kind}", {"id": "there"}, status=201)
    body = {"name": "THERE", "value": "correct horse"}
    secret = master.post("/api/v1/projects/there/secrets", body, status=201)
    document = {"name": "there", "steps": {"a": {"task_type": "nobodys"}}}
    ran = master.post("/api/v1/workflows:submit", {"document": document}, status=201)
    webhook, delivery = webhook_with_delivery(master, "there")
    rule = {"name": "there", "source": "queue_length", "above": 1e6}
    return {
        "node_id": node.id,
        "device_id": node.id,
        "service": "frontier",
        "task_id": master.submit(task_type="nobodys"),
        "execution_id": work["execution_id"],
        "project_id": "there",
        "cluster_id": "there",
        "key_id": master.key("found", "viewer")[0],
        "bundle_id": deploy(master, "there", "there")["name"],
        "secret_id": secret["name"],
        "join_token_id": master.join_token()[0],
        "workflow_id": ran["workflow_id"],
        "run_id": ran["id"],
        "webhook_id": webhook,
        "delivery_id": delivery,
        "target": "shop.example",
        "alert_id": master.post("/api/v1/alerts", rule, status=201)["id"],
        "series_id": measured_task(master)[1],
        "schedule_id": master.post(
            "/api/v1/schedules",
            {"name": "there", "every_s": 1e6, "task": {"task_type": "nobodys"}},
            status=201,
        )["id"],
    }


def found(case: Any, ids: dict[str, str]) -> bool:
    """Let about half of the requests be about something that exists; whether this one is."""
    changed = False
    for name, value in (case.path_parameters or {}).items():
        if len(str(value)) % 2:
            case.path_parameters[name] = ids[name]
            changed = True
    return changed


def patient(asked: Any, name: str) -> None:
    """Nobody waits long for these."""
    if isinstance(asked, dict) and name in asked:
        with contextlib.suppress(TypeError, ValueError):
            asked[name] = type(asked[name])(min(float(asked[name]), MAX_WAIT_S))


def is_tried_elsewhere(name: str, case: Any) -> bool:
    """Whether a case is about something that another route takes as well."""
    if name not in SHARED:
        return name in ALIKE
    about = getattr(case.meta and case.meta.phase.data, "description", None) or ""
    field = SHARED[name]
    return about.startswith((f"{field} -> ", f"Object with valid '{field}' value: "))


def is_chosen(case: Any) -> bool:
    """Whether a case is of the part that is tried today: the same for a case that is repeated."""
    body = None if isinstance(case.body, NotSet) else case.body
    said = repr((case.path_parameters, case.query, case.headers, body))
    return (crc32(said.encode(errors="backslashreplace")) + DAY) % PART == 0


def answers_as_described(name: str) -> Any:
    """A test of one operation."""

    @schema.include(operation_id=name).parametrize()
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    def test(case: Any, master: Master, ids: dict[str, str]) -> None:
        if is_tried_elsewhere(name, case) and not is_chosen(case):
            return
        is_changed = found(case, ids)
        patient(case.query, "wait")
        patient(case.body, "wait_s")
        # A task that fits the schema may still be refused: admission knows more than types do.
        excluded = [ACCEPTS_GOOD]
        if is_changed and case.method == "GET":
            # What was wrong with its path has been put right, and a long wait is a short one.
            excluded.append(REFUSES_BAD)
        if case.path.endswith((":batch", ":validate")):
            # One bad task does not spoil the others; the answer has a problem in its place. And
            # what is wrong with a document is the answer of who was asked for just that.
            excluded.append(REFUSES_BAD)
        case.call_and_validate(
            base_url=master.fleet.url,
            headers={"Authorization": f"Bearer {master.fleet.key}"},
            excluded_checks=excluded,
        )

    return test


# One test would have the same id for all operations, and xdist runs each id once.
for route in ROUTES:
    globals()[f"test_{route.name}_answers_as_described"] = answers_as_described(route.name)


def test_the_master_met_no_defect_in_all_this(master: Master) -> None:
    assert "Traceback" not in master.log()
    assert "a defect" not in master.log()


def test_what_is_tried_elsewhere_is_there() -> None:
    assert {*ALIKE, *ALIKE.values(), *SHARED} <= {route.name for route in ROUTES}
    assert not {*ALIKE} & {*ALIKE.values()}
