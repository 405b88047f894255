"""Conformance tests for executors: for classes and for programs in any language.

    class TestResize(ExecutorSuite):
        task_type = "resize"
        good = {"image": "a.png", "width": 10}
        bad = {"width": "wide"}
        endless = {"image": "/dev/zero", "width": 10}

pytest runs them. Each test uses real processes and the pool that a node uses.
"""

import asyncio
import itertools
import json
import os
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from crawlfleet.model.log import LogLevel
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import JSON_NULL, ErrorClass
from crawlfleet.model.wire.node_protocol import Assignment, OrderAnswer
from crawlfleet.model.wire.services import OUTPUT, ServiceResponse, refused
from crawlfleet.ports.execution import Attempt
from crawlfleet.worker.pool import protocol
from crawlfleet.worker.pool.pool import ProcessPool
from crawlfleet.worker.pool.process import command_line, environment

PATIENCE_S: Final = 20.0
"""Longer than anything takes on a busy machine."""

T = TypeVar("T")

_numbers = itertools.count(1)


def make_assignment(
    task_type: str, parameters: Any, *, timeout_s: float | None = None, **others: Any
) -> Assignment:
    """An assignment as the master would send it; each has ids of its own."""
    number = next(_numbers)
    return Assignment(
        execution_id=f"exec-{number}",
        task_id=f"task-{number}",
        token=number,
        task_type=task_type,
        parameters=msgspec.Raw(msgspec.json.encode(parameters)),
        timeout_s=timeout_s,
        **others,
    )


class WatchedRun:
    """An observer that records all calls."""

    def __init__(self) -> None:
        self.starts = 0
        self.has_started = asyncio.Event()
        self.lines: list[tuple[LogLevel, str, dict[str, Any]]] = []
        self.steps: list[tuple[float, float | None]] = []
        self.answers: list[OrderAnswer] = []

    def started(self) -> None:
        self.starts += 1
        self.has_started.set()

    def progress(self, done: float, total: float | None) -> None:
        self.steps.append((done, total))

    def log(self, message: str, level: LogLevel, fields: Mapping[str, Any]) -> None:
        self.lines.append((level, message, dict(fields)))

    def figures(self, figures: dict[str, Any]) -> None:
        """Ignore figures, which most executors do not report."""

    def answer(self, answer: OrderAnswer) -> None:
        self.answers.append(answer)

    async def request(
        self, service: str, payload: msgspec.Raw = JSON_NULL, data: bytes = b""
    ) -> ServiceResponse:
        return refused("there is no master")


