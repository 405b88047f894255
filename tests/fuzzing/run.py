"""Feed everything that reads bytes of strangers: `python -m tests.fuzzing.run --seconds 3600`.

Inputs follow from their seed: `--seed N --count 1` reads one again. They are read in a process
beside this one, which the kernel ends when an input takes more CPU or memory than it may; that
input is a finding, and a new process goes on with the next one.
"""

import argparse
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from tests.fuzzing.readers import READERS, WEIGHTS, Step

LEAST_CPU_S: Final = 3.0
"""Of the process that reads: large pages are read in another one, which has a limit of its own."""
CPU_S: Final = LEAST_CPU_S + 2.0 * 5
MEMORY_BYTES: Final = 3_000_000_000
WALL_S: Final = 300.0
LARGE: Final = 1_000_000


class Finding(NamedTuple):
    """An input that something could not deal with."""

    seed: int
    why: str


class Report(NamedTuple):
    """What a run has seen."""

    inputs: int
    bytes: int
    slowest: dict[str, Step]
    """By reader: what took the most CPU for each byte, of inputs of 1 MB or more. The start of the
    process that reads a page is among it, a fifth of a second."""
    unreadable: dict[int, str]
    """By seed: the reason."""
    peak_bytes: int
    findings: list[Finding]


def fuzz(seed: int, *, count: int | None = None, seconds: float | None = None) -> Report:
    """Read inputs from `seed` on, so many or for so long."""
    findings: list[Finding] = []
    slowest: dict[str, Step] = {}
    unreadable: dict[int, str] = {}
    inputs = bytes_read = 0
    until = None if seconds is None else time.monotonic() + seconds
    following = seed
    while (count is None or following < seed + count) and (until is None or not over(until)):
        left = None if count is None else seed + count - following
        for line in _steps(following, left, until):
            if isinstance(line, Finding):
                findings.append(line)
                following = line.seed + 1
                continue
            following = line.seed + 1
            inputs += 1
            bytes_read += line.bytes
            if line.unreadable:
                unreadable[line.seed] = line.unreadable
            worst = slowest.get(line.reader)
            if line.bytes >= LARGE and (
                worst is None or line.cpu_s * worst.bytes > worst.cpu_s * line.bytes
            ):
                slowest[line.reader] = line
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return Report(inputs, bytes_read, slowest, unreadable, peak, findings)


def over(until: float) -> bool:
    return time.monotonic() > until


def _steps(seed: int, count: int | None, until: float | None) -> Iterator[Step | Finding]:
    """What one process read, and how it failed in the end."""
    command = [sys.executable, "-m", "tests.fuzzing.run", "--reader", "--seed", str(seed)]
    if count is not None:
        command += ["--count", str(count)]
    if until is not None:
        command += ["--seconds", str(max(0.0, until - time.monotonic()))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        reading = seed
        for raw in process.stdout:
            kind, _, rest = raw.partition(b" ")
            if kind == b"begin":
                reading = int(rest)
            else:
                yield msgspec.json.decode(rest, type=Step)
        told = process.stderr.read().decode(errors="replace")
        code = process.wait()
    if code:
        why = signal.Signals(-code).name if code < 0 else told[-2000:]
        yield Finding(reading, why)


def _read(seed: int, count: int | None, seconds: float | None) -> None:
    """The other process."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    until = None if seconds is None else time.monotonic() + seconds
    names = [name for name in READERS for _ in range(WEIGHTS.get(name, 1))]
    while (count is None or count > 0) and (until is None or not over(until)):
        chance = random.Random(seed)
        name = chance.choice(names)
        print(f"begin {seed}", flush=True)
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        signal.alarm(int(WALL_S))
        began = cpu_s()
        try:
            read = READERS[name](chance)
        except Exception:
            traceback.print_exc()
            print(f"reader {name}, seed {seed}", file=sys.stderr)
            raise SystemExit(1) from None
        step = Step(seed, name, read.bytes, cpu_s() - began, read.unreadable)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print("end", msgspec.json.encode(step).decode(), flush=True)
        seed += 1
        count = None if count is None else count - 1


def cpu_s() -> float:
    """Of this process, and of those that have read for it and have ended."""
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--reader", action="store_true", help="be the process that reads")
    asked = parser.parse_args()
    if asked.reader:
        _read(asked.seed, asked.count, asked.seconds)
        return 0
    if asked.count is None and asked.seconds is None:
        parser.error("say --count or --seconds")
    report = fuzz(asked.seed, count=asked.count, seconds=asked.seconds)
    print(f"{report.inputs:,} inputs, {report.bytes / 1e6:,.0f} MB", end=", ")
    print(f"{len(report.unreadable)} pages unreadable", end=", ")
    print(f"{report.peak_bytes / 1e6:,.0f} MB of memory at most")
    for name, step in sorted(report.slowest.items()):
        rate = step.cpu_s / (step.bytes / 1e6)
        print(f"{name:12} {rate:6.2f} s of CPU a MB at most (seed {step.seed}: ", end="")
        print(f"{step.bytes / 1e6:.2f} MB, {step.cpu_s:.2f} s)")
    for seed, reason in report.unreadable.items():
        print(f"seed {seed} is unreadable: {reason}")
    for finding in report.findings:
        print(f"seed {finding.seed}: {finding.why}")
    print(f"{len(report.findings)} findings")
    return 1 if report.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
