"""Code that people handed over, in real processes: functions, commands, and how they end."""

import asyncio
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil
import pytest

from crawlfleet.adapters.uv import UvInstall
from crawlfleet.errors import ConfigError, SandboxFailed
from crawlfleet.model.bundle import BundleRef
from crawlfleet.model.isolation import Isolation, Layer, Level
from crawlfleet.model.settings import SandboxSettings, WorkerSettings
from crawlfleet.model.task import JSON_NULL
from crawlfleet.model.wire.output import Segment, SegmentUpload
from crawlfleet.model.wire.services import CODE, OUTPUT, ServiceResponse, answered, refused
from crawlfleet.ports.execution import Attempt
from crawlfleet.ports.sandbox import CellOrder, Sandbox
from crawlfleet.sandbox.removal import remove
from crawlfleet.testing.executor_suite import WatchedRun, make_assignment
from crawlfleet.worker.code.environments import Environments
from crawlfleet.worker.pool.pool import ProcessPool
from crawlfleet.worker.pool.workspace import Workspaces, workshop_of
from tests.code_archives import packed

pytestmark = pytest.mark.slow
T = TypeVar("T")
PYTHON = Path(sys.executable).resolve()
TOOLS = {
    "tools.py": """
import os, sys, time
from crawlfleet_task import item, log, progress

def add(a, b=0):
    print("adding")
    log("noted", level="warning", a=a)
    progress(1, 2)
    return {"sum": a + b, "cwd": os.getcwd(), "variables": dict(os.environ)}

async def later():
    return "later"

def many(count):
    for number in range(count):
        item({"number": number, "text": "ü" * 1000})
    return count

def fail():
    raise ConnectionRefusedError("nobody there")

def leave():
    os._exit(3)

def hang():
    log("hanging")
    time.sleep(600)
""",
    "data/list.txt": "one\n",
}


async def install(requirements: Sequence[str], venv: str, tell: Callable[[str], None]) -> None:
    (Path(venv) / "bin").mkdir(parents=True)
    (Path(venv) / "bin" / "python").symlink_to(PYTHON)


class CodeWatch(WatchedRun):
    """Has the code, and keeps segments."""

    def __init__(self, pool: ProcessPool) -> None:
        super().__init__()
        self.pool = pool
        self.segments: list[tuple[Segment, bytes]] = []
        self.refusal = ""

    async def request(
        self, service: str, payload: msgspec.Raw = JSON_NULL, data: bytes = b""
    ) -> ServiceResponse:
        if service == CODE:
            return ServiceResponse(data=packed(TOOLS))
        assert service == OUTPUT
        upload = msgspec.json.decode(payload, type=SegmentUpload)
        self.segments.append((upload.segment, data))
        return refused(self.refusal) if self.refusal else answered(None)

    execution_id = ""


def at_work(
    folder: Path,
    use: Callable[[ProcessPool], Awaitable[T]],
    cells: Sandbox | None = None,
    **settings: Any,
) -> T:
    async def scenario() -> T:
        environments = Environments(folder / "environments", install=install, most_bytes=10**9)
        workshop = Workspaces(folder / "scratch", environments=environments, remove=remove)
        told = {"bundles": True, "bundles_unconfined": True, **settings}
        pool = ProcessPool(WorkerSettings(**told), workshop=workshop, sandbox=cells)
        try:
            return await use(pool)
        finally:
            await pool.close()

    return asyncio.run(scenario())


async def ran(
    pool: ProcessPool,
    task_type: str,
    parameters: Mapping[str, Any],
    *,
    bundle: bool = True,
    heard: CodeWatch | None = None,
    timeout_s: float | None = 60,
) -> tuple[Attempt, CodeWatch]:
    heard = heard or CodeWatch(pool)
    assignment = make_assignment(task_type, parameters, timeout_s=timeout_s)
    if bundle:
        ref = BundleRef(name="tools", number=1, digest="0" * 64)
        assignment = msgspec.structs.replace(assignment, bundle=ref)
    heard.execution_id = assignment.execution_id
    return await pool.run(assignment, heard), heard


