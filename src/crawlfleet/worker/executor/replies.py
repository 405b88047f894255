"""Part of the executor process: replies to the pool, and the executions that were sent ahead."""

import os
import threading
from collections import deque
from typing import Final

from crawlfleet.worker.pool import protocol

PATIENCE_S: Final = 0.05
"""Seconds after which executions that were sent ahead go back to the pool, if the one before them
still runs."""


class Replies:
    """Sends replies to the pool; may be used from any thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._kept = b""

    def keep(self, reply: protocol.Reply) -> None:
        """Keep a reply until the next one or `flush`, so that one write sends both."""
        with self._lock:
            self._kept += protocol.encode(reply)

    def send(self, reply: protocol.Reply) -> None:
        line = protocol.encode(reply)
        with self._lock:
            self._write(self._kept + line)

    def flush(self) -> None:
        with self._lock:
            self._write(self._kept)

    def _write(self, data: bytes) -> None:
        self._kept = b""
        while data:
            data = data[os.write(self._fd, data) :]


class Waiting:
    """Executions that were sent ahead. A thread of its own hands back those that cannot begin soon:
    user code may keep the event loop busy for as long as it likes."""

    def __init__(self, replies: Replies, *, patience_s: float = PATIENCE_S) -> None:
        self._replies = replies
        self._patience_s = patience_s
        self._starts: deque[protocol.Start] = deque()
        self._begun = 0
        self._some = threading.Event()
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    def add(self, start: protocol.Start) -> None:
        self._starts.append(start)
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="waiting", daemon=True)
            self._watcher.start()
        if not self._some.is_set():
            self._some.set()

    def next(self) -> protocol.Start | None:
        """Return the next execution to begin; `None` if none is left."""
        try:
            start = self._starts.popleft()
        except IndexError:
            return None
        self._begun += 1
        return start

    def remove(self, execution_id: str) -> bool:
        """Drop an execution that was sent ahead. Returns whether it was still waiting."""
        try:
            self._starts.remove(next(s for s in self._starts if s.execution_id == execution_id))
        except (StopIteration, ValueError, RuntimeError):  # handed back meanwhile
            return False
        return True

    def close(self) -> None:
        """End the thread, without handing executions back."""
        self._closed.set()
        self._some.set()

    def _watch(self) -> None:
        while not self._closed.is_set():
            self._some.wait()
            self._some.clear()
            while self._starts:
                begun = self._begun
                if self._closed.wait(self._patience_s):
                    return
                if begun == self._begun:
                    self._hand_back()

    def _hand_back(self) -> None:
        while True:
            try:
                start = self._starts.pop()
            except IndexError:
                return
            self._replies.send(protocol.Returned(execution_id=start.execution_id))
