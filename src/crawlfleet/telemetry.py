"""Logs: one event, one line, ids as fields.

People read `[MASTER] task submitted task_id=…`; machines read one JSON object a line. Lines are
written by a thread of their own, so that a slow disk or terminal does not hold up the event loop;
when it is so slow that thousands of lines wait, lines are dropped, counted and told of.
What libraries log through `logging` comes out in the same form. Fields that may hold secrets are
masked before they leave the caller.
"""

import atexit
import json
import logging
import logging.handlers
import os
import queue
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Final

import msgspec


class Component(StrEnum):
    """The part of the fleet that writes a log line."""

    MASTER = "MASTER"
    WORKER = "WORKER"
    SCHED = "SCHED"
    DEDUP = "DEDUP"
    RECOVER = "RECOVER"
    LB = "LB"
    API = "API"


MASK: Final = "***"
WAITING_LINES: Final = 10_000
"""Maximum number of lines that wait for the writer: a few megabytes, and seconds of the busiest
logging."""

_SECRET_WORDS: Final = frozenset(
    {"token", "key", "authorization", "cookie", "secret", "password", "credentials"}
)
_OPEN_NAMES: Final = frozenset({"idempotency_key", "dedup_key", "host_key"})
_URL_CREDENTIALS: Final = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")
_QUIET: Final = ("alembic", "aiohttp.access", "asyncio", "sqlalchemy", "uvicorn.access")
"""Libraries that log too much; their warnings are shown, the rest only at level `debug`."""
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_COLOURS: Final[Mapping[str, str]] = {
    Component.MASTER: "36",
    Component.WORKER: "32",
    Component.SCHED: "35",
    Component.DEDUP: "34",
    Component.RECOVER: "33",
    Component.LB: "94",
    Component.API: "96",
}

_threshold: int = logging.WARNING
_level = "warning"


class ConsoleLine(msgspec.Struct, frozen=True):
    """Message of a log record that crawlfleet writes; its text is the form for people."""

    component: str
    message: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        fields = "".join(f" {name}={_show(value)}" for name, value in self.fields.items())
        return f"[{self.component}] {_printable(self.message)}{fields}"


