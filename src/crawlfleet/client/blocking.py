"""The client for programs without an event loop: scripts, notebooks, threads.

Its methods are those of `Client`, which wait for their result; type checkers know them by the
generated `blocking_calls.pyi`. An event loop runs in a thread of the client; an async iterator of
`Client` is an ordinary iterator here.
"""

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from crawlfleet.client.client import Client
from crawlfleet.client.http.calls import PATIENCE_S
from crawlfleet.tls import Trust

if TYPE_CHECKING:
    from crawlfleet.client.blocking_calls import BlockingCalls
else:
    BlockingCalls = object

T = TypeVar("T")


class BlockingClient(BlockingCalls):
    """`with BlockingClient(url, key) as fleet: fleet.submit("sleep")`. Close it at the end."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        patience_s: float = PATIENCE_S,
        trust: Trust = Trust(),  # noqa: B008 (frozen)
    ) -> None:
        self._client = Client(url, key, patience_s=patience_s, trust=trust)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="crawlfleet client", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and end the thread. May be called twice."""
        if self._loop.is_closed():
            return
        self._run(self._client.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._client)})

    if not TYPE_CHECKING:  # which would take any name for a method of this class

        def __getattr__(self, name: str) -> Callable[..., Any]:
            method = None if name.startswith("_") else getattr(self._client, name, None)
            if not inspect.isroutine(method):
                raise AttributeError(f"a client has no {name!r}")
            return self._waiting(method)

    def _waiting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **named: Any) -> Any:
            outcome = method(*args, **named)
            if isinstance(outcome, AsyncIterator):
                return self._each(outcome)
            return self._run(outcome)

        return call

    def _each(self, things: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> tuple[bool, Any]:
            try:
                return True, await anext(things)
            except StopAsyncIteration:
                return False, None

        try:
            while True:
                more, thing = self._run(following())
                if not more:
                    return
                yield thing
        finally:
            if inspect.isasyncgen(things) and not self._loop.is_closed():
                self._run(things.aclose())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the client is closed; make a new one")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C, for example: nobody waits for it any more.
            future.cancel()
            raise
