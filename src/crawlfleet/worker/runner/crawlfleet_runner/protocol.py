"""The executor protocol, as far as it is needed here."""

import json
import logging
import os
import threading
from typing import Any, Final

LINE_CHARS: Final = 2_000
LEVELS: Final = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warning",
    logging.ERROR: "error",
}


class Failed(Exception):
    """The work failed; `error_class` is one of the protocol's."""

    def __init__(self, message: str, error_class: str = "error", details: str = "") -> None:
        super().__init__(message)
        self.error_class = error_class
        self.details = details


class Wire:
    """Orders in, replies out; any thread may speak."""

    def __init__(self, orders_fd: int, replies_fd: int) -> None:
        self._orders = os.fdopen(orders_fd, "rb")
        self._replies_fd = replies_fd
        self._turn = threading.Lock()
        self._pid = os.getpid()
        self.execution_id = self.task_id = ""
        self.is_part = False
        """Whether others work on the same thing at the same time."""

    def next_order(self) -> dict[str, Any] | None:
        """The next order, or nothing when the node is gone."""
        line = self._orders.readline()
        order: dict[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
        return order

    def send(self, type: str, **fields: Any) -> None:
        if os.getpid() != self._pid:  # a fork must not speak in between
            return
        message = json.dumps({"type": type, **fields}, ensure_ascii=False)
        data = message.encode("utf-8", "replace") + b"\n"
        with self._turn:
            while data:
                data = data[os.write(self._replies_fd, data) :]

    def say(self, type: str, **fields: Any) -> None:
        """The same about the execution."""
        self.send(type, execution_id=self.execution_id, **fields)

    def log(self, message: Any, level: str = "info", **fields: Any) -> None:
        """A line in the log of the execution, or several."""
        for line in str(message).splitlines() or [""]:
            self.say("log", message=line[:LINE_CHARS], level=level, fields=fields)


class LogLines(logging.Handler):
    """What goes to `logging` is said as it comes."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    def emit(self, record: logging.LogRecord) -> None:
        try:
            level = LEVELS.get(min(record.levelno // 10 * 10, logging.ERROR), "info")
            self._wire.log(self.format(record), level, logger=record.name)
        except Exception:
            self.handleError(record)
