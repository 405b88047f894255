"""Cuts the output of an executor process into lines for the execution that printed it."""

from typing import Final

from crawlfleet.model.log import LogLevel
from crawlfleet.ports.execution import Observer
from crawlfleet.telemetry import Component, logger

TAIL_BYTES: Final = 8_000
LINES_LOGGED: Final = 1_000
"""Maximum number of lines outside of executions: a program that prints forever must not fill the
node's log."""
LINE_CHARS: Final = 2_000

log = logger(Component.WORKER)


class Output:
    """The output of one process, with the execution that its last part belongs to."""

    def __init__(self) -> None:
        self._owner: Observer | None = None
        self._tail = b""
        self._partial_line = b""
        self._lines_left = LINES_LOGGED

    @property
    def tail(self) -> str:
        """The last output of the present execution."""
        return self._tail.decode(errors="replace").strip()

    @property
    def has_open_line(self) -> bool:
        return bool(self._partial_line)

    def turn_to(self, owner: Observer | None) -> None:
        """Assign the output from now on to this execution, or to none."""
        if owner is not self._owner:
            self.end_line()
            self._owner = owner
            self._tail = b""

    def take(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        if len(self._partial_line) > LINE_CHARS:
            lines.append(self._partial_line)
            self._partial_line = b""
        for line in lines:
            self._take_line(line)

    def end_line(self) -> None:
        """Complete an unfinished line."""
        rest, self._partial_line = self._partial_line, b""
        if rest:
            self._take_line(rest)

    def _take_line(self, line: bytes) -> None:
        text = line[:LINE_CHARS].decode(errors="replace").rstrip("\r")
        if self._owner is not None:
            self._owner.log(text, LogLevel.INFO, {})
        elif self._lines_left:
            self._lines_left -= 1
            log.info("executor_output", line=text)
