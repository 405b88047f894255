"""Whoever waits for tasks is told soon after each has ended, however many they are."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import pytest

from crawlfleet.client import Client
from crawlfleet.features.workflows.views import RunView
from crawlfleet.testing.simulation.clock import run_simulated
from crawlfleet.views.tasks import TaskView

NEVER = float("inf")


def a_thing(kind: type[Any], id: str, status: str) -> Any:
    """A task or a run of which only the id and the state matter."""
    given = {"id": id, "status": status}
    fields = {
        field.name: given.get(field.name)
        for field in msgspec.structs.fields(kind)
        if field.required
    }
    return kind(**fields)


class Tasks:
    """In place of the transport: tasks that end at known instants, and are waited for."""

    def __init__(self, ends: Mapping[str, float]) -> None:
        self._ends = ends
        self.looks = 0
        self.under_way = 0
        self.most_under_way = 0

    async def call(
        self, method: str, path: str, type: Any, *, wait_s: float, **options: Any
    ) -> Any:
        id = path.rpartition("/")[2]
        self.looks += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            left_s = self._ends[id] - asyncio.get_running_loop().time()
            await asyncio.sleep(max(0.001, min(left_s, wait_s)))
        finally:
            self.under_way -= 1
        has_ended = asyncio.get_running_loop().time() >= self._ends[id]
        if type is RunView:
            return a_thing(RunView, id, "running")
        return a_thing(TaskView, id, "completed" if has_ended else "processing")


def simulated(tasks: Tasks, use: Callable[[Client], Awaitable[Any]]) -> Any:
    async def scenario() -> Any:
        fleet = Client("http://127.0.0.1:9", "k")
        fleet._transport = tasks  # type: ignore[assignment]
        return await use(fleet)

    return run_simulated(scenario())


def test_tasks_that_never_end_do_not_hide_those_that_have_ended() -> None:
    ends = {f"stuck-{number}": NEVER for number in range(70)}
    ends |= {f"done-{number}": 0.0 for number in range(3)}

    async def use(fleet: Client) -> list[str]:
        told: list[str] = []
        async with asyncio.timeout(10):
            async for task in fleet.as_they_end(ends):
                told.append(task.id)
                if len(told) == 3:
                    return told
        raise AssertionError("not reached")

    tasks = Tasks(ends)
    assert sorted(simulated(tasks, use)) == ["done-0", "done-1", "done-2"]
    assert tasks.most_under_way <= 64


def test_each_of_hundreds_is_told_within_seconds_of_its_end() -> None:
    ends = {f"task-{number}": (number * 37 % 500) / 5 for number in range(500)}

    async def use(fleet: Client) -> list[float]:
        loop = asyncio.get_running_loop()
        return [loop.time() - ends[task.id] async for task in fleet.as_they_end(ends)]

    tasks = Tasks(ends)
    delays = simulated(tasks, use)
    assert len(delays) == 500
    assert max(delays) < 4.0
    assert tasks.looks < 100 * 256, "the master is left time for other things"


def test_few_tasks_are_not_asked_about_more_often_than_long_polls_need() -> None:
    tasks = Tasks({"a": 55.0, "b": 10.0})

    async def use(fleet: Client) -> list[str]:
        return [task.id async for task in fleet.as_they_end(["a", "b", "a"])]

    assert simulated(tasks, use) == ["b", "a"]
    assert tasks.looks == 4


def test_all_come_in_the_order_of_their_ids() -> None:
    ends = {f"task-{number}": float(200 - number) for number in range(200)}
    found = simulated(Tasks(ends), lambda fleet: fleet.wait_for_all(ends))
    assert [task.id for task in found] == list(ends)


def test_who_stops_listening_leaves_nothing_under_way() -> None:
    tasks = Tasks({"done": 0.0, **{f"stuck-{number}": NEVER for number in range(100)}})

    async def use(fleet: Client) -> None:
        ends = fleet.as_they_end(["done", *(f"stuck-{number}" for number in range(100))])
        assert (await anext(ends)).id == "done"
        await ends.aclose()
        await asyncio.sleep(0.01)

    simulated(tasks, use)
    assert tasks.under_way == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda fleet: fleet.wait("stuck-1", timeout_s=50),
        lambda fleet: fleet.wait_for_all(["done", "stuck-1"], timeout_s=50),
        lambda fleet: fleet.wait_for_run("stuck-1", timeout_s=50),
    ],
    ids=["wait", "wait_for_all", "wait_for_run"],
)
def test_waiting_ends_when_it_was_told_to(use: Callable[[Client], Awaitable[Any]]) -> None:
    tasks = Tasks({"stuck-1": NEVER, "done": 0.0})

    async def timed(fleet: Client) -> float:
        with pytest.raises(TimeoutError, match="had not ended within 50 s"):
            await use(fleet)
        return asyncio.get_running_loop().time()

    assert simulated(tasks, timed) == pytest.approx(50.0, abs=0.1)
    assert tasks.under_way == 0


def test_what_ends_in_time_is_told_in_spite_of_a_limit() -> None:
    tasks = Tasks({"task-1": 30.0})
    assert simulated(tasks, lambda fleet: fleet.wait("task-1", timeout_s=50)).id == "task-1"
