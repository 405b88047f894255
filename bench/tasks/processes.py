"""Processes that this run starts, with all that they start themselves, and what they cost."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

PR_SET_PDEATHSIG: Final = 1
STOP_S: Final = 8.0
CHILDREN: Final = {"agents": "executors"}
"""Where the time of ended children counts: our agents replace executors after 100,000 tasks."""


class Program:
    """A process and its descendants, from `start` to `stop`."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        talkative: bool = False,
    ) -> None:
        self.log = folder / f"{Path(command[0]).name}-{time.monotonic_ns()}.log"
        talk = subprocess.PIPE if talkative else None
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                env={**os.environ, **(environment or {})},
                stdin=talk or subprocess.DEVNULL,
                stdout=talk or log,
                stderr=log,
                cwd=folder,
                text=talkative,
                start_new_session=True,  # Ctrl-C is for the benchmark, which stops the rest
                preexec_fn=_end_with_parent,
            )

    def tree(self) -> list[psutil.Process]:
        """The process and all its descendants that are alive."""
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(self.process.pid)
            return [top, *top.children(recursive=True)]
        return []

    def kill(self) -> None:
        """`kill -9` of the whole tree at once."""
        end(self.tree(), signal.SIGKILL)
        self.process.wait(STOP_S)

    def stop(self) -> None:
        """Ask the process to stop; what is left of the tree after a while is killed."""
        family = self.tree()
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_S)
        end(family, signal.SIGKILL)
        self.process.wait(STOP_S)

    def complaint(self) -> str:
        """The last words of a program that failed."""
        return self.log.read_text(errors="replace")[-1500:]


class Conversation:
    """A client process that carries out orders: `programs/client.py`."""

    def __init__(
        self, python: Path, system: str, *, folder: Path, environment: Mapping[str, str]
    ) -> None:
        script = Path(__file__).parent / "programs" / "client.py"
        self.program = Program(
            [python, script, system], folder=folder, environment=environment, talkative=True
        )
        self._answer()

    def ask(self, do: str, **order: Any) -> dict[str, Any]:
        """The answer, with the `seconds` and the `cpu_s` of the client that it took."""
        assert self.program.process.stdin is not None
        self.program.process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self.program.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self.program.stop()

    def _answer(self) -> dict[str, Any]:
        assert self.program.process.stdout is not None
        line = self.program.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the client ended:\n{self.program.complaint()}")
        return dict(json.loads(line))


class Cost:
    """CPU-seconds of groups of processes since it was made."""

    def __init__(self, groups: Mapping[str, Sequence[psutil.Process]]) -> None:
        self._begun = cpu_s(groups)

    def until(self, groups: Mapping[str, Sequence[psutil.Process]]) -> dict[str, float]:
        """What each group has used; `groups` are those of now, which may have other members."""
        return {name: spent - self._begun.get(name, 0.0) for name, spent in cpu_s(groups).items()}


def cpu_s(groups: Mapping[str, Sequence[psutil.Process]]) -> dict[str, float]:
    """CPU-seconds of each group so far, those of children that have ended included."""
    spent = dict.fromkeys(groups, 0.0)
    for name, members in groups.items():
        for process in members:
            own, ended = _spent(process)
            spent[name] += own
            spent[CHILDREN.get(name, name)] += ended
    return spent


def end(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _spent(process: psutil.Process) -> tuple[float, float]:
    """CPU-seconds of the process itself, and of its children that have ended."""
    try:
        times = process.cpu_times()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return 0.0, 0.0
    return times.user + times.system, times.children_user + times.children_system


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
