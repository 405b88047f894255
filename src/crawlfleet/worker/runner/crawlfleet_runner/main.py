"""One execution from `hello` to its end."""

import json
import os
import shutil
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Final

from .command import Command
from .function import Function
from .items import Items
from .job import Work, leave, told
from .protocol import Failed, Wire
from .spider import Spider

PROTOCOL: Final = 1
WORKS: Final[dict[str, type[Work]]] = {
    "scrapy_spider": Spider,
    "command": Command,
    "python": Function,
}
MAX_RESULT_BYTES: Final = 1_000_000
MESSAGE_CHARS: Final = 2_000


def main(code: str | None = None) -> None:
    """Work in the present folder; with `code`, in a copy of that folder below it, so that the code
    finds its files where it left them, and may write beside them."""
    orders_fd, replies_fd = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    wire = Wire(orders_fd, replies_fd)
    hello = wire.next_order()
    if hello is None:
        return
    wire.send("ready", protocol=PROTOCOL, task_types=[*WORKS], takes=["orders"])
    start = wire.next_order()
    if start is None:
        return
    wire.execution_id, wire.task_id = start["execution_id"], start.get("task_id", "")
    wire.is_part = start.get("parent_id") is not None
    # Not among the variables that this process was started with, which others might read.
    os.environ.update(start.get("secrets") or {})
    if sys.prefix != sys.base_prefix:
        # The programs of the environment come first, whoever set the path.
        programs = str(Path(sys.executable).parent)
        os.environ["PATH"] = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
    if code is not None:
        shutil.copytree(code, "work")
        os.chdir("work")
    takes = hello.get("takes", ())
    work = WORKS[start["task_type"]](wire, Items(wire, takes), start["parameters"], takes)
    listener = threading.Thread(target=listen, args=(wire, work), daemon=True)
    listener.start()
    execute(wire, work)
    listener.join()  # the node closes the pipe when it has heard the end


def listen(wire: Wire, work: Work) -> None:
    """Take orders until the node is gone, which ends everything."""
    while (order := wire.next_order()) is not None:
        kind = order["type"]
        if kind == "cancel":
            work.cancel()
        elif kind == "response":
            wire.receive(order)
        elif kind == "obey":
            is_done = order["name"] == "stop" and work.stop()
            wrong = "" if is_done else f"this work does not obey {order['name']!r}"
            wire.say("answer", number=order["number"], error=wrong)
    leave()


def execute(wire: Wire, work: Work) -> None:
    """Run the work and report its end."""
    wire.say("started")
    ending: tuple[str, dict[str, Any]]
    try:
        data, metrics = work.run()
        size = len(json.dumps(data, allow_nan=False))
        if size > MAX_RESULT_BYTES:
            raise Failed(
                f"the result has {size:,} bytes, but {MAX_RESULT_BYTES:,} are allowed; hand over "
                "large output as items"
            )
        ending = "result", {"data": data, "metrics": metrics}
    except BaseException as error:  # `sys.exit` of the code ends the work, too
        ending = "error", trouble(error)
    sys.stderr.flush()
    if work.is_cancelled.is_set():
        wire.say("stopped")
    else:
        wire.say(ending[0], **ending[1])


def trouble(error: BaseException) -> dict[str, Any]:
    """Return the fields of the protocol's error message."""
    if isinstance(error, Failed):
        message, details = str(error), error.details
    else:
        message, details = f"{type(error).__name__}: {error}", told(error)
    return {
        "error_class": error_class(error),
        "message": message[:MESSAGE_CHARS],
        "details": details,
    }


def error_class(error: BaseException) -> str:
    given = getattr(error, "error_class", None)
    if isinstance(given, str) and given in {"error", "network", "invalid"}:
        return given
    return "network" if isinstance(error, ConnectionError | socket.gaierror) else "error"
