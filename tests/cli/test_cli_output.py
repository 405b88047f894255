"""How commands answer."""

import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from rich.console import Console, RenderableType

from crawlfleet.cli.commands.explain import draw_explanation
from crawlfleet.cli.commands.nodes import draw_node, draw_nodes
from crawlfleet.cli.commands.tasks import draw_task, draw_tasks
from crawlfleet.cli.fleet.status import draw_status
from crawlfleet.cli.shell.output import (
    CommandOutput,
    cell,
    facts,
    printable,
    since,
    span,
    state,
    table,
)
from crawlfleet.model.explanation import Explanation, NodeVerdict, Reason
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import ErrorClass, TaskError
from crawlfleet.views.events import EventView
from crawlfleet.views.executions import ExecutionView
from crawlfleet.views.nodes import NodeView
from crawlfleet.views.status import FleetStatus, Totals
from crawlfleet.views.tasks import TaskExplanation, TaskView

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
TASK_ID = "task-01jabcdefghjkmnpqrstvwxyz0"
NODE_ID = "node-01jabcdefghjkmnpqrstvwxyz0"
TASK = TaskView(
    id=TASK_ID,
    project_id="default",
    cluster_id="default",
    task_type="sleep",
    parameters={"seconds": 1},
    priority=5,
    status="failed",
    created_at=NOW,
    updated_at=NOW,
    retry_count=1,
    max_retries=3,
    assigned_node=NODE_ID,
    error=TaskError(error_class=ErrorClass.ERROR, message="no [red]luck\x1b[2J"),
)
NODE = NodeView(
    id=NODE_ID,
    name="alpha",
    description="",
    cluster_id="default",
    ip_address="",
    port=0,
    node_type="standard",
    region=None,
    labels={},
    capabilities={"javascript": True},
    task_types=("sleep",),
    resources=Resources(cpu_cores=2, slots=4),
    status="online",
    health="healthy",
    usage={"cpu_usage": 0.25},
    load=0.0,
    active_tasks=(TASK_ID, TASK_ID),
    last_heartbeat=NOW,
    created_at=NOW,
    updated_at=NOW,
)


def text_of(drawn: RenderableType, width: int = 1000) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    console.print(drawn)
    written = console.file
    assert isinstance(written, io.StringIO)
    return written.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0.0 s"), (0.25, "0.2 s"), (59, "59.0 s"), (60, "1 min"), (7200, "2 h"), (1e6, "12 d")],
)
def test_spans_are_in_their_largest_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_a_text_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31mb\rc\x9bd") == "a\\x1b[31mb\\rc\\x9bd"
    assert printable("a\nb") == "a\\nb"
    assert printable("a\nb", lines=True) == "a\nb"
    assert printable("网页") == "网页"


def test_json_is_one_document_as_the_api_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    CommandOutput(json=True).show([TASK], lambda: "not asked for")
    [task] = json.loads(capsys.readouterr().out)
    assert task["id"] == TASK_ID
    assert task["created_at"] == "2030-01-02T03:04:05Z"
    assert "result" not in task


def test_remarks_are_for_people_and_go_to_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    CommandOutput(json=False).remark("hello")
    CommandOutput(json=True).remark("silent")
    captured = capsys.readouterr()
    assert (captured.out, captured.err.strip()) == ("", "hello")


def test_a_piped_table_has_whole_ids_and_one_line_for_each_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    CommandOutput(json=False).show([TASK] * 3, lambda: draw_tasks([TASK] * 3))
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "type", "status", "prio", "retries", "age", "node"]
    assert len(rows) == 3
    assert all(row.startswith(TASK_ID) and NODE_ID in row for row in rows)
    assert not any("\x1b" in row for row in rows)


def test_a_narrow_terminal_cuts_the_node_but_not_the_id() -> None:
    assert TASK_ID in text_of(draw_tasks([TASK]), width=80)


def test_what_is_not_there_is_left_out_or_a_dash() -> None:
    assert text_of(facts([("a", cell("1")), ("b", None)])).split() == ["a", "1"]
    assert str(cell(None)) == str(since(None)) == "-"
    assert text_of(table(("id",), [])).strip() == "id"


def test_ages_count_from_now() -> None:
    assert str(since(datetime.now(UTC) - timedelta(hours=5, minutes=10))) == "5 h"


def test_states_have_colours() -> None:
    assert state("failed").style == "red"
    assert state("something new").style == ""


def test_a_task_is_shown_with_its_story_and_without_markup() -> None:
    attempt = ExecutionView(
        id="exec-1",
        task_id=TASK_ID,
        node_id=NODE_ID,
        token=1,
        status="failed",
        start_time=NOW,
        running_at=NOW,
        end_time=NOW + timedelta(seconds=2),
        error=TASK.error,
    )
    event = EventView(
        seq=1, kind="task.failed", subject=TASK_ID, at=NOW, cause="reported", to_state="failed"
    )
    shown = text_of(draw_task(TASK, [attempt], [event]))
    for part in (TASK_ID, "1 of 3", '"seconds": 1', "no [red]luck\\x1b[2J", "2.0 s", "task.failed"):
        assert part in shown
    assert "\x1b" not in shown


def test_nodes_show_what_they_do_and_measure() -> None:
    listed, whole = text_of(draw_nodes([NODE])), text_of(draw_node(NODE))
    assert "online" in listed
    assert "healthy" not in listed
    assert "2/4" in listed
    assert "25%" in listed
    assert "cpu_cores 2, slots 4" in whole
    assert whole.count(TASK_ID) == 2


def test_a_node_that_is_not_well_stands_out_in_the_list() -> None:
    node = msgspec.structs.replace(NODE, health="degraded")
    assert "online, degraded" in text_of(draw_nodes([node]))


def test_status_names_only_states_that_occur() -> None:
    totals = Totals(tasks={"pending": 2, "failed": 0}, nodes={}, ready=1, delayed=1, running=0)
    shown = text_of(draw_status(FleetStatus(version="1.0", epoch=1, totals=totals), []))
    assert "2 pending" in shown
    assert "failed" not in shown
    assert "1 ready, 1 delayed" in shown


def test_an_explanation_names_filters_and_each_nodes_reasons() -> None:
    placement = Explanation(
        summary="None of 2 nodes can take it now.",
        feasible=False,
        nodes=2,
        feasible_nodes=1,
        rejected={"capabilities": 1},
        details=(
            NodeVerdict(
                node_id=NODE_ID, name="alpha", reasons=(Reason("capabilities", "gpu: none"),)
            ),
            NodeVerdict(node_id="node-2", name="beta"),
        ),
    )
    explanation = TaskExplanation(
        task_id=TASK_ID,
        status="pending",
        summary=placement.summary,
        placement=placement,
        ready_tasks=7,
        ready_at=NOW.timestamp(),
    )
    shown = text_of(draw_explanation(explanation))
    for part in ("is pending", placement.summary, "capabilities: gpu: none", "can take it now"):
        assert part in shown
    assert ["ahead", "of", "it", "7"] in [line.split() for line in shown.splitlines()]


def test_a_settled_task_is_explained_in_one_sentence() -> None:
    explanation = TaskExplanation(task_id=TASK_ID, status="completed", summary="ended as completed")
    assert "ended as completed" in text_of(draw_explanation(explanation))


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_closed_output_is_told_and_is_no_defect(form: tuple[str, ...]) -> None:
    ran = subprocess.run(
        ["sh", "-c", '"$0" -m crawlfleet config show "$@" >&-', sys.executable, *form],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode == 1
    assert "there is no standard output" in ran.stderr
    assert "defect" not in ran.stderr
