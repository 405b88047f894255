"""A work queue at the other end of a socket: its messages, and the side of the engine."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from crawlfleet.crawl.process_messages import decode, encode
from crawlfleet.crawl.work import EngineReport, Leased
from crawlfleet.errors import LedgerUnavailable, Refused, StoreUnavailable
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.model.wire.politeness import LedgerReply, LedgerRequest

T = TypeVar("T")
HEADER_BYTES: Final = 4
GONE: Final = "the crawl's main process is gone"


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """The task of a worker process; the first message that it receives."""

    parameters: CrawlParameters
    allow_private: bool
    keep_bodies: bool
    revisiting: bool
    engine: str = ""
    """Name under which the process asks the fleet's ledger; empty where there is no ledger."""
    set_by_s: float = 0.0
    """Seconds by which this machine's clock was set since the crawl began."""


class LeaseCall(msgspec.Struct, frozen=True, kw_only=True, tag="lease"):
    hosts: int
    urls: int
    held: Mapping[str, int]
    now: float


class Results(EngineReport, frozen=False, kw_only=True, tag="handed"):
    """Results of visits."""


class Polite(msgspec.Struct, frozen=True, kw_only=True, tag="polite"):
    """A request to the fleet's ledger."""

    ask: LedgerRequest


class WorkRequest(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    what: LeaseCall | Results | Polite


class WorkResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The response to the request with this id. The id 0 belongs to no request and means:
    finish."""

    id: int
    leased: Leased | None = None
    refused: Sequence[str] = ()
    told: LedgerReply | None = None
    trouble: str = ""
    """The reason why the ledger did not answer; empty if it did."""
    is_passing: bool = True


async def send(writer: asyncio.StreamWriter, message: object) -> None:
    """Send one message, preceded by its length."""
    data = encode(message)
    writer.write(len(data).to_bytes(HEADER_BYTES, "big") + data)
    await writer.drain()


async def receive(reader: asyncio.StreamReader, kind: type[T]) -> T | None:
    """Return the next message; `None` when the other side is gone."""
    try:
        size = int.from_bytes(await reader.readexactly(HEADER_BYTES), "big")
        data = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return decode(data, kind)


class WireDesk:
    """Implements `crawl.desk.Desk` over a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._asked: dict[int, asyncio.Future[WorkResponse]] = {}
        self._last_id = 0
        self.gone = False
        """True when the other side of the socket is gone."""

    async def listen(self, end: asyncio.Event) -> None:
        """Handle responses until the other side is gone. Sets `end` on the order to finish, and
        when the other side is gone."""
        try:
            while (answer := await receive(self._reader, WorkResponse)) is not None:
                if answer.id == 0:
                    end.set()
                elif (future := self._asked.pop(answer.id, None)) and not future.done():
                    future.set_result(answer)
        finally:
            self.gone = True
            end.set()
            for future in self._asked.values():
                if not future.done():
                    future.set_exception(StoreUnavailable(GONE))

    async def lease(self, *, hosts: int, urls: int, held: Mapping[str, int], now: float) -> Leased:
        answer = await self._ask(LeaseCall(hosts=hosts, urls=urls, held=held, now=now))
        return answer.leased or Leased()

    async def hand_in(self, handed: EngineReport) -> Sequence[str]:
        results = Results(**msgspec.structs.asdict(handed))
        return (await self._ask(results)).refused

    async def ask(self, ask: LedgerRequest) -> LedgerReply:
        """Implements `crawlfleet.ports.ledger.Ledger` over the same socket."""
        answer = await self._ask(Polite(ask=ask))
        if answer.told is None:
            raise (LedgerUnavailable if answer.is_passing else Refused)(answer.trouble)
        return answer.told

    async def _ask(self, what: LeaseCall | Results | Polite) -> WorkResponse:
        if self.gone:
            raise StoreUnavailable(GONE)
        self._last_id += 1
        future: asyncio.Future[WorkResponse] = asyncio.get_running_loop().create_future()
        self._asked[self._last_id] = future
        try:
            await send(self._writer, WorkRequest(id=self._last_id, what=what))
        except ConnectionError as error:
            raise StoreUnavailable(GONE) from error
        return await future
