"""Reports that the master wants to hear again: nothing else waits for them, and none is lost."""

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from crawlfleet.model.task import JSON_NULL, ErrorClass, TaskError
from crawlfleet.model.wire.node_protocol import (
    Assignment,
    Report,
    ReportBatch,
    ReportKind,
    ReportOutcome,
    ReportReply,
)
from crawlfleet.testing.simulation.clock import SimulatedSystem, run_simulated
from crawlfleet.worker.session.reports import (
    ASK_AGAIN_S,
    BYTES_AT_ONCE,
    REPORTS_AT_ONCE,
    Reports,
    portion,
)

RECORDED, LATER = ReportOutcome.RECORDED, ReportOutcome.LATER


class Link:
    """A master that cannot decide on some executions yet."""

    def __init__(self, *undecided: str) -> None:
        self.undecided = {*undecided}
        self.batches: list[ReportBatch] = []

    async def report(self, node_id: str, batch: ReportBatch) -> ReportReply:
        self.batches.append(batch)
        return ReportReply(
            outcomes=tuple(
                LATER if each.execution_id in self.undecided else RECORDED for each in batch.reports
            )
        )


class Keeper:
    """A node's disk."""

    def __init__(self) -> None:
        self.kept: set[str] = set()

    async def keep(self, node_id: str, batch: ReportBatch) -> None:
        self.kept |= {each.execution_id for each in batch.reports}

    async def forget(self, execution_ids: Iterable[str]) -> None:
        self.kept -= {*execution_ids}


def assignment(id: str) -> Assignment:
    return Assignment(
        execution_id=id,
        task_id=f"task-{id}",
        token=1,
        task_type="work",
        parameters=JSON_NULL,
        timeout_s=None,
    )


def made(link: Any, keeper: Any) -> Reports:
    return Reports(
        link=link,
        system=SimulatedSystem(random.Random(0)),
        keeper=keeper,
        node_id="node-1",
        session_id="sess-1",
    )


def ids(answered: Iterable[tuple[Report, ReportOutcome]]) -> list[str]:
    return [report.execution_id for report, _ in answered]


def test_what_has_to_be_said_again_is_kept_and_holds_up_nothing_else() -> None:
    async def scene() -> None:
        link, keeper = Link("slow"), Keeper()
        reports = made(link, keeper)
        reports.say(assignment("slow"), ReportKind.SUCCEEDED)
        reports.say(assignment("quick"), ReportKind.SUCCEEDED)
        assert ids(await reports.send()) == ["quick"]
        assert link.batches[0].knows_later
        # There is nothing to send, so that nobody asks in a tight circle; yet it is not forgotten.
        assert not reports
        assert reports.mentions("slow")
        assert keeper.kept == {"slow"}
        reports.say(assignment("other"), ReportKind.FAILED)
        assert ids(await reports.send()) == ["other"]
        assert keeper.kept == {"slow"}
        await reports.news()
        async with asyncio.timeout(2 * ASK_AGAIN_S):
            await reports.news()
        assert ids(await reports.send()) == []
        link.undecided.clear()
        async with asyncio.timeout(2 * ASK_AGAIN_S):
            await reports.news()
        assert ids(await reports.send()) == ["slow"]
        assert keeper.kept == set()
        assert not reports.mentions("slow")

    run_simulated(scene())


@pytest.mark.parametrize(
    ("error", "metrics"),
    [
        (
            TaskError(error_class=ErrorClass.ERROR, message="失败" * 1_000, details="详" * 8_000),
            {},
        ),
        (None, {f"figure number {number}": number / 7 for number in range(100)}),
    ],
    ids=["errors", "figures"],
)
def test_long_errors_and_many_figures_are_divided_as_results_are(
    error: TaskError | None, metrics: dict[str, float]
) -> None:
    reports = [
        Report(
            execution_id=str(number),
            task_id=str(number),
            token=1,
            kind=ReportKind.FAILED,
            at=0.0,
            error=error,
            metrics=metrics,
        )
        for number in range(REPORTS_AT_ONCE)
    ]
    sent = portion(reports)
    assert 1 < len(sent) < len(reports)
    assert len(msgspec.json.encode(sent)) < 1.1 * BYTES_AT_ONCE
    assert portion(reports[:1]) == tuple(reports[:1])
