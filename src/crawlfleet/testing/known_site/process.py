"""The known site in a separate process, and its log of requests."""

import contextlib
import os
import subprocess
import sys
import urllib.request
from types import TracebackType
from typing import Final, NamedTuple, Self

import msgspec

from crawlfleet.testing.known_site.graph import SiteSpec

ROBOTS: Final = -1


class Hit(NamedTuple):
    """One request as the server saw it; page -1 is robots.txt, -2 anything else."""

    page: int
    host: int
    at: float
    busy: int
    """Requests that its host had to answer then, with this one."""


class _Log(msgspec.Struct):
    pages: list[int]
    times: list[float]
    hosts: list[int]
    busy: list[int]


class ServedSite:
    """A context manager: the site is there while it is entered."""

    def __init__(self, spec: SiteSpec, *, is_prompt: bool = False) -> None:
        """`is_prompt`: it goes before all other work, where it may, and so reads its clock in time
        on a busy machine, too."""
        self.spec = spec
        self._is_prompt = is_prompt
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "crawlfleet.testing.known_site.server"]
        command.append(msgspec.json.encode(self.spec).decode())
        self._process = subprocess.Popen(  # noqa: S603 (our own program)
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        if self._is_prompt:
            with contextlib.suppress(OSError):
                os.sched_setscheduler(self._process.pid, os.SCHED_RR, os.sched_param(1))
        self.spec = msgspec.structs.replace(self.spec, port=int(self._process.stdout.readline()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def hits(self) -> list[Hit]:
        """All requests so far, in order."""
        with urllib.request.urlopen(f"{self.spec.host(0)}/__log", timeout=60) as answer:  # noqa: S310
            log = msgspec.json.decode(answer.read(), type=_Log)
        return [Hit(*each) for each in zip(log.pages, log.hosts, log.times, log.busy, strict=True)]
