"""The pool with real processes: what runs, what fails, and that a stop always works."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil
import pytest

from crawlfleet.model.log import LogLevel
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass, TaskError
from crawlfleet.ports.execution import Attempt
from crawlfleet.testing.executor_suite import WatchedRun, make_assignment
from crawlfleet.worker.pool.pool import ProcessPool

pytestmark = pytest.mark.slow

T = TypeVar("T")

USER_CODE = """
import asyncio, os, re, subprocess, sys, time
from crawlfleet.executors.python import log, progress, task

def pid(): return os.getpid()
def spin_in_c(file):
    open(file, "w").write(str(os.getpid()))
    re.match(r"(a+)+$", "a" * 40 + "b")
def spin(file):
    open(file, "w").write(str(os.getpid()))
    while True: pass
async def stubborn():
    while True:
        try: await asyncio.sleep(60)
        except asyncio.CancelledError: pass
async def patient(): await asyncio.sleep(60)
def die(): print("last words", file=sys.stderr); os._exit(3)
def segfault(): os.kill(os.getpid(), 11)
def large(): return "x" * 1_000_001
def no_json(): return {1, object()}
def chatty(): print('{"type":"result","execution_id":"x"}'); return "printed"
def asks(): return sys.stdin.read()
def leaves(): sys.exit(4)
def stops(): raise StopIteration
def grandchild(): return subprocess.Popen(["sleep", "60"]).pid
def environment(): return dict(os.environ)
def prints():
    for number in range(1000): print("line", number)
    print("no end", end="", flush=True)
def logs():
    import logging
    log("plain"); log("bad", level="error", code=7); log("odd", level="shouting")
    logging.getLogger("shop").warning("from %s", "logging")
    logging.getLogger("shop").info("also")
    logging.getLogger("shop").debug("not this")
async def logs_too():
    log("from a coroutine", level="debug"); progress(1, 2); progress(2, 2)
def steps():
    for number in range(100_001): progress(number, 100_000)
