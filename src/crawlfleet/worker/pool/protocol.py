"""The protocol between a pool and an executor process: one JSON object a line.

Orders go to the process's stdin, replies come from its stdout, and stderr is its log. A receiver
ignores fields that it does not know; a new kind of message needs a new protocol number.
`docs/reference/executor-protocol.md` is the same for people who write programs that speak it.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from crawlfleet.core.text.nesting import MAX_NESTING, is_too_deep
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.log import LogLevel
from crawlfleet.model.resources import NOTHING, Resources
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import EMPTY_OBJECT, ErrorClass
from crawlfleet.model.wire.services import FOR_EXECUTORS

PROTOCOL: Final = 1
MAX_RESULT_BYTES: Final = 1_000_000
"""Maximum size of a result. A larger one is an error: large output belongs into a sink, not into
the task's record."""
MAX_REPLY_BYTES: Final = 2 * MAX_RESULT_BYTES
"""Maximum length of a reply. A process that sends a longer line is stopped, and the rest is not
read."""
MAX_ORDER_BYTES: Final = 32_000_000
"""Maximum length of an order: twice the master's limit of a request, so that no parameters are ever
too long."""
MAX_DATA_BYTES: Final = 1_000_000
"""Maximum size of the `data` of one `request`, before base64; longer data is sent in several."""
MAX_AHEAD: Final = 64
"""Maximum number of executions, beyond the present one, that a node sends to a process that can
queue them."""
MAX_MESSAGE_CHARS: Final = 2_000
MAX_DETAILS_CHARS: Final = 8_000


class LineTooLong(CrawlfleetError):
    """The other side sent a line beyond the limit."""


class Malformed(CrawlfleetError):
    """The other side sent something that is not a message of this protocol."""


