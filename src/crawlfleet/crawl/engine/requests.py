"""Sends the requests of an engine: each with a slot of its host's clock, which is given the
outcome.

The cost of requests and the pauses of hosts are kept until the engine takes them for its report.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from crawlfleet.core.politeness.host_clock import HostClock
from crawlfleet.crawl.engine.outcomes import asked_to_wait
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.politeness.local_limits import Neighbourhood
from crawlfleet.crawl.work import HostMeasure, Pausing
from crawlfleet.telemetry import Component, logger

if TYPE_CHECKING:
    from crawlfleet.crawl.politeness.ledger_client import Granted

log = logger(Component.WORKER)


class Asking:
    """Sends every request of an engine: pages, retries, redirects and robots.txt."""

    def __init__(
        self,
        *,
        fetcher: Fetcher,
        neighbourhood: Neighbourhood,
        granted: "Granted | None",
        now: Callable[[], float],
    ) -> None:
        """Create the requester. With `granted`, the fleet's ledger decides when a host is
        requested, instead of the neighbourhood."""
        self._fetcher = fetcher
        self._neighbourhood = neighbourhood
        self._granted = granted
        self._now = now
        self._measures: dict[str, HostMeasure] = {}
        self._pauses: list[Pausing] = []

    async def ask(self, host: str, clock: HostClock, request: FetchRequest) -> Fetched:
        """Fetch with a slot of that clock that was granted, and give it back."""
        try:
            if self._granted is not None:
                fetched = await self._granted.fetch(host, clock, request)
            else:
                turn = self._neighbourhood.turn(host)
                if not turn.take():
                    await turn.wait()
                try:
                    fetched = await self._fetcher.fetch(request)
                finally:
                    turn.leave()
        except BaseException:
            clock.release()
            raise
        now = self._now()
        clock.sent(now - fetched.elapsed_s + fetched.sent_s)
        wait_s = asked_to_wait(fetched, now)
        pause = clock.observe(fetched.outcome, fetched.status, fetched.elapsed_s, wait_s, now)
        if (measure := self._measures.get(host)) is None:
            measure = self._measures[host] = HostMeasure()
        measure.requests += 1
        measure.seconds += fetched.elapsed_s
        measure.bytes += fetched.wire_bytes
        if pause is not None:
            self.tell(Pausing(host, pause.until - now, pause.reason, pause.until))
            measure.failures += 1
        return fetched

    def tell(self, pausing: Pausing) -> None:
        """Note a pause of a host, and report it to the fleet's ledger if there is one."""
        self._pauses.append(pausing)
        if self._granted is not None:
            self._granted.pause(pausing.host, pausing.seconds, pausing.why)
        seconds = round(pausing.seconds, 1)
        log.info("host left alone", host=pausing.host, seconds=seconds, why=pausing.why)

    def take(self) -> tuple[dict[str, HostMeasure], list[Pausing]]:
        """Return, and reset, the cost of the requests and the pauses of hosts since the last
        call."""
        taken = self._measures, self._pauses
        self._measures, self._pauses = {}, []
        return taken

    async def close(self) -> None:
        """Nothing is under way any more."""
        if self._granted is not None:
            await self._granted.close()
