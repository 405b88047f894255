"""The measurements, each on an open system. They know nothing of who is measured."""

import contextlib
import statistics
import time
from pathlib import Path
from typing import Final

import msgspec

from bench.tasks.processes import Cost
from bench.tasks.systems import Site

POLL_S: Final = 0.05
MAX_PAUSE_S: Final = 1.0
SHORTEST_PAUSE_S: Final = 0.005
SHARE_BEFORE_CLOCK: Final = 0.05
"""Workers start, import and fill their prefetch while this share of the tasks is done."""
DRAIN_DEADLINE_S: Final = 240.0
START_DEADLINE_S: Final = 30.0


class Enqueue(msgspec.Struct, frozen=True, kw_only=True):
    per_s: float
    cpu_ms: dict[str, float]
    """Of one task, by group of processes."""


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    per_s: float
    cpu_ms: dict[str, float]


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from the call of the client to the first line of the task."""

    p50: float
    p99: float
    tasks: int


class Queued(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that one more queued task takes, by where."""

    tasks: int
    bytes_each: dict[str, float]


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the tasks after `kill -9` of one of two workers."""

    tasks: int
    done_before: int
    seconds: float | None
    """From the kill until all tasks had run to their end; `None`: not within the wait."""
    waited_s: float
    missing: int
    """Tasks that had not run to their end when the wait was over."""
    still_known: int
    """How many tasks the system itself still counts as not done then."""
    ran_twice: int


def enqueue(site: Site, way: str, tasks: int) -> Enqueue:
    """Submit that many with no worker there: `single` or `batch`."""
    cost = Cost(site.groups())
    answer = site.client.ask(way, tasks=tasks)
    spent = {"client": answer["cpu_s"], **cost.until(site.groups())}
    return Enqueue(
        per_s=tasks / answer["seconds"],
        cpu_ms={name: 1e3 * seconds / tasks for name, seconds in spent.items() if seconds},
    )


def drain(site: Site, processes: int) -> Drain:
    """Let workers do all that is queued; the clock starts when they are at full speed."""
    queued = _left(site)
    site.start_workers(processes)
    deadline = time.monotonic() + DRAIN_DEADLINE_S
    while (begun_with := _left(site)) > queued * (1 - SHARE_BEFORE_CLOCK):
        _check(site, deadline)
        time.sleep(POLL_S)
    cost, begun = Cost(site.groups()), time.perf_counter()
    while left := _left(site):
        _check(site, deadline)
        time.sleep(_pause_s(begun_with - left, left, time.perf_counter() - begun))
    seconds = time.perf_counter() - begun
    spent = cost.until(site.groups())
    return Drain(
        per_s=begun_with / seconds,
        cpu_ms={name: 1e3 * each / begun_with for name, each in spent.items()},
    )


def latency(site: Site, folder: Path, tasks: int, gap_s: float) -> Latency:
    """Two worker processes with nothing else to do, and a task now and then."""
    site.start_workers(2)
    _trickle(site, folder / "warm-up", 20, gap_s)
    lines = _trickle(site, folder / "marks", tasks, gap_s)
    waits = sorted(max(float(line), 0.0) * 1e3 for line in lines)
    cuts = statistics.quantiles(waits, n=100)
    return Latency(p50=cuts[49], p99=cuts[98], tasks=tasks)


def queued(site: Site, tasks: int, within_s: float) -> Queued:
    """How much memory and disk a long queue takes."""
    site.client.ask("fill", tasks=2000, within_s=within_s)  # caches and pools fill first
    before = site.memory()
    done = site.client.ask("fill", tasks=tasks, within_s=within_s)["tasks"]
    after = site.memory()
    return Queued(
        tasks=done, bytes_each={name: (after[name] - before[name]) / done for name in after}
    )


def kill(site: Site, folder: Path, tasks: int, wait_s: float) -> Killed:
    """`kill -9` of one of two workers, with all its processes, a tenth into the work."""
    file = folder / "numbers"
    file.touch()
    site.start_workers(2, apart=True)
    # Both have to be at work when the first is killed.
    _trickle(site, folder / "warm-up", 40, 0.05)
    site.client.ask("numbers", tasks=tasks, file=str(file), seconds=0.05)
    _await_lines(file, tasks // 10, START_DEADLINE_S)
    victim = site.workers.pop(0)
    victim.kill()
    killed_at = time.monotonic()
    done_before = len(_numbers(file))
    with contextlib.suppress(TimeoutError):
        _await_numbers(file, tasks, wait_s)
    seconds = time.monotonic() - killed_at
    missing = tasks - len(set(_numbers(file)))
    time.sleep(1.0)  # what runs a second time may still be at it
    numbers = _numbers(file)
    return Killed(
        tasks=tasks,
        done_before=done_before,
        seconds=None if missing else seconds,
        waited_s=wait_s,
        missing=missing,
        still_known=_left(site),
        ran_twice=len(numbers) - len(set(numbers)),
    )


def _pause_s(done: int, left: int, seconds: float) -> float:
    """Half of what the rest will take: looking disturbs, and the end must be seen when it comes.

    At first there is little to tell that from, so that it is no longer than the time that passed.
    """
    rest_s = left * seconds / max(done, 1)
    longest_s = min(max(seconds, POLL_S), MAX_PAUSE_S)
    return min(max(rest_s / 2, SHORTEST_PAUSE_S), longest_s)


def _left(site: Site) -> int:
    return int(site.client.ask("left")["left"])


def _check(site: Site, deadline: float) -> None:
    for worker in site.workers:
        if worker.process.poll() is not None:
            raise RuntimeError(f"a worker ended:\n{worker.complaint()}")
    if time.monotonic() > deadline:
        raise RuntimeError(f"not drained in time, {_left(site)} tasks are left")


def _trickle(site: Site, file: Path, tasks: int, gap_s: float) -> list[str]:
    file.touch()
    site.client.ask("trickle", tasks=tasks, file=str(file), gap_s=gap_s)
    _await_lines(file, tasks, START_DEADLINE_S)
    return file.read_text().split()


def _numbers(file: Path) -> list[str]:
    return file.read_text().split()


def _await_lines(file: Path, lines: int, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while len(_numbers(file)) < lines:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(_numbers(file))} of {lines} tasks ran in {within_s:g} s")
        time.sleep(0.005)


def _await_numbers(file: Path, tasks: int, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while len(set(_numbers(file))) < tasks:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)
