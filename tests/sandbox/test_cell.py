"""A cell as the agent holds it; its other end is played by hand."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from crawlfleet.sandbox.cell import LocalCell
from crawlfleet.sandbox.spec import Word, encode

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


def number_of_an_ended_process() -> int:
    """As far as can be told by polling it."""
    ours, theirs = os.pipe()
    os.close(theirs)
    return ours


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_doors_that_come_when_nobody_waits_for_them_are_closed() -> None:
    async def scenario() -> None:
        before = open_files()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        cell = LocalCell(ours, has_namespace=False)
        # Whoever started it has given up, and it is ended before it says that it began.
        clearing = asyncio.create_task(cell.clear())
        await asyncio.sleep(0)
        number, door = number_of_an_ended_process(), socket.create_server(("127.0.0.1", 0))
        where = door.getsockname()
        socket.send_fds(theirs, [encode(Word(begun=1))], [number, door.fileno()])
        os.close(number)
        door.close()
        theirs.close()
        await clearing
        assert open_files() == before
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(where)

    asyncio.run(scenario())


def test_files_that_nobody_asked_for_are_closed() -> None:
    async def scenario() -> None:
        before = open_files()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        cell = LocalCell(ours, has_namespace=False)
        number = number_of_an_ended_process()
        for data in (encode(Word(begun=1)), encode(Word(begun=1)), b"nonsense"):
            socket.send_fds(theirs, [data], [number])
        os.close(number)
        theirs.close()
        await cell.clear()
        assert open_files() == before

    asyncio.run(scenario())
