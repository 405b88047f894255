"""Part of the executor process: sends the prints of user code as output of its execution."""

import io
import os
from collections.abc import Callable
from typing import Any, Final

from crawlfleet.worker.executor.replies import Replies
from crawlfleet.worker.pool import protocol

PRINTED_AT_ONCE: Final = 1 << 16


class Printing(io.RawIOBase):
    """A stream whose content is sent as output of the execution that began last."""

    def __init__(self, latest_id: Callable[[], str | None], replies: Replies) -> None:
        self._latest_id = latest_id
        self._replies = replies
        self._pid = os.getpid()

    def text(self, *, errors: str) -> io.TextIOWrapper:
        """Return a text stream that writes to this one."""
        return io.TextIOWrapper(
            io.BufferedWriter(self), encoding="utf-8", errors=errors, line_buffering=True
        )

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Return the stderr descriptor, to which programs started by user code print."""
        return 2

    def write(self, data: Any) -> int:
        printed, id = bytes(data), self._latest_id()
        if id is None or os.getpid() != self._pid:  # a fork must not speak in between
            return os.write(2, printed)
        for start in range(0, len(printed), PRINTED_AT_ONCE):
            text = printed[start : start + PRINTED_AT_ONCE].decode(errors="replace")
            self._replies.send(protocol.Output(execution_id=id, text=text))
        return len(printed)