class Order(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=str.lower, gc=False):
    """A message from the pool to the process."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=str.lower, gc=False):
    """A message from the process to the pool."""


class Hello(Order, frozen=True, kw_only=True):
    """The first order. The settings matter to executors that are part of crawlfleet."""

    protocol: int = PROTOCOL
    python_allow: tuple[str, ...] = ()
    python_modules: tuple[str, ...] = ()
    allow_private: bool = False
    sinks_dir: str = ""
    """Folder below which sinks of tasks write their files; without it none may."""
    takes: tuple[str, ...] = ()
    """The services to which the node passes on a `request`."""
    ahead: int = MAX_AHEAD
    """Maximum number of executions that the node sends ahead, if the process can queue them."""


class Start(Order, frozen=True, kw_only=True):
    """The order to run an execution, after those sent before it. It is sent ahead only to a process
    that can queue."""

    execution_id: str
    task_id: str
    attempt: int
    task_type: str
    timeout_s: float | None = None
    allocation: Resources = NOTHING
    parent_id: str | None = None
    secrets: dict[str, str] = {}
    """Values of the secrets that the task declares, by name. No other process may receive them."""
    parameters: msgspec.Raw = EMPTY_OBJECT

    def __repr__(self) -> str:
        return f"Start({self.execution_id}, {self.task_type})"


class Cancel(Order, frozen=True, kw_only=True):
    """The order to stop an execution, or not to begin it. It has no effect on an ended one."""

    execution_id: str


class WorkOrder(Order, frozen=True, kw_only=True, tag="obey"):
    """An order for a running execution; sent only to a process that takes `orders`."""

    execution_id: str
    number: int
    name: str
    arguments: dict[str, Any] = {}


class Response(Order, frozen=True, kw_only=True):
    """The answer to the `request` of that number."""

    execution_id: str
    number: int
    payload: msgspec.Raw = msgspec.Raw(b"null")
    data: bytes = b""
    refusal: str = ""
    """Why nothing was done; empty when it was."""
    may_retry: bool = False
    """True when the same request may succeed later."""


class Ready(Reply, frozen=True, kw_only=True):
    """The answer to `hello`."""

    protocol: int
    task_types: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    """Messages beyond the first ones that the process understands: `orders`."""
    ahead: int = 0
    """Number of executions that the process can queue beside the one that it works on."""


class Started(Reply, frozen=True, kw_only=True):
    """The execution begins now; before this message no work was done that could not be repeated."""

    execution_id: str


class Progress(Reply, frozen=True, kw_only=True):
    execution_id: str
    done: float
    total: float | None = None


class Log(Reply, frozen=True, kw_only=True):
    execution_id: str
    message: str
    level: str = LogLevel.INFO
    """The level; an unknown one counts as `info`."""
    fields: dict[str, Any] = {}


class Figures(Reply, frozen=True, kw_only=True):
    """The newest figures of a crawl."""

    execution_id: str
    figures: dict[str, Any]


class Answer(Reply, frozen=True, kw_only=True):
    """The result of an `obey` order, which ends with it."""

    execution_id: str
    number: int
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""


class Request(Reply, frozen=True, kw_only=True):
    """A request to a service of the master; `response` answers it."""

    execution_id: str
    number: int
    service: str
    payload: msgspec.Raw = msgspec.Raw(b"null")
    data: bytes = b""
    more: bool = False
    """True when the data continues in the next request with this number."""


class Output(Reply, frozen=True, kw_only=True):
    """Output of the execution itself. Its owner is certain, unlike that of lines on stderr."""

    execution_id: str
    text: str


class Result(Reply, frozen=True, kw_only=True):
    """The execution succeeded; the process is free again."""

    execution_id: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    metrics: dict[str, float] = {}


class Error(Reply, frozen=True, kw_only=True):
    """The execution failed; the process is free again."""

    execution_id: str
    message: str
    error_class: ErrorClass = ErrorClass.ERROR
    details: str = ""


class Stopped(Reply, frozen=True, kw_only=True):
    """The execution was cancelled as ordered; the process is free again."""

    execution_id: str


class Returned(Reply, frozen=True, kw_only=True):
    """The execution, which was sent ahead, was not begun: the one before it takes too long."""

    execution_id: str


AnyOrder = Hello | Start | Cancel | WorkOrder | Response
Ending = Result | Error | Stopped | Returned
Note = Progress | Log | Output | Figures | Answer | Request
"""The messages that an execution may send at any time."""
AnyReply = Ready | Started | Note | Ending
ORDERS: Final = "orders"

_orders: msgspec.json.Decoder[AnyOrder] = msgspec.json.Decoder(AnyOrder)
_replies: msgspec.json.Decoder[AnyReply] = msgspec.json.Decoder(AnyReply)
_encoder = msgspec.json.Encoder()


def hello_of(settings: WorkerSettings) -> Hello:
    """The greeting of a node with these settings."""
    return Hello(
        python_allow=settings.python_allow,
        python_modules=settings.python_modules,
        allow_private=settings.allow_private,
        sinks_dir=settings.sinks_dir,
        takes=FOR_EXECUTORS,
    )


def encode(message: Order | Reply) -> bytes:
    """Return the message as a line. Line breaks in raw JSON can only be white space, and are
    removed."""
    return _encoder.encode(message).replace(b"\n", b" ") + b"\n"


def encode_all(messages: Sequence[Order | Reply]) -> bytes:
    """The messages as lines."""
    lines = _encoder.encode_lines(messages)
    if lines.count(b"\n") == len(messages):
        return lines
    return b"".join(map(encode, messages))  # some raw JSON has line breaks


TOO_DEEP: Final = (
    f"more than {MAX_NESTING} lists and objects lie within each other; send them as a text"
)
AROUND: Final = 10
"""Levels of a message around the value that it carries."""


def too_large(size: int) -> str:
    """Return the error message for a result of so many bytes."""
    return (
        f"the result has {size:,} bytes, but {MAX_RESULT_BYTES:,} are allowed;"
        " write large output to a file or a sink, and return where it is"
    )


def clean(text: object, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Return text that can be sent: not too long, and without the half characters of broken
    input."""
    return str(text)[:limit].encode(errors="backslashreplace").decode()


def decode_order(line: bytes) -> AnyOrder:
    """Raises `Malformed`."""
    try:
        return _orders.decode(line)
    except ValueError as error:
        raise Malformed(_complaint(line, error)) from None


def decode_reply(line: bytes) -> AnyReply:
    """Raises `Malformed`, also for text that is not UTF-8: raw data goes on to the store."""
    try:
        line.decode()
        if is_too_deep(line, MAX_NESTING + AROUND):
            raise Malformed(_complaint(line, TOO_DEEP))
        return _replies.decode(line)
    except ValueError as error:
        raise Malformed(_complaint(line, error)) from None


def _complaint(line: bytes, error: object) -> str:
    return f"{error}; the line begins with {line[:200]!r}"


class Lines:
    """Cuts a stream of bytes into lines, and gives up on a line that gets too long."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes, without their ends. Raises `LineTooLong`."""
        *lines, rest = data.split(b"\n")
        if lines:
            self._take(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts, self._size = [], 0
            if len(data) > self._limit and any(len(line) > self._limit for line in lines):
                raise self._too_long()
        self._take(rest)
        return lines

    def _take(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            raise self._too_long()
        if part:
            self._parts.append(part)

    def _too_long(self) -> LineTooLong:
        return LineTooLong(f"a line of more than {self._limit:,} bytes")
