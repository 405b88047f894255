"""A program with its arguments. No shell, nothing on its stdin, and nobody left when it ends.

It stays in the process group of this process, which the node kills as a whole; and the kernel kills
it when this process dies.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from typing import IO, Any, Final

from .job import Work
from .protocol import LINE_CHARS, Failed

TAIL_BYTES: Final = 8_000
STOP_WAIT_S: Final = 0.5
PR_SET_PDEATHSIG: Final = 1
ERROR_CLASSES: Final = {64: "invalid", 68: "network", 69: "network", 75: "network"}
"""Exit codes with a meaning (`sysexits.h`): wrong usage, no such host, unavailable, try later."""


class Command(Work):
    """Implements `Work`."""

    _child: subprocess.Popen[bytes] | None = None

    def run(self) -> tuple[Any, dict[str, float]]:
        argv = [str(each) for each in self.parameters["argv"]]
        # By a handler, which the program does not inherit: the whole group is asked to stop.
        signal.signal(signal.SIGTERM, lambda *_: None)
        prctl = getattr(ctypes.CDLL(None), "prctl", lambda *_: 0)
        began = time.monotonic()
        try:
            self._child = child = subprocess.Popen(  # noqa: S603 (no shell is the point)
                argv,
                env={**os.environ, **(self.parameters.get("environment") or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise Failed(f"{argv[0]!r} cannot be run: {why}", "invalid") from None
        if self.is_cancelled.is_set():
            self.cancel()
        out, err = Tail(self, child.stdout, "info"), Tail(self, child.stderr, "warning")
        code = child.wait()
        for tail in (out, err):
            tail.join(STOP_WAIT_S)
        if code == 0:
            return {"exit_code": 0, "output": out.text}, {"ran_s": time.monotonic() - began}
        raise Failed(ending(argv[0], code), ERROR_CLASSES.get(code, "error"), err.text or out.text)

    def cancel(self) -> None:
        super().cancel()
        if self._child is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(0, signal.SIGTERM)
        timer = threading.Timer(STOP_WAIT_S, self._child.kill)
        timer.daemon = True
        timer.start()


class Tail(threading.Thread):
    """Passes on the lines of a stream, and remembers the last of it."""

    def __init__(self, work: Work, stream: IO[bytes] | None, level: str) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._stream = stream
        self._level = level
        self._last = b""
        self.start()

    @property
    def text(self) -> str:
        return self._last.decode(errors="replace")

    def run(self) -> None:
        assert self._stream is not None, "it was asked for"
        rest = b""
        while data := os.read(self._stream.fileno(), 1 << 16):
            self._last = (self._last + data)[-TAIL_BYTES:]
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > LINE_CHARS:
                lines.append(rest)
                rest = b""
            for line in lines:
                self._say(line)
        if rest:
            self._say(rest)

    def _say(self, line: bytes) -> None:
        self._work.wire.log(line.decode(errors="replace").rstrip("\r"), self._level)


def ending(program: str, code: int) -> str:
    """Return how a process ended, in words."""
    if code >= 0:
        return f"{program} exited with code {code}"
    known = {number.value: number.name for number in signal.Signals}
    return f"{program} was killed by {known.get(-code, f'signal {-code}')}"