def is_running(pid: int) -> bool:
    """Not so of one that is dead and not yet buried."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"function": f"tools:{name}", **fields}


def test_a_function_runs_in_a_copy_of_its_bundle_and_sees_nothing_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAWLFLEET_JOIN_TOKEN", "a secret")

    async def use(pool: ProcessPool) -> tuple[Attempt, CodeWatch]:
        return await ran(pool, "python", function("add", args=[1], kwargs={"b": 2}))

    attempt, heard = at_work(tmp_path, use)
    assert attempt.error is None, attempt.error
    found = msgspec.json.decode(attempt.data or b"")
    assert found["sum"] == 3
    assert not Path(found["cwd"]).exists()
    assert "a secret" not in found["variables"].values()
    assert {*found["variables"]} <= {
        *("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR"),
    }
    assert heard.steps == [(1, 2)]
    lines = [(level, line) for level, line, _ in heard.lines]
    assert ("info", "adding") in lines
    assert ("warning", "noted") in lines
    assert [*(tmp_path / "scratch").iterdir()] == []


def test_items_of_a_function_come_in_segments_that_count_in_the_end(tmp_path: Path) -> None:
    async def use(pool: ProcessPool) -> tuple[Attempt, CodeWatch]:
        return await ran(pool, "python", function("many", args=[3000]))

    attempt, heard = at_work(tmp_path, use)
    assert attempt.error is None, attempt.error
    sequences = [segment.sequence for segment, _ in heard.segments]
    assert sequences == [*range(1, len(sequences) + 1)]
    assert len(sequences) > 3
    last, data = heard.segments[-1]
    assert (last.counted, data) == (last.sequence - 1, b"")
    assert heard.segments[0][0].columns == ("number", "text")
    lines = b"".join(zlib.decompress(data) for _, data in heard.segments if data)
    items = [msgspec.json.decode(line) for line in lines.splitlines()]
    assert [item["number"] for _, item in items] == [*range(3000)]
    assert sum(segment.items for segment, _ in heard.segments) == 3000


def test_items_that_are_not_taken_fail_the_work(tmp_path: Path) -> None:
    async def use(pool: ProcessPool) -> tuple[Attempt, CodeWatch]:
        heard = CodeWatch(pool)
        heard.refusal = "no room"
        return await ran(pool, "python", function("many", args=[3]), heard=heard)

    attempt, _ = at_work(tmp_path, use)
    assert attempt.error is not None
    assert "no room" in attempt.error.message


@pytest.mark.parametrize(
    ("name", "error_class", "message"),
    [
        ("fail", "network", "ConnectionRefusedError: nobody there"),
        ("leave", "crash", "exited with code 3"),
        ("none", "invalid", "no attribute 'none'"),
    ],
)
def test_how_a_function_ends_badly_is_told(
    name: str, error_class: str, message: str, tmp_path: Path
) -> None:
    async def use(pool: ProcessPool) -> tuple[Attempt, CodeWatch]:
        return await ran(pool, "python", function(name))

    attempt, _ = at_work(tmp_path, use)
    assert attempt.error is not None
    assert attempt.error.error_class == error_class
    assert message in attempt.error.message


def test_an_async_function_is_awaited(tmp_path: Path) -> None:
    async def use(pool: ProcessPool) -> tuple[Attempt, CodeWatch]:
        return await ran(pool, "python", function("later"))

    assert bytes(at_work(tmp_path, use)[0].data or b"") == b'"later"'


def test_a_function_that_hangs_is_ended_at_its_limit_and_when_cancelled(tmp_path: Path) -> None:
    async def use(pool: ProcessPool) -> tuple[Attempt, CodeWatch]:
        heard = CodeWatch(pool)
        running = asyncio.create_task(ran(pool, "python", function("hang"), heard=heard))
        await heard.has_started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return await ran(pool, "python", function("hang"), timeout_s=1.0)

    attempt, _ = at_work(tmp_path, use)
    assert attempt.error is not None
    assert attempt.error.error_class == "timeout"
    assert [*(tmp_path / "scratch").iterdir()] == []


def test_a_command_runs_without_a_shell_and_ends_with_its_output(tmp_path: Path) -> None:
    async def use(pool: ProcessPool) -> tuple[Attempt, CodeWatch]:
        argv = ["sh", "-c", 'cat data/list.txt; echo "$1 $COLOUR" >&2; cat', "sh", "$HOME; rm"]
        parameters = {"argv": argv, "environment": {"COLOUR": "red"}}
        return await ran(pool, "command", parameters)

    attempt, heard = at_work(tmp_path, use)
    assert attempt.error is None, attempt.error
    assert msgspec.json.decode(attempt.data or b"") == {"exit_code": 0, "output": "one\n"}
    lines = [(str(level), line) for level, line, _ in heard.lines]
    assert ("info", "one") in lines
    assert ("warning", "$HOME; rm red") in lines


@pytest.mark.parametrize(
    ("argv", "error_class", "message"),
    [
        (["false"], "error", "false exited with code 1"),
        (["sh", "-c", "echo why >&2; exit 64"], "invalid", "sh exited with code 64"),
        (["sh", "-c", "exit 75"], "network", "sh exited with code 75"),
        (["sh", "-c", "kill -SEGV $$"], "error", "sh was killed by SIGSEGV"),
        (["/no/such/program"], "invalid", "No such file or directory"),
    ],
)
def test_how_a_command_ends_is_classified(
    argv: list[str], error_class: str, message: str, tmp_path: Path
) -> None:
    async def use(pool: ProcessPool) -> tuple[Attempt, CodeWatch]:
        return await ran(pool, "command", {"argv": argv}, bundle=False)

    attempt, _ = at_work(tmp_path, use)
    assert attempt.error is not None
    assert attempt.error.error_class == error_class
    assert message in attempt.error.message


def test_nothing_that_a_command_started_is_left_when_it_is_cancelled(tmp_path: Path) -> None:
    async def use(pool: ProcessPool) -> int:
        heard = CodeWatch(pool)
        argv = ["sh", "-c", "trap '' TERM; sleep 600 & echo $!; wait; sleep 600"]
        running = asyncio.create_task(
            ran(pool, "command", {"argv": argv}, bundle=False, heard=heard)
        )
        async with asyncio.timeout(20):
            while not heard.lines:
                await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return int(heard.lines[0][1])

    assert not is_running(at_work(tmp_path, use))


def test_a_node_that_does_not_allow_it_says_so() -> None:
    async def use() -> Attempt:
        pool = ProcessPool(WorkerSettings())
        assert "command" not in pool.task_types
        try:
            return (await ran(pool, "command", {"argv": ["true"]}, bundle=False))[0]
        finally:
            await pool.close()

    attempt = asyncio.run(use())
    assert attempt.error is not None
    assert (attempt.error.error_class, "worker.bundles" in attempt.error.message) == (
        "invalid",
        True,
    )


class NoCells:
    """A sandbox that is asked for a cell, and has none."""

    isolation = Isolation(level=Level.L0, layers=(Layer.RLIMITS, Layer.WATCHDOG))

    def __init__(self) -> None:
        self.orders: list[CellOrder] = []

    async def open(self) -> None: ...

    async def start(self, order: CellOrder, make: Callable[[], Any], *, ahead: bool) -> Any:
        self.orders.append(order)
        raise SandboxFailed("no cell is left")

    async def close(self) -> None: ...


@pytest.mark.parametrize("task_type", ["python", "command", "http_fetch"])
def test_a_bundle_is_confined_whatever_the_task_types_say(task_type: str, tmp_path: Path) -> None:
    async def use(pool: ProcessPool) -> tuple[Attempt, CodeWatch]:
        return await ran(pool, task_type, {"argv": ["true"], **function("add", args=[1])})

    sandbox = NoCells()
    attempt, _ = at_work(tmp_path, use, sandbox, sandbox=SandboxSettings(task_types=()))
    assert attempt.error is not None
    assert "no cell is left" in attempt.error.message
    assert [Path(order.command[0]).name for order in sandbox.orders] == ["python"]


@pytest.mark.parametrize("bundle", [True, False])
def test_without_a_sandbox_nothing_runs_unless_the_owner_says_so(
    bundle: bool, tmp_path: Path
) -> None:
    async def use(pool: ProcessPool) -> tuple[Attempt, CodeWatch]:
        return await ran(pool, "command", {"argv": ["true"]}, bundle=bundle)

    attempt, _ = at_work(tmp_path, use, bundles_unconfined=False)
    assert attempt.error is not None
    assert attempt.error.error_class == "invalid"
    assert "worker.bundles_unconfined" in attempt.error.message
    assert not (tmp_path / "scratch").exists()


def test_a_worker_that_could_not_hold_bundles_does_not_start(tmp_path: Path) -> None:
    off = SandboxSettings(level="off")

    def made(settings: WorkerSettings) -> Workspaces | None:
        install = UvInstall(uv=None, timeout_s=1)
        return workshop_of(settings, tmp_path, install=install, remove=remove)

    with pytest.raises(ConfigError, match="bundles_unconfined"):
        made(WorkerSettings(bundles=True, sandbox=off))

    assert made(WorkerSettings(bundles=True, bundles_unconfined=True, sandbox=off))
    assert made(WorkerSettings(bundles=True))
    assert made(WorkerSettings(sandbox=off)) is None


def test_scratch_that_a_killed_agent_left_is_cleared_away(tmp_path: Path) -> None:
    left = tmp_path / "scratch" / "exec-dead"
    (left / "work").mkdir(parents=True)
    (left / ".lock").touch()
    os.utime(left, (0, 0))

    async def use(pool: ProcessPool) -> tuple[Attempt, CodeWatch]:
        return await ran(pool, "command", {"argv": ["true"]}, bundle=False)

    assert at_work(tmp_path, use)[0].error is None
    assert not left.exists()


HOSTILE = """
import asyncio, json, os, sys
sys.path[:] = json.loads(sys.argv[1])
from pathlib import Path
from crawlfleet.sandbox.removal import remove
from crawlfleet.testing.executor_suite import WatchedRun, make_assignment
from crawlfleet.worker.code.environments import Environments
from crawlfleet.worker.pool.workspace import Workspaces