class ExecutorSuite:
    """Inherit, set the attributes, and let pytest collect the class."""

    task_type: ClassVar[str]
    settings: ClassVar[WorkerSettings] = WorkerSettings()
    """Settings of the worker: `commands` for a program, or other settings that a class needs."""
    good: ClassVar[Mapping[str, Any]]
    """Parameters with which the executor succeeds quickly, each time."""
    bad: ClassVar[Mapping[str, Any]]
    """Invalid parameters."""
    endless: ClassVar[Mapping[str, Any]]
    """Parameters with which the executor works for a minute or more."""

    def test_offers_its_task_type(self) -> None:
        assert self.task_type in ProcessPool(self.settings).task_types

    def test_succeeds_with_json_after_saying_that_it_started(self) -> None:
        attempt, starts = self._run(self.good)

        assert attempt.error is None
        assert attempt.data is not None
        json.loads(bytes(attempt.data))
        assert starts == 1

    def test_runs_again_and_again(self) -> None:
        async def scenario(pool: ProcessPool) -> list[Attempt]:
            return [await pool.run(self._assignment(self.good), WatchedRun()) for _ in range(5)]

        assert [attempt.error for attempt in self._with_pool(scenario)] == [None] * 5

    def test_refuses_parameters_that_make_no_sense(self) -> None:
        attempt, _ = self._run(self.bad)

        assert attempt.error is not None
        assert attempt.error.error_class is ErrorClass.INVALID
        assert attempt.error.message

    def test_works_after_a_refusal(self) -> None:
        async def scenario(pool: ProcessPool) -> Attempt:
            await pool.run(self._assignment(self.bad), WatchedRun())
            return await pool.run(self._assignment(self.good), WatchedRun())

        assert self._with_pool(scenario).error is None

    def test_is_stopped_at_its_time_limit(self) -> None:
        attempt, _ = self._run(self.endless, timeout_s=0.5)

        assert attempt.error is not None
        assert attempt.error.error_class is ErrorClass.TIMEOUT

    def test_is_stopped_when_cancelled_and_works_again(self) -> None:
        async def scenario(pool: ProcessPool) -> Attempt:
            watch = WatchedRun()
            run = asyncio.create_task(pool.run(self._assignment(self.endless), watch))
            await watch.has_started.wait()
            run.cancel()
            await asyncio.wait([run])
            assert run.cancelled()
            return await pool.run(self._assignment(self.good), WatchedRun())

        assert self._with_pool(scenario).error is None

    def test_ignores_fields_and_cancellations_that_it_does_not_know(self) -> None:
        with self._process() as process:
            self._greet(process)
            assert _next(process)["type"] == "ready"
            _tell(process, {"type": "cancel", "execution_id": "exec-of-old"})
            start = {
                "type": "start",
                "execution_id": "exec-1",
                "task_id": "task-1",
                "attempt": 1,
                "task_type": self.task_type,
                "a_new_field": None,
                "parameters": self.good,
            }
            _tell(process, start)
            kinds: list[str] = []
            while not kinds or kinds[-1] not in {"result", "error", "stopped"}:
                reply = _next(process)
                if reply["type"] == "request":
                    _tell(process, _refusal(reply))
                assert reply["execution_id"] == start["execution_id"]
                kinds.append(reply["type"])
            assert kinds[-1] == "result"

    def test_ends_with_its_stdin(self) -> None:
        with self._process() as process:
            self._greet(process)
            _next(process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE_S / 2)

    def _run(
        self, parameters: Mapping[str, Any], *, timeout_s: float | None = None
    ) -> tuple[Attempt, int]:
        watch = WatchedRun()

        async def scenario(pool: ProcessPool) -> Attempt:
            return await pool.run(self._assignment(parameters, timeout_s), watch)

        return self._with_pool(scenario), watch.starts

    def _with_pool(self, scenario: Callable[[ProcessPool], Awaitable[T]]) -> T:
        async def main() -> T:
            pool = ProcessPool(self.settings)
            try:
                async with asyncio.timeout(PATIENCE_S):
                    return await scenario(pool)
            finally:
                await pool.close()

        return asyncio.run(main())

    def _assignment(
        self, parameters: Mapping[str, Any], timeout_s: float | None = None
    ) -> Assignment:
        return make_assignment(self.task_type, parameters, timeout_s=timeout_s)

    @contextmanager
    def _process(self) -> Iterator[subprocess.Popen[bytes]]:
        with subprocess.Popen(  # noqa: S603
            command_line(self.settings.commands.get(self.task_type, ())),
            env=environment(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            alarm = threading.Timer(PATIENCE_S, process.kill)
            alarm.start()
            try:
                yield process
            finally:
                alarm.cancel()
                process.kill()

    def _greet(self, process: subprocess.Popen[bytes]) -> None:
        hello = msgspec.to_builtins(protocol.hello_of(self.settings))
        # No more than what is answered here.
        _tell(process, {**hello, "takes": [OUTPUT], "a_new_field": [1]})


def _tell(process: subprocess.Popen[bytes], order: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(order, separators=(",", ":")).encode() + b"\n")
    process.stdin.flush()


def _refusal(request: Mapping[str, Any]) -> dict[str, Any]:
    """The response of a node without a master."""
    return {
        "type": "response",
        "execution_id": request["execution_id"],
        "number": request["number"],
        "refusal": "there is no master",
    }


def _next(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the process ended, or had to be ended, without an answer"
    reply = json.loads(line)
    assert isinstance(reply, dict)
    return reply
