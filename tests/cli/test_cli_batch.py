"""Many tasks at once."""

import asyncio
import signal
from datetime import UTC, datetime
from typing import Any

import pytest

from crawlfleet.cli.commands import batch, submit
from crawlfleet.cli.commands.batch import BatchEntry
from crawlfleet.cli.shell import waiting
from crawlfleet.cli.shell.batch_orders import order_each
from crawlfleet.cli.shell.command import CommandContext, for_each
from crawlfleet.cli.shell.output import CommandOutput
from crawlfleet.errors import Conflict, MasterUnreachable
from crawlfleet.views.tasks import BatchItem, BatchReply, TaskReceipt


class Fleet:
    """A master that accepts all, or none."""

    def __init__(self, *, answers: int = 1000) -> None:
        self.received: list[list[dict[str, Any]]] = []
        self._answers = answers

    async def submit_batch(self, tasks: list[dict[str, Any]]) -> BatchReply:
        if len(self.received) == self._answers:
            raise MasterUnreachable("nobody there")
        self.received.append(tasks)
        items = [BatchItem(id=f"task-{task['task_type']}", status="pending") for task in tasks]
        return BatchReply(items=items, deduplicated=1)


def desk(fleet: Any = None) -> CommandContext:
    return CommandContext(fleet, CommandOutput(json=True))


def test_portions_hold_at_most_ten_thousand_tasks() -> None:
    entries = [BatchEntry(request={}, size=10)] * 25_000
    assert [len(each) for each in batch.portions(entries)] == [10_000, 10_000, 5_000]
    assert list(batch.portions([])) == []


def test_portions_stay_below_what_a_master_takes() -> None:
    sizes = [5_000_000, 5_000_000, 1_000_000, 20_000_000]
    portions = batch.portions(BatchEntry(request={}, size=size) for size in sizes)
    assert [[entry.size for entry in portion] for portion in portions] == [
        [5_000_000],
        [5_000_000, 1_000_000],
        [20_000_000],
    ]


def test_a_line_says_what_it_wants_and_the_flags_say_the_rest() -> None:
    lines = [b'{"priority": 9}\n', b"\n", b'{"task_type": "b", "idempotency_key": "own"}']
    entries = batch.read_lines(lines, {"task_type": "a", "idempotency_key": "k"})
    assert [entry.request for entry in entries] == [
        {"task_type": "a", "priority": 9, "idempotency_key": "k-1"},
        {"task_type": "b", "idempotency_key": "own"},
    ]


def test_copies_with_an_idempotency_key_are_numbered() -> None:
    keys = [e.request["idempotency_key"] for e in batch.copies({"idempotency_key": "k"}, 3)]
    assert keys == ["k-1", "k-2", "k-3"]
    assert [entry.request for entry in batch.copies({"task_type": "a"}, 2)] == [
        {"task_type": "a"}
    ] * 2


def test_outcomes_are_in_the_order_of_the_lines() -> None:
    fleet = Fleet()
    lines = [b'{"task_type": "a"}', b"[]", b'{"task_type": "b"}', b"{"]
    reply = asyncio.run(batch.send(desk(fleet), batch.read_lines(lines, {}), None))
    assert [item.id for item in reply.items] == ["task-a", None, "task-b", None]
    errors = [item.error.detail for item in reply.items if item.error]
    assert [detail.partition(" is")[0] for detail in errors] == ["line 2", "line 4"]
    assert fleet.received == [[{"task_type": "a"}, {"task_type": "b"}]]


def test_refusals_are_told_by_number_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [b'{"task_type": "a"}', *([b"["] * 25)]
    reply = asyncio.run(batch.send(desk(Fleet()), batch.read_lines(lines, {}), None))
    assert batch.complain(reply) == 25
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("error: task 2: line 2 is not")
    assert told[-1] == "error: and 5 more"


def test_a_master_that_goes_away_in_between_is_told_with_what_was_sent() -> None:
    entries = batch.copies({"task_type": "a"}, 10_001)
    with pytest.raises(MasterUnreachable, match="after 10000 tasks"):
        asyncio.run(batch.send(desk(Fleet(answers=1)), entries, None))


def test_work_is_done_for_each_with_a_limit_at_once() -> None:
    now, most, done = 0, 0, []

    async def work(number: int) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        done.append(number)

    asyncio.run(for_each(range(100), work))
    assert sorted(done) == list(range(100))
    assert 1 < most <= 32


def test_the_first_error_ends_the_work_as_itself() -> None:
    async def work(number: int) -> None:
        raise Conflict(f"no {number}")

    with pytest.raises(Conflict, match="no 0"):
        asyncio.run(for_each(range(3), work))


def test_an_order_that_one_refuses_still_reaches_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def order(id: str) -> str:
        if id == "b":
            raise Conflict("it is completed")
        return id.upper()

    with pytest.raises(Exception) as exit:  # noqa: PT011 (checked below)
        asyncio.run(order_each(desk(), ["a", "b", "c", "a"], order, lambda views: str(views)))
    assert getattr(exit.value, "exit_code", None) == 1
    captured = capsys.readouterr()
    assert captured.out.split() == ["[", '"A",', '"C"', "]"]
    assert captured.err.startswith("error: b: it is completed")


def test_waiting_outlasts_a_short_absence_of_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PAUSE_S", 0.0)

    class Absent:
        asked = 0

        async def wait(self, task_id: str) -> str:
            self.asked += 1
            if self.asked < 3:
                raise MasterUnreachable("restarting")
            return task_id

    assert asyncio.run(waiting._wait_patiently(desk(Absent()), "task-1")) == "task-1"


class Silent(Fleet):
    """A master that takes work and then never says how it ended."""

    def __init__(self, *, is_gone: bool) -> None:
        super().__init__()
        self._is_gone = is_gone

    async def submit(self, **fields: Any) -> TaskReceipt:
        return TaskReceipt(id="task-1", status="pending", created_at=datetime.now(UTC), priority=5)

    async def wait(self, task_id: str) -> Any:
        if self._is_gone:
            raise MasterUnreachable("gone for good")
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(30)


@pytest.mark.parametrize(
    ("is_gone", "error"), [(True, MasterUnreachable), (False, KeyboardInterrupt)]
)
@pytest.mark.parametrize("count", [None, 1])
@pytest.mark.usefixtures("interruptible")
def test_who_waits_in_vain_knows_what_goes_on(
    is_gone: bool,
    error: type[BaseException],
    count: int | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", -1.0)
    at = desk(Silent(is_gone=is_gone))
    task = {"task_type": "1"}
    sent = (
        submit._submit_one(at, task, wait=True)
        if count is None
        else submit._submit_many(at, batch.copies(task, count), count, wait=True)
    )
    with pytest.raises(error):
        asyncio.run(sent)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[0] == "submitted task-1"
    assert "it goes on; `crawlfleet tasks wait task-1`" in told.err


def test_of_very_many_tasks_some_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting.submitted([f"task-{number}" for number in range(1000)], "tasks wait"):
        pass
    said = capsys.readouterr().err
    assert said.startswith("submitted task-0 task-1 ")
    assert said.endswith(" and 980 more\n")
