"""Short executions sent ahead to a process: quick when all goes well, and nobody else's trouble."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Attempt, NotBegun
from crawlfleet.testing.executor_suite import WatchedRun, make_assignment
from crawlfleet.worker.pool.pool import ProcessPool

pytestmark = pytest.mark.slow

T = TypeVar("T")

USER_CODE = """
import asyncio, os, sys, time

async def number(given): return given
async def block(seconds): time.sleep(seconds)
async def nap(seconds): await asyncio.sleep(seconds)
async def die(): os._exit(3)
async def says(text): print(text)
async def writes(text): os.write(2, text.encode())
"""


@pytest.fixture(autouse=True)
def user_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quickcode.py").write_text(USER_CODE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


class Sent:
    """An execution that was given to the pool."""

    def __init__(self, pool: ProcessPool, name: str, *args: object, ahead: bool, **options: float):
        self.watch = WatchedRun()
        parameters = {"function": f"quickcode:{name}", "args": list(args)}
        self._pool = pool
        self._assignment = make_assignment("python", parameters, **options)
        self.run: asyncio.Task[Attempt] = asyncio.create_task(
            pool.run(self._assignment, self.watch, ahead=ahead)
        )

    async def data(self) -> object:
        """Its result; on a busy machine even short ones may be handed back, and begin later."""
        try:
            attempt = await self.run
        except NotBegun:
            assert self.watch.starts == 0
            attempt = await self._pool.run(self._assignment, self.watch)
        assert attempt.error is None, attempt.error
        assert attempt.data is not None
        return json.loads(bytes(attempt.data))

    @property
    def lines(self) -> list[str]:
        return [text for _, text, _ in self.watch.lines]


def with_quick_process(scene: Callable[[ProcessPool], Awaitable[T]]) -> T:
    """A pool of one process that has just done a few very short executions."""

    async def main() -> T:
        settings = WorkerSettings(slots=1, python_allow=("quickcode:*",), stop_grace_s=1.0)
        pool = ProcessPool(settings)
        try:
            async with asyncio.timeout(60):
                while pool.ahead < 5:
                    await Sent(pool, "number", 0, ahead=False).data()
                return await scene(pool)
        finally:
            await pool.close()

    return asyncio.run(main())


def test_a_new_process_is_sent_nothing_ahead() -> None:
    async def main() -> None:
        pool = ProcessPool(WorkerSettings(slots=1, python_allow=("quickcode:*",)))
        try:
            await pool.prestart()
            assert pool.ahead == 0
            first = Sent(pool, "nap", 0.2, ahead=False)
            await first.watch.has_started.wait()
            with pytest.raises(NotBegun):
                await Sent(pool, "number", 1, ahead=True).run
            await first.run
        finally:
            await pool.close()

    asyncio.run(main())


def test_what_is_sent_ahead_gives_each_its_own_result() -> None:
    async def scene(pool: ProcessPool) -> list[object]:
        sent = [Sent(pool, "number", 0, ahead=False)]
        sent += [Sent(pool, "number", each, ahead=True) for each in range(1, 1 + pool.ahead)]
        results = [await each.data() for each in sent]
        assert [each.watch.starts for each in sent] == [1] * len(sent)
        return results

    results = with_quick_process(scene)

    assert len(results) > 2
    assert results == [*range(len(results))]


@pytest.mark.parametrize("function", ["nap", "block"])
def test_a_long_execution_hands_back_what_was_sent_behind_it(function: str) -> None:
    async def scene(pool: ProcessPool) -> float:
        long = Sent(pool, function, 1.5, ahead=False)
        behind = [Sent(pool, "number", number, ahead=True) for number in range(2)]
        begun = time.monotonic()
        for each in behind:
            with pytest.raises(NotBegun):
                await each.run
            assert each.watch.starts == 0
        took_s = time.monotonic() - begun
        assert pool.ahead == 0
        assert (await long.run).error is None
        return took_s

    assert with_quick_process(scene) < 1.4


def test_a_crash_costs_only_the_execution_that_had_begun() -> None:
    async def scene(pool: ProcessPool) -> None:
        dying = Sent(pool, "die", ahead=False)
        behind = [Sent(pool, "number", number, ahead=True) for number in range(2)]
        attempt = await dying.run
        assert attempt.error is not None
        assert attempt.error.error_class is ErrorClass.CRASH
        for each in behind:
            with pytest.raises(NotBegun):
                await each.run
            assert each.watch.starts == 0
        assert await Sent(pool, "number", 7, ahead=False).data() == 7

    with_quick_process(scene)


def test_cancelling_one_that_waits_leaves_the_others_alone() -> None:
    async def scene(pool: ProcessPool) -> None:
        first = Sent(pool, "nap", 0.03, ahead=False)
        second, third = (Sent(pool, "number", number, ahead=True) for number in (2, 3))
        await first.watch.has_started.wait()
        second.run.cancel()
        await asyncio.wait([second.run])
        assert second.run.cancelled()
        assert second.watch.starts == 0
        assert await third.data() == 3
        assert (await first.run).error is None

    with_quick_process(scene)


def test_a_time_limit_is_of_the_one_that_runs() -> None:
    async def scene(pool: ProcessPool) -> None:
        late = Sent(pool, "nap", 5, ahead=False, timeout_s=0.02)
        behind = Sent(pool, "number", 1, ahead=True, timeout_s=10.0)
        attempt = await late.run
        assert attempt.error is not None
        assert attempt.error.error_class is ErrorClass.TIMEOUT
        assert await behind.data() == 1

    with_quick_process(scene)


def test_what_short_executions_print_is_in_the_log_of_each() -> None:
    async def scene(pool: ProcessPool) -> list[list[str]]:
        sent = [Sent(pool, "says", "0", ahead=False)]
        sent += [Sent(pool, "says", str(number), ahead=True) for number in range(1, 5)]
        for each in sent:
            await each.data()
        return [each.lines for each in sent]

    assert with_quick_process(scene) == [[str(number)] for number in range(5)]


def test_output_that_may_be_anyones_is_given_to_none_and_ends_the_sending_ahead() -> None:
    async def scene(pool: ProcessPool) -> None:
        writing = Sent(pool, "writes", "who was it\n", ahead=False)
        others = [Sent(pool, "nap", 0.02, ahead=True) for _ in range(2)]
        await asyncio.wait([writing.run, *(each.run for each in others)])
        for each in others:
            assert each.lines == []
        assert writing.lines in ([], ["who was it"])
        assert pool.ahead == 0
        alone = Sent(pool, "writes", "it was me\n", ahead=False)
        await alone.run
        await asyncio.sleep(0.1)
        assert alone.lines == ["it was me"]

    with_quick_process(scene)
