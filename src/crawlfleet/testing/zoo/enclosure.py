"""The zoo's servers, on the loopback, in a thread with an event loop of its own."""

import asyncio
import contextlib
import re
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Final

from crawlfleet.testing.zoo.animal import PAGE, Animal, Behaviour, ZooVisitor, reply
from crawlfleet.testing.zoo.certificates import KINDS, Certificates
from crawlfleet.testing.zoo.contents import CONTENTS, prepare
from crawlfleet.testing.zoo.frames import FRAMES, talk_frames
from crawlfleet.testing.zoo.framing import FRAMING
from crawlfleet.testing.zoo.patience import PATIENCE
from crawlfleet.testing.zoo.places import PLACES
from crawlfleet.testing.zoo.statuses import STATUSES

ANIMALS: Final = (*FRAMING, *STATUSES, *CONTENTS, *PATIENCE, *PLACES, *FRAMES)
"""All kinds of misbehaviour, each with the outcome that it should have."""

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_PORT: Final = re.compile(r"\{port:([\w-]+)\}")


class Zoo:
    """The servers of all animals. `url` returns the address of each; `/` of the plain server links
    to all."""

    def __init__(self, certificates: Certificates) -> None:
        self.certificates = certificates
        self.ports: dict[str, int] = {}
        self.visits: list[str] = []
        """Names of the animals that were requested, in order."""
        self._behaviours: dict[str, Behaviour] = {
            animal.name: animal.behave for animal in ANIMALS if animal.behave
        }

    def url(self, animal: Animal) -> str:
        if animal.url:
            return _PORT.sub(lambda match: str(self.ports[match[1]]), animal.url)
        return f"http://127.0.0.1:{self.ports['plain']}/{animal.name}"

    async def open(self, stack: contextlib.AsyncExitStack) -> None:
        """Let everyone in until the stack is unwound."""
        prepare()
        await self._serve(stack, "plain", self._visit)
        for kind in KINDS:
            await self._serve(stack, kind, self._visit, self.certificates.server_context(kind))
        http2 = self.certificates.server_context("good", http2=True)
        await self._serve(stack, "http2", talk_frames, http2)
        await self._serve(stack, "garbage", _send_garbage)
        await self._serve(stack, "hangs-up", _hang_up)
        await self._serve(stack, "silent", _say_nothing)
        taken = stack.enter_context(socket.socket())
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        self.ports["closed"] = taken.getsockname()[1]

    async def _serve(
        self,
        stack: contextlib.AsyncExitStack,
        name: str,
        talk: Talk,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        talking: set[asyncio.Task[None]] = set()

        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            talking.add(task)
            try:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
                    await talk(reader, writer)
            except asyncio.CancelledError:
                pass  # the zoo closes
            finally:
                talking.discard(task)
                writer.close()

        server = await asyncio.start_server(meet, "127.0.0.1", 0, ssl=tls)
        self.ports[name] = server.sockets[0].getsockname()[1]

        async def close() -> None:
            server.close()
            for task in tuple(talking):
                task.cancel()
            if talking:
                await asyncio.wait(tuple(talking), timeout=5)

        stack.push_async_callback(close)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (first := await reader.readexactly(1)) == b"\x16":  # the begin of a TLS handshake
            writer.write(reply(PAGE, status="400 Bad Request"))
            return
        head = first + await reader.readuntil(b"\r\n\r\n")
        target = head.split(b" ", 2)[1].decode()
        path, _, query = target.partition("?")
        self.visits.append(path.removeprefix("/"))
        visitor = ZooVisitor(path, query, reader, writer)
        behave = self._behaviours.get(path.removeprefix("/"))
        if behave is not None:
            await behave(visitor)
        elif path == "/":
            links = "".join(f'<li><a href="/{name}">{name}</a>' for name in self._behaviours)
            await visitor.send(reply(PAGE.replace(b"<p>", f"<ul>{links}</ul><p>".encode())))
        elif path == "/robots.txt":
            await visitor.send(reply(b"User-agent: *\nAllow: /\n", content_type="text/plain"))
        else:
            await visitor.send(reply(PAGE, status="404 Not Found"))


async def _send_garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(bytes(range(256)) * 4)
    await writer.drain()


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)


async def _say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(65536):
        pass


@contextlib.contextmanager
def open_zoo() -> Iterator[Zoo]:
    """A zoo beside the caller, closed at the end."""
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        zoo = Zoo(Certificates(Path(folder)))
        ready, leaving = Event(), Event()
        trouble: list[BaseException] = []

        async def serve() -> None:
            async with contextlib.AsyncExitStack() as stack:
                await zoo.open(stack)
                ready.set()
                await asyncio.to_thread(leaving.wait)

        def run() -> None:
            try:
                asyncio.run(serve())
            except BaseException as error:
                trouble.append(error)
            finally:
                ready.set()

        thread = Thread(target=run, name="zoo", daemon=True)
        thread.start()
        ready.wait()
        if trouble:
            raise trouble[0]
        try:
            yield zoo
        finally:
            leaving.set()
            thread.join()