async def warm():
    await asyncio.to_thread(int)

def spoil(folder):
    (folder / "closed" / "within").mkdir(parents=True)
    (folder / "fixed").mkdir()
    (folder / "fixed" / "link").symlink_to("../../../../precious")
    for name, mode in (("closed/within", 0), ("closed", 0), ("fixed", 0o500)):
        (folder / name).chmod(mode)

async def main():
    here = Path("/proc/self/cwd/mine")
    environments = Environments(here / "environments", install=None, most_bytes=1)
    workshop = Workspaces(here / "scratch", environments=environments, remove=remove)
    async with workshop.bench(make_assignment("command", {}), WatchedRun()) as bench:
        spoil(bench.scratch / "tmp")
    for name in ("exec-1", "exec-2"):
        left = here / "scratch" / name
        left.mkdir()
        spoil(left)
        os.utime(left, (0, 0))
    await workshop.open()
    print([*(here / "scratch").iterdir()])

asyncio.run(warm())
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
Path("mine").mkdir()
asyncio.run(main())
"""


def test_code_cannot_keep_its_scratch_nor_spoil_the_end_of_its_work(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir(mode=0o755)
    tmp_path.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, json.dumps(sys.path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "[]", done.stderr
    assert (tmp_path / "precious").stat().st_mode & 0o777 == 0o755


def test_work_that_left_what_cannot_be_removed_ended_as_it_ended(tmp_path: Path) -> None:
    asked: list[Path] = []

    async def scenario() -> bool:
        environments = Environments(tmp_path / "environments", install=install, most_bytes=1)
        workshop = Workspaces(
            tmp_path / "scratch",
            environments=environments,
            remove=lambda folder: bool(asked.append(folder)),
        )
        async with workshop.bench(make_assignment("command", {}), WatchedRun()) as bench:
            os.utime(bench.scratch, (0, 0))
        await workshop.open()
        return True

    assert asyncio.run(scenario())
    assert len(asked) == 2
