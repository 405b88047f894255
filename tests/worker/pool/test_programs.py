"""Executors that are programs of their own, well behaved and otherwise."""

import asyncio
import os
from pathlib import Path
from typing import ClassVar

import pytest

from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Attempt
from crawlfleet.testing.executor_suite import ExecutorSuite, WatchedRun, make_assignment
from crawlfleet.worker.pool.pool import ProcessPool

pytestmark = pytest.mark.slow

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
FLOOD_BYTES = 20_000_000 if SOAK else 2_000_000
"""Many times what a pipe holds, or what is kept."""
EXAMPLE = Path(__file__).parents[3] / "examples/executors/shell/wait_for_file.sh"
READY = """read -r hello; printf '{"type":"ready","protocol":1}\\n'; read -r start;"""
START = """id=${start#*execution_id\\":\\"}; id=${id%%\\"*}; """
STARTED = START + """printf '{"type":"started","execution_id":"%s"}\\n' "$id";"""
RESULT = """printf '{"type":"result","execution_id":"%s","data":%s}\\n' "$id" """


class TestShellExample(ExecutorSuite):
    task_type = "wait_for_file"
    settings = WorkerSettings(commands={"wait_for_file": (str(EXAMPLE),)})
    good: ClassVar = {"path": str(EXAMPLE)}
    bad: ClassVar = {"path": 7}
    endless: ClassVar = {"path": "/there/is/no/such/file"}


def run(program: str, *, seconds: float = 20.0) -> Attempt:
    return run_command(("sh", "-c", program), seconds=seconds)


def run_command(command: tuple[str, ...], *, seconds: float = 20.0) -> Attempt:
    async def main() -> Attempt:
        settings = WorkerSettings(slots=1, commands={"own": command})
        pool = ProcessPool(settings, ready_timeout_s=seconds)
        try:
            return await pool.run(make_assignment("own", {"a": 1}), WatchedRun())
        finally:
            await pool.close()

    return asyncio.run(main())


def test_a_program_can_be_a_few_lines_of_shell() -> None:
    attempt = run(READY + STARTED + RESULT + "'{\"b\": 2}'; read -r end")

    assert bytes(attempt.data) == b'{"b": 2}'


def test_programs_and_python_executors_share_the_slots() -> None:
    async def main() -> list[Attempt]:
        program = READY + STARTED + RESULT + "null; read -r end"
        pool = ProcessPool(WorkerSettings(slots=1, commands={"own": ("sh", "-c", program)}))
        try:
            async with asyncio.TaskGroup() as group:
                runs = [
                    group.create_task(pool.run(make_assignment(*order), WatchedRun()))
                    for order in (("sleep", {"seconds": 0}), ("own", {}), ("sleep", {"seconds": 0}))
                ]
            return [run.result() for run in runs]
        finally:
            await pool.close()

    assert [attempt.error for attempt in asyncio.run(main())] == [None] * 3


@pytest.mark.parametrize(
    ("program", "explanation"),
    [
        ("exit 5", "exited with code 5 before it was ready"),
        ("echo hello", "broke the protocol"),
        ("""read -r h; echo '{"type":"ready","protocol":9}'; read -r x""", "protocol 9"),
        ("""read -r h; echo '{"type":"ready","protocol":1,"task_types":["b"]}'""", "runs only b"),
        (READY + "exit 6", "exited with code 6 during the work"),
        (READY + STARTED + "kill -9 $$", "killed by SIGKILL"),
        (READY + STARTED + "echo '{oops'; read -r x", "broke the protocol"),
        (READY + STARTED + STARTED + "read -r x", "out of turn"),
        (READY + """echo '{"type":"result","execution_id":"other"}'; read -r x""", "out of turn"),
        (READY + START + RESULT + """"\\"$(printf '\\377')\\""; read -r x""", "broke the protocol"),
        (READY + "exec 1>&-; sleep 60", "closed its stdout"),
    ],
)
def test_a_program_that_does_not_keep_to_the_protocol_crashed(
    program: str, explanation: str
) -> None:
    error = run(program).error

    assert error.error_class is ErrorClass.CRASH
    assert explanation in error.message


def test_a_program_that_is_never_ready_crashed() -> None:
    error = run("echo thinking >&2; sleep 60", seconds=0.5).error

    assert error.error_class is ErrorClass.CRASH
    assert "did not say `ready` within 0.5 s" in error.message
    assert "thinking" in error.details


def test_a_program_that_does_not_exist_crashed_with_its_name() -> None:
    error = run_command(("/no/such/program",)).error

    assert error.error_class is ErrorClass.CRASH
    assert "/no/such/program" in error.details


@pytest.mark.parametrize("size", [1_100_000, 30_000_000])
def test_a_result_that_is_too_large_is_an_error(size: int) -> None:
    text = 'printf \'{"type":"result","execution_id":"%s","data":"\' "$id";'
    flood = text + f"head -c {size} /dev/zero | tr '\\0' x; printf '\"}}\\n'; read -r end"
    error = run(READY + STARTED + flood).error

    assert error.error_class is ErrorClass.ERROR
    assert "1,000,000" in error.message


def test_a_flood_of_output_is_survived_and_its_end_is_kept() -> None:
    flood = f"head -c {FLOOD_BYTES} /dev/zero | tr '\\0' '\\n' >&2; echo the end >&2; exit 1"
    error = run(READY + STARTED + flood).error

    assert error.details.endswith("the end")
    assert len(error.details) <= 8_000


def test_arguments_are_not_given_to_a_shell() -> None:
    program = READY + STARTED + RESULT + '"\\"$0\\""; read -r end'
    attempt = run_command(("sh", "-c", program, "$(echo no) ; *"))

    assert bytes(attempt.data) == b'"$(echo no) ; *"'
