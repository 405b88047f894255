"""On what a benchmark ran, and how much else the machine had to do."""

import argparse
import contextlib
import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from bench.peers import ROOT
from crawlfleet.core.urls import canonical

QUIET_LOAD: Final = 0.7


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    cores: int
    processor: str
    python: str
    kernel: str
    date: str
    load_before: float
    """The load average when the run began: of other people's work."""
    load_wait_s: float
    source: str
    """The commit that was measured, whether the tree was clean, and its modules compiled."""

    @property
    def load(self) -> str:
        """A sentence for whoever reads the figures."""
        if self.load_before < QUIET_LOAD:
            return f"The machine was quiet when it began (load average {self.load_before:.1f})."
        return (
            f"**The machine was not quiet when it began (load average {self.load_before:.1f},"
            f" after {self.load_wait_s / 60:.0f} minutes of waiting)**: rates and latencies are"
            " those of a shared machine; CPU times suffer less."
        )


def machine(load_wait_s: float) -> Machine:
    return Machine(
        cores=os.cpu_count() or 1,
        processor=_processor(),
        python=platform.python_version(),
        kernel=platform.release(),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        load_before=os.getloadavg()[0],
        load_wait_s=load_wait_s,
        source=_source(),
    )


def add_wait(parser: argparse.ArgumentParser) -> None:
    """Let it be asked for by `--wait`."""
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="MINUTES",
        help=f"wait up to so long for a load average below {QUIET_LOAD}",
    )


def await_quiet(minutes: float, console: Console) -> float:
    """Wait for others to finish, for a while; how long it took."""
    begun = time.monotonic()
    while os.getloadavg()[0] >= QUIET_LOAD and time.monotonic() - begun < minutes * 60:
        time.sleep(5)
    waited = time.monotonic() - begun
    console.print(f"load average {os.getloadavg()[0]:.2f} after {waited:.0f} s of waiting")
    return waited


def first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or [""])[0]


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _source() -> str:
    commit = first_line(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])
    changed = first_line(["git", "-C", str(ROOT), "status", "--porcelain", "src"])
    source = f"{commit}{' with changes that are not committed' if changed else ''}"
    is_compiled = canonical.__file__.endswith(".so")
    return f"{source} ({'compiled' if is_compiled else 'not compiled'})"
