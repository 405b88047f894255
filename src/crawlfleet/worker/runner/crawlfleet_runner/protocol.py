"""The executor protocol, as far as it is needed here."""

import base64
import json
import logging
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, Final

LINE_CHARS: Final = 2_000
DATA_BYTES: Final = 1_000_000
"""The most data of one `request`, before base64; longer data is sent in several."""
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
        self._waiting: dict[int, Callable[[dict[str, Any]], None]] = {}
        self._number = 0
        self._pid = os.getpid()
        self.execution_id = self.task_id = ""
        self.is_part = False
        """True when other executions work on the same crawl at the same time."""

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
        """Send a message about the execution."""
        self.send(type, execution_id=self.execution_id, **fields)

    def request(
        self,
        service: str,
        answer: Callable[[dict[str, Any]], None],
        payload: Any = None,
        data: bytes = b"",
    ) -> None:
        """Send a request to a service of the master; `answer` is called with the response, from
        another thread."""
        with self._turn:
            self._number += 1
            number = self._number
            self._waiting[number] = answer
        for start in range(0, len(data) or 1, DATA_BYTES):
            end = start + DATA_BYTES
            self.say(
                "request",
                number=number,
                service=service,
                payload=payload,
                data=base64.b64encode(data[start:end]).decode(),
                more=end < len(data),
            )

    def call(self, service: str, payload: Any = None, data: bytes = b"") -> dict[str, Any]:
        """Send a request and wait for its response."""
        response: queue.Queue[dict[str, Any]] = queue.Queue()
        self.request(service, response.put, payload, data)
        return response.get()

    def receive(self, response: dict[str, Any]) -> None:
        """A response has come."""
        answer = self._waiting.pop(response["number"], None)
        if answer is not None:
            answer(response)

    def log(self, message: Any, level: str = "info", **fields: Any) -> None:
        """A line in the log of the execution, or several."""
        for line in str(message).splitlines() or [""]:
            self.say("log", message=line[:LINE_CHARS], level=level, fields=fields)


class LogLines(logging.Handler):
    """Forwards `logging` records to the node at once."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    def emit(self, record: logging.LogRecord) -> None:
        try:
            level = LEVELS.get(min(record.levelno // 10 * 10, logging.ERROR), "info")
            self._wire.log(self.format(record), level, logger=record.name)
        except Exception:
            self.handleError(record)