class BoundLogger:
    """Writes log lines with fields. A disabled level costs one comparison."""

    def __init__(self, component: Component, **bound: Any) -> None:
        self._component = component
        self._bound = bound

    def bind(self, **fields: Any) -> "BoundLogger":
        """Return a logger that adds these fields to every line."""
        return BoundLogger(self._component, **{**self._bound, **fields})

    def debug(self, message: str, /, **fields: Any) -> None:
        if _threshold <= logging.DEBUG:
            self._write(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        if _threshold <= logging.INFO:
            self._write(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        if _threshold <= logging.WARNING:
            self._write(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: Any) -> None:
        self._write(logging.ERROR, message, fields)

    def exception(self, message: str, /, **fields: Any) -> None:
        """An error, with the traceback of the exception that is being handled."""
        self._write(logging.ERROR, message, fields, exception=True)

    def _write(
        self, level: int, message: str, fields: dict[str, Any], *, exception: bool = False
    ) -> None:
        error = sys.exc_info() if exception else None
        line = ConsoleLine(self._component.value, message, mask_secrets({**self._bound, **fields}))
        record = logging.LogRecord("crawlfleet", level, "", 0, line, (), error)
        logging.getLogger("crawlfleet").handle(record)


def is_debugging() -> bool:
    """Return whether lines of level debug are written, so that callers can skip preparing them."""
    return _threshold <= logging.DEBUG


def logger(component: Component) -> BoundLogger:
    """The voice of a component; works before `configure`, and follows it whenever it is called."""
    return BoundLogger(component)


def mask_secrets(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Put `***` in place of texts under names such as `token`, and of passwords in URLs.

    Numbers stay: a fencing token is no secret.
    """
    return {name: _masked(name, value) for name, value in fields.items()}


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _masked(str(key), inner) for key, inner in value.items()}
    if isinstance(value, str | bytes) and _is_secret(name):
        return MASK
    return _without_credentials(value) if isinstance(value, str) else value


def _is_secret(name: str) -> bool:
    plain = name.lower().replace("-", "_").rpartition(".")[2]
    return plain.rpartition("_")[2] in _SECRET_WORDS and plain not in _OPEN_NAMES


def _without_credentials(text: str) -> str:
    return _URL_CREDENTIALS.sub(rf"\1{MASK}@", text) if "://" in text and "@" in text else text


def _printable(text: str) -> str:
    """Escape characters that would move the cursor or recolour the terminal."""
    return text if text.isprintable() else "".join(map(_printable_char, text))


def _printable_char(char: str) -> str:
    return char if char.isprintable() or char in "\n\t" else repr(char)[1:-1]


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else str(value)
    plain = text and text.isprintable() and not any(char in text for char in " \"'=")
    return text if plain else repr(text)


class _Formatter(logging.Formatter):
    """Turns our own records and those of libraries into lines of one form."""

    def __init__(self, default: Component) -> None:
        super().__init__()
        self._default = default

    def line(self, record: logging.LogRecord) -> ConsoleLine:
        if isinstance(record.msg, ConsoleLine):
            return record.msg
        component = Component.API if record.name.startswith("uvicorn") else self._default
        message = _without_credentials(record.getMessage())
        return ConsoleLine(component.value, message, {"logger": record.name})

    def traceback(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class ConsoleFormatter(_Formatter):
    """`[MASTER] message key=value`, with the level when it is worth a look."""

    def __init__(self, default: Component, *, colour: bool) -> None:
        super().__init__(default)
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        line = self.line(record)
        head = self._paint(_COLOURS.get(line.component, "37"), f"[{line.component}]")
        text = f"{head} {self._level(record)}{_printable(line.message)}"
        for name, value in line.fields.items():
            text += f" {self._paint('2', name + '=')}{_show(value)}"
        traceback = self.traceback(record)
        return f"{text}\n{_printable(traceback)}" if traceback else text

    def _level(self, record: logging.LogRecord) -> str:
        if record.levelno < logging.WARNING:
            return ""
        colour = "1;31" if record.levelno >= logging.ERROR else "1;33"
        return self._paint(colour, f"{record.levelname}: ")

    def _paint(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour else text


class JsonFormatter(_Formatter):
    """One JSON object a line: `time`, `level`, `component`, `message`, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line = self.line(record)
        body: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "component": line.component,
            "message": line.message,
        }
        for name, value in line.fields.items():
            body[f"{name}_" if name in body else name] = value
        if traceback := self.traceback(record):
            body["traceback"] = traceback
        try:
            return msgspec.json.encode(body, enc_hook=str).decode()
        except (TypeError, ValueError):  # lone surrogates, odd keys: a line all the same
            return json.dumps({str(k): v for k, v in body.items()}, default=str, skipkeys=True)


class _Intake(logging.handlers.QueueHandler):
    """Hands records to the writer's queue as they are; counts those that found no room."""

    queue: "queue.Queue[logging.LogRecord | None]"

    def __init__(self) -> None:
        super().__init__(queue.Queue(WAITING_LINES))
        self.dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record  # it stays in this process: no need to flatten it

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class _Writer(logging.handlers.QueueListener):
    """The thread that formats and writes."""

    def __init__(self, intake: _Intake, *handlers: logging.Handler) -> None:
        super().__init__(intake.queue, *handlers)
        self._intake = intake

    def enqueue_sentinel(self) -> None:
        self._intake.queue.put(None)  # waits for room: what is in the queue gets written

    def handle(self, record: logging.LogRecord) -> None:
        super().handle(record)
        if dropped := self._intake.dropped:
            self._intake.dropped -= dropped
            line = ConsoleLine(Component.MASTER.value, "log lines dropped", {"count": dropped})
            super().handle(logging.LogRecord("crawlfleet", logging.WARNING, "", 0, line, (), None))


class _Running(msgspec.Struct, frozen=True):
    intake: logging.Handler
    writer: logging.handlers.QueueListener
    handlers: tuple[logging.Handler, ...]


_running: _Running | None = None


def configure(
    *,
    level: str = "info",
    format: str = "auto",
    file: Path | None = None,
    max_file_mb: float = 20.0,
    files: int = 5,
    component: Component = Component.MASTER,
    stream: IO[str] | None = None,
) -> None:
    """Begin to write logs to `stream` (standard error), and as JSON to `file`; may be repeated.

    A file belongs to one process. Lines of libraries are attributed to `component`.
    """
    global _running, _level
    shutdown()
    out = stream or sys.stderr
    terminal = out.isatty()
    console = logging.StreamHandler(out)
    if format == "json" or (format == "auto" and not terminal):
        console.setFormatter(JsonFormatter(component))
    else:
        colour = terminal and "NO_COLOR" not in os.environ
        console.setFormatter(ConsoleFormatter(component, colour=colour))
    handlers: list[logging.Handler] = [console]
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        rotating = logging.handlers.RotatingFileHandler(
            file,
            maxBytes=int(max_file_mb * 1024 * 1024),
            backupCount=max(files - 1, 1),  # with 0 it would never begin a new file
            encoding="utf-8",
            errors="backslashreplace",
        )
        rotating.setFormatter(JsonFormatter(component))
        handlers.append(rotating)

    _level = level
    intake = _Intake()
    writer = _Writer(intake, *handlers)
    _apply_level(level)
    logging.root.addHandler(intake)
    writer.start()
    _running = _Running(intake, writer, tuple(handlers))


def set_level(level: str | None) -> None:
    """Write from this level on, from now; `None` is the level that was configured."""
    if _running is not None and _LEVELS[level or _level] != _threshold:
        _apply_level(level or _level)


def _apply_level(level: str) -> None:
    global _threshold
    _threshold = threshold = _LEVELS[level]
    logging.root.setLevel(threshold)
    for name in _QUIET:
        quiet = logging.NOTSET if level == "debug" else logging.WARNING
        logging.getLogger(name).setLevel(max(quiet, threshold) if quiet else quiet)


def shutdown() -> None:
    """Write the waiting lines, and stop writing. May be called twice."""
    global _running
    if _running is None:
        return
    running, _running = _running, None
    logging.root.removeHandler(running.intake)
    running.writer.stop()
    for handler in running.handlers:
        handler.close()


atexit.register(shutdown)
