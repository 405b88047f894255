"""A network in between that loses answers: the request arrived and was acted on, nobody hears."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Final

CHUNK: Final = 1 << 16


class LossyProxy:
    """Passes TCP connections on to a port of this machine, and cuts some before an answer."""

    def __init__(self, target: int, *, loss: float, seed: int) -> None:
        self._target = target
        self._loss = loss
        self._chance = random.Random(seed)
        self.lost = 0
        """Answers that nobody heard."""
        self.passed = 0

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Its address, for as long as it listens."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            far, onward = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            back.close()
            return
        asking = asyncio.create_task(_pass_on(near, onward))
        with contextlib.suppress(OSError):
            while answer := await far.read(CHUNK):
                if self._chance.random() < self._loss:
                    self.lost += 1
                    break
                self.passed += 1
                back.write(answer)
                await back.drain()
        asking.cancel()
        for writer in (back, onward):
            writer.close()


async def _pass_on(near: asyncio.StreamReader, onward: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while request := await near.read(CHUNK):
            onward.write(request)
            await onward.drain()
    onward.close()