def says_and_dies(): print("half a line", end="", flush=True); time.sleep(0.1); os._exit(3)
"""


@pytest.fixture(autouse=True)
def user_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "usercode.py").write_text(USER_CODE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def with_pool(scenario: Callable[[ProcessPool], Awaitable[T]], **settings: object) -> T:
    async def main() -> T:
        options = {"slots": 2, "python_allow": ("usercode:*",), **settings}
        pool = ProcessPool(WorkerSettings(**options))
        try:
            async with asyncio.timeout(60):
                return await scenario(pool)
        finally:
            await pool.close()
            await pool.close()
            assert not executors()

    return asyncio.run(main())


def executors() -> list[psutil.Process]:
    """The living executor processes of this test, told by the folder that their code is in."""
    return [child for child in psutil.Process().children() if is_executor(child)]


def is_executor(process: psutil.Process) -> bool:
    try:
        folder = process.environ().get("PYTHONPATH")
        return (
            folder == os.environ["PYTHONPATH"]
            and "crawlfleet.worker.executor.main" in process.cmdline()
        )
    except psutil.Error:
        return False


async def call(pool: ProcessPool, function: str, *args: object, **options: float) -> Attempt:
    parameters = {"function": f"usercode:{function}", "args": list(args)}
    return await pool.run(make_assignment("python", parameters, **options), WatchedRun())


def heard(function: str) -> WatchedRun:
    """What an observer heard of a function, and of a quiet one after it."""

    async def scenario(pool: ProcessPool) -> WatchedRun:
        watch, other = WatchedRun(), WatchedRun()
        parameters = {"function": f"usercode:{function}"}
        await pool.run(make_assignment("python", parameters), watch)
        await pool.run(make_assignment("python", {"function": "usercode:pid"}), other)
        assert other.lines == []
        assert other.steps == []
        return watch

    return with_pool(scenario, slots=1)


def failure(function: str, *args: object, **options: float) -> TaskError:
    attempt = with_pool(lambda pool: call(pool, function, *args, **options))
    assert attempt.data is None
    assert attempt.error is not None
    return attempt.error


def data(attempt: Attempt) -> object:
    assert attempt.error is None
    assert attempt.data is not None
    return json.loads(bytes(attempt.data))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_result_comes_with_metrics_after_started_was_called_once() -> None:
    watch = WatchedRun()

    async def scenario(pool: ProcessPool) -> Attempt:
        return await pool.run(make_assignment("sleep", {"seconds": 0.05}), watch)

    attempt = with_pool(scenario)

    assert data(attempt) == {"seconds": 0.05}
    assert attempt.metrics["elapsed_s"] >= 0.05
    assert attempt.metrics["cpu_s"] >= 0
    assert watch.starts == 1
    assert watch.lines == []


def test_a_process_is_used_again_until_it_is_recycled() -> None:
    async def main() -> list[object]:
        pool = ProcessPool(WorkerSettings(python_allow=("usercode:pid",)), recycle_after=3)
        try:
            return [data(await call(pool, "pid")) for _ in range(4)]
        finally:
            await pool.close()

    pids = asyncio.run(main())

    assert pids[0] == pids[1] == pids[2] != pids[3]


def test_prestart_leaves_one_warm_process() -> None:
    async def scenario(pool: ProcessPool) -> tuple[set[int], object]:
        await pool.prestart()
        warm = {process.pid for process in executors()}
        return warm, data(await call(pool, "pid"))

    warm, used = with_pool(scenario)

    assert warm == {used}


def test_no_more_processes_than_slots() -> None:
    async def scenario(pool: ProcessPool) -> int:
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(
                    pool.run(make_assignment("sleep", {"seconds": 0.1}), WatchedRun())
                )
        return len(executors())

    assert with_pool(scenario) == 2


def test_an_idle_process_that_died_is_replaced_unnoticed() -> None:
    async def scenario(pool: ProcessPool) -> tuple[object, object]:
        first = data(await call(pool, "pid"))
        os.kill(first, signal.SIGKILL)
        return first, data(await call(pool, "pid"))

    first, second = with_pool(scenario)

    assert first != second


def test_wrong_parameters_are_invalid_and_name_the_field() -> None:
    async def scenario(pool: ProcessPool) -> list[Attempt]:
        wrong = ({"seconds": "x"}, {"seconds": -1}, {}, {"seconds": 1, "second": 1}, [1])
        return [await pool.run(make_assignment("sleep", p), WatchedRun()) for p in wrong]

    errors = [attempt.error for attempt in with_pool(scenario)]

    assert {error.error_class for error in errors} == {ErrorClass.INVALID}
    assert "parameters.seconds" in errors[0].message
    assert "parameters.seconds" in errors[1].message
    assert "`seconds`" in errors[2].message
    assert "`second`" in errors[3].message


def test_an_unknown_task_type_is_invalid_and_tells_what_is_known() -> None:
    attempt = with_pool(lambda pool: pool.run(make_assignment("no_such", {}), WatchedRun()))

    assert attempt.error.error_class is ErrorClass.INVALID
    assert "sleep" in attempt.error.message


def test_parameters_with_line_breaks_stay_one_line() -> None:
    async def scenario(pool: ProcessPool) -> Attempt:
        plain = make_assignment("sleep", {})
        raw = msgspec.Raw(b'{\n  "seconds":\r\n 0\n}')
        return await pool.run(msgspec.structs.replace(plain, parameters=raw), WatchedRun())

    assert data(with_pool(scenario)) == {"seconds": 0.0}


@pytest.mark.parametrize("function", ["spin_in_c", "spin"])
def test_cancelling_stops_code_that_never_looks_up(function: str, tmp_path: Path) -> None:
    file = tmp_path / "pid"

    async def scenario(pool: ProcessPool) -> tuple[float, int]:
        run = asyncio.create_task(call(pool, function, str(file)))
        await asyncio.to_thread(until, lambda: file.exists() and file.read_text() != "")
        await asyncio.sleep(0.2)
        began = time.monotonic()
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()
        return time.monotonic() - began, int(file.read_text())

    seconds, pid = with_pool(scenario)

    assert seconds < 30, "it takes 1.1 s; the code itself would never end"
    assert not alive(pid)


def test_a_cancelled_coroutine_leaves_its_process_for_the_next() -> None:
    async def scenario(pool: ProcessPool) -> tuple[object, object]:
        first = data(await call(pool, "pid"))
        run = asyncio.create_task(call(pool, "patient"))
        await asyncio.sleep(0.2)
        run.cancel()
        await asyncio.wait([run])
        return first, data(await call(pool, "pid"))

    first, second = with_pool(scenario)

    assert first == second


def test_cancelling_while_the_process_starts_leaves_nothing() -> None:
    async def scenario(pool: ProcessPool) -> None:
        for delay in (0.0, 0.005, 0.02, 0.05):
            run = asyncio.create_task(call(pool, "pid"))
            await asyncio.sleep(delay)
            run.cancel()
            await asyncio.wait([run])
        assert data(await call(pool, "pid"))

    with_pool(scenario)


@pytest.mark.parametrize("function", ["patient", "stubborn"])
def test_the_time_limit_ends_it_as_a_timeout(function: str) -> None:
    error = failure(function, timeout_s=0.4)

    assert error.error_class is ErrorClass.TIMEOUT
    assert "0.4 s" in error.message


def test_a_dying_process_is_a_crash_with_its_exit_code_and_last_words() -> None:
    error = failure("die")

    assert error.error_class is ErrorClass.CRASH
    assert "exited with code 3" in error.message
    assert "last words" in error.details


def test_a_killed_process_is_a_crash_that_names_the_signal() -> None:
    error = failure("segfault")

    assert error.error_class is ErrorClass.CRASH
    assert "SIGSEGV" in error.message


def test_a_result_that_is_too_large_is_an_error_that_says_so() -> None:
    error = failure("large")

    assert error.error_class is ErrorClass.ERROR
    assert "1,000,003 bytes" in error.message


def test_a_result_that_is_no_json_is_an_error_that_says_so() -> None:
    assert "JSON" in failure("no_json").message


def test_leaving_and_odd_exceptions_end_the_work_and_not_the_process() -> None:
    async def scenario(pool: ProcessPool) -> list[object]:
        before = data(await call(pool, "pid"))
        left, stopped = await call(pool, "leaves"), await call(pool, "stops")
        assert "SystemExit" in left.error.message
        assert "StopIteration" in stopped.error.message
        assert "in stops" in stopped.error.details
        return [before, data(await call(pool, "pid"))]

    before, after = with_pool(scenario)

    assert before == after


def test_user_code_can_neither_print_replies_nor_read_orders() -> None:
    async def scenario(pool: ProcessPool) -> list[object]:
        return [data(await call(pool, "chatty")), data(await call(pool, "asks"))]

    assert with_pool(scenario) == ["printed", ""]


def test_the_environment_has_no_settings_or_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLFLEET_TOKEN", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    environment = data(with_pool(lambda pool: call(pool, "environment")))

    assert "secret" not in environment.values()
    assert environment["PATH"]


def test_closing_takes_along_what_user_code_started() -> None:
    pid = data(with_pool(lambda pool: call(pool, "grandchild")))

    until(lambda: not alive(pid))


def test_closing_during_the_work_ends_it_as_a_crash() -> None:
    async def scenario(pool: ProcessPool) -> tuple[Attempt, Attempt]:
        run = asyncio.create_task(call(pool, "patient"))
        await asyncio.sleep(0.5)
        await pool.close()
        return await run, await call(pool, "pid")

    for attempt in with_pool(scenario):
        assert attempt.error.error_class is ErrorClass.CRASH
        assert "shut" in attempt.error.message


def test_what_a_function_prints_are_lines_of_its_execution() -> None:
    watch = heard("prints")

    assert [text for _, text, _ in watch.lines] == [
        *(f"line {number}" for number in range(1000)),
        "no end",
    ]
    assert {level for level, _, _ in watch.lines} == {LogLevel.INFO}


def test_what_a_function_logs_has_level_and_fields() -> None:
    assert heard("logs").lines == [
        (LogLevel.INFO, "plain", {}),
        (LogLevel.ERROR, "bad", {"code": 7}),
        (LogLevel.INFO, "odd", {}),
        (LogLevel.WARNING, "from logging", {"logger": "shop"}),
        (LogLevel.INFO, "also", {"logger": "shop"}),
    ]


def test_a_coroutine_is_heard_too_before_its_result() -> None:
    watch = heard("logs_too")

    assert watch.lines == [(LogLevel.DEBUG, "from a coroutine", {})]
    assert watch.steps == [(1, 2), (2, 2)]


def test_a_loop_that_tells_each_step_is_heard_now_and_then_and_at_its_end() -> None:
    steps = heard("steps").steps

    assert steps[0] == (0, 100_000)
    assert steps[-1] == (100_000, 100_000)
    assert len(steps) < 1_000


def test_the_last_words_of_a_dying_process_are_heard() -> None:
    assert [text for _, text, _ in heard("says_and_dies").lines] == ["half a line"]


PARENT = """
import asyncio, sys
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.testing.executor_suite import WatchedRun, make_assignment
from crawlfleet.worker.pool.pool import ProcessPool

async def main():
    file = sys.argv[1]
    ready = '{"type":"ready","protocol":1}'
    program = f"read hello; echo '{ready}'; read start; echo $$ > {file}.sh; while :; do :; done"
    pool = ProcessPool(WorkerSettings(
        python_allow=("usercode:spin_in_c",), commands={"deaf": ("sh", "-c", program)}))
    python = {"function": "usercode:spin_in_c", "args": [file + ".py"]}
    async with asyncio.TaskGroup() as group:
        group.create_task(pool.run(make_assignment("python", python), WatchedRun()))
        group.create_task(pool.run(make_assignment("deaf", {}), WatchedRun()))

asyncio.run(main())
"""


def test_killing_the_agent_leaves_no_process_behind(tmp_path: Path) -> None:
    files = [tmp_path / "pid.py", tmp_path / "pid.sh"]
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "pid")])
    try:
        until(lambda: all(f.exists() and f.read_text().strip() for f in files))
        pids = [int(file.read_text()) for file in files]
        assert all(alive(pid) for pid in pids)
    finally:
        parent.kill()
        parent.wait()

    until(lambda: not any(alive(pid) for pid in pids))
