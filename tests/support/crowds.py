"""Processes full of simulated nodes, to be told what to do."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.support.local_fleet import LocalFleet

Process = subprocess.Popen[str]


class Crowds:
    """Processes full of simulated nodes."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._processes = processes
        for process in processes:
            self._read(process)

    def add(self, nodes: int) -> None:
        """So many nodes in all processes together."""
        share, rest = divmod(nodes, len(self._processes))
        for number, process in enumerate(self._processes):
            self._ask(process, {"do": "add", "nodes": share + (number < rest)})

    def figures(self) -> dict[str, Any]:
        """Of all processes since it was last asked: times by kind, tasks done, CPU-seconds."""
        times: dict[str, list[float]] = {}
        done, cpu_s = 0, 0.0
        for process in self._processes:
            answer = self._ask(process, {"do": "figures"})
            done += answer["done"]
            cpu_s += answer["cpu_s"]
            for what, seconds in answer["times"].items():
                times.setdefault(what, []).extend(seconds)
        return {"times": times, "done": done, "cpu_s": cpu_s}

    def _ask(self, process: Process, order: dict[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        return self._read(process)

    def _read(self, process: Process) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the nodes ended; crowd.log says why")
        return dict(json.loads(line))


@contextmanager
def crowds(fleet: LocalFleet, processes: int) -> Iterator[Crowds]:
    """Processes for nodes of that fleet's master; gone at the end."""
    environment = {
        **os.environ,
        "CROWD_URL": fleet.url,
        "CROWD_JOIN": fleet.join_token,
    }
    started: list[Process] = []
    try:
        with (fleet.folder / "crowd.log").open("ab") as log:
            for _ in range(processes):
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.support.crowd"],
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
                started.append(process)
        yield Crowds(started)
    finally:
        for process in started:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
