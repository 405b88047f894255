"""Decides when hosts may be requested, by the ledger that all crawls of the fleet share; the node
relays the messages.

Windows are requested in batches, and again before they end, so that a page costs no message. A host
without a window gets no requests. All but `_receive` runs in the thread of the reactor.
"""

import contextlib
import logging
import queue
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from .key_window import (
    LAST_WORDS_S,
    LONG_PAUSE_S,
    MAX_HOSTS_AT_ONCE,
    REPORT_EVERY_S,
    SOON_S,
    TROUBLE_S,
    awake,
)
from .protocol import Failed, Wire
from .windows import HOST, Go, Host

MAX_PAUSE_S: Final = 86_400.0
SHARED: Final = (
    "several workers ask one host (`split_hosts`), which only the fleet's ledger can keep within "
    "its limits, and there is none: set `ledger` at the masters, or leave `split_hosts` out"
)
log = logging.getLogger("crawlfleet")


class Ledger:
    """The client of the fleet's politeness ledger for one execution."""

    def __init__(
        self,
        wire: Wire,
        takes: Collection[str],
        *,
        post: Callable[[Callable[[], None]], None],
        later: Callable[[float, Callable[[], None]], Any],
        is_needed: bool = False,
        longest_s: float = 180.0,
        clock: Callable[[], float] = awake,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`post` has something done in the reactor's thread, and `later` after so many seconds;
        `longest_s` is how long a request may be under way; `is_needed` where nothing else keeps
        several workers within the limits of a host."""
        self._wire = wire
        self._post = post
        self._later = later
        self._is_needed = is_needed
        self._longest_s = longest_s
        self._clock = clock
        self._wall = wall
        self._hosts: dict[str, Host] = {}
        self._pauses: list[dict[str, Any]] = []
        self._responses: queue.Queue[tuple[int, dict[str, Any]]] = queue.Queue()
        self._number = 0
        self._asked: tuple[float, float, list[Host], int] | None = None
        """The request to the ledger that is under way: its times by both clocks, the hosts whose
        windows it gives back, and its number of pauses."""
        self._silent_until = self._complained_at = float("-inf")
        self._is_due = self._is_shut = False
        self.is_off = "ledger" not in takes
        """True when the fleet has no ledger, so that each worker sees to its own politeness."""
        self.changed: Callable[[], None] = lambda: None
        """Called when something may be begun that could not before."""

    def open(self) -> None:
        """Find out whether there is a ledger; waits while that is unknown. Raises `Failed` if one
        is needed and there is none."""
        while not self.is_off:
            response = self._wire.call("ledger", {})
            refusal = response.get("refusal")
            if not refusal:
                break
            if not response.get("may_retry"):
                self.is_off = True
            else:
                self._complain(refusal)
                time.sleep(TROUBLE_S)
        if self.is_off and self._is_needed:
            raise Failed(SHARED, "invalid")

    def close(self) -> None:
        """Give back all windows, so that other processes need not wait for their end. Call it when
        no request is under way and the reactor has stopped."""
        self.give_up()
        hosts = [*self._hosts.values()][:MAX_HOSTS_AT_ONCE]
        if hosts and not self.is_off:
            if self._asked is not None:
                self._answer(LAST_WORDS_S)
                self._asked = None
            now = self._clock()
            self._say({"returns": [host.back(now) for host in hosts]})
            self._answer(LAST_WORDS_S)

    def _receive(self, number: int, response: dict[str, Any]) -> None:
        """A response has come; from another thread."""
        self._responses.put((number, response))
        self._post(self._take)

    def host(self, name: str) -> Host:
        """Return the host of that name, made if it is new. The caller may change its limits."""
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = Host(name)
            host.used_at = self._clock()
        return host

    def may_hand_out(self, host: Host) -> bool:
        """Return whether a request may go to Scrapy. If not, a window is requested for the host."""
        if self.is_off or host.has_room(self._clock(), self._wall()):
            return True
        if not host.is_held and not host.is_wanted:
            host.is_wanted = True
            self._soon()
        return False

    def rests_for_s(self, host: Host) -> float:
        """Return the seconds for which the host is still left alone."""
        return max(host.paused_until - self._clock(), 0.0)

    def enter(self, host: Host, go: Go, *, patiently: bool = False) -> None:
        """Call `go` when a request may start, in order; it counts as started then. Unless it waits
        `patiently`, `go` is called with a reason when the host is left alone for long."""
        if self._is_shut:
            go("the spider is being stopped")
            return
        host.waiting.append((go, patiently))
        self._advance(host)

    def leave(self, host: Host) -> None:
        """A request has ended."""
        host.in_flight -= 1
        host.used_at = self._clock()
        self._advance(host)
        if host.owes:
            self._soon()
        self.changed()

    def pause(self, host: Host, seconds: float, why: str) -> None:
        """Leave a host alone for some seconds, in all crawls of the fleet."""
        seconds = min(seconds, MAX_PAUSE_S)
        host.paused_until = max(host.paused_until, self._clock() + seconds)
        self._pauses.append({"key": HOST + host.name, "for_s": seconds, "why": why})
        self._soon()

    def give_up(self) -> None:
        """Stop starting requests: `go` of each waiting one is called with the reason."""
        self._is_shut = True
        for host in self._hosts.values():
            self._turn_away(host, "the spider is being stopped", everybody=True)

    def tick(self) -> None:
        """Advance all hosts and exchange windows with the ledger. Must be called a few times a
        second."""
        for host in [*self._hosts.values()]:
            self._advance(host)
        self._exchange()
        now = self._clock()
        self._hosts = {name: host for name, host in self._hosts.items() if not host.is_idle(now)}

    def _advance(self, host: Host) -> None:
        """Start the requests of a host that may start now."""
        if (rest_s := self.rests_for_s(host)) > LONG_PAUSE_S:
            self._turn_away(host, f"{host.name} is left alone for {rest_s:.0f} s")
        while host.waiting:
            now = self._clock()
            wait_s = 0.0 if self.is_off else host.turn_in_s(now, self._wall())
            if wait_s is None:
                self._soon()
                return
            if wait_s > 0.0:
                if not host.has_timer:
                    host.has_timer = True
                    self._later(wait_s, partial(self._wake, host))
                return
            go, _ = host.waiting.popleft()
            host.start(now)
            go("")

    def _wake(self, host: Host) -> None:
        host.has_timer = False
        self._advance(host)

    def _turn_away(self, host: Host, why: str, *, everybody: bool = False) -> None:
        waiting = [*host.waiting]
        host.waiting.clear()
        host.waiting.extend(each for each in waiting if each[1] and not everybody)
        for go, patiently in waiting:
            if everybody or not patiently:
                go(why)

    def _soon(self) -> None:
        if not self._is_due and not self._is_shut:
            self._is_due = True
            self._later(SOON_S, self._exchange)

    def _exchange(self) -> None:
        """Exchange messages with the ledger, unless a request is under way."""
        self._is_due = False
        now = self._clock()
        if self.is_off or self._is_shut or self._asked is not None or now < self._silent_until:
            return
        hosts = [*self._hosts.values()]
        over = [host for host in hosts if host.is_to_return(now)]
        wants = [host for host in hosts if host.wants(now)][:MAX_HOSTS_AT_ONCE]
        if not (over or wants or self._pauses):
            return
        message = {
            "returns": [host.back(now) for host in over],
            "wants": [host.want(now) for host in wants],
            "pauses": [*self._pauses],
            "longest_s": self._longest_s,
        }
        for host in over:
            host.end()
        self._asked = now, self._wall(), over, len(self._pauses)
        self._say(message)

    def _say(self, message: dict[str, Any]) -> None:
        self._number += 1
        self._wire.request("ledger", partial(self._receive, self._number), message)

    def _answer(self, within_s: float) -> None:
        """Wait for the response to the last request, for so long."""
        with contextlib.suppress(queue.Empty):
            while self._responses.get(timeout=within_s)[0] != self._number:
                pass

    def _take(self) -> None:
        while self._asked is not None and not self._responses.empty():
            number, response = self._responses.get()
            if number == self._number:
                asked, self._asked = self._asked, None
                self._use(response, *asked)

    def _use(
        self,
        response: dict[str, Any],
        asked_at: float,
        asked_wall: float,
        over: list[Host],
        pauses: int,
    ) -> None:
        now, told = self._clock(), response.get("payload") or {}
        if refusal := response.get("refusal"):
            if response.get("may_retry") or self._is_needed:
                for host in over:
                    host.owes = True
                self._silent_until = now + TROUBLE_S
                self._complain(refusal)
                return
            log.warning("hosts are asked without a ledger: %s", refusal)
            self.is_off = True
            told = {}
        del self._pauses[:pauses]
        for window in told.get("windows", ()):
            if (known := self._hosts.get(window["key"].removeprefix(HOST))) is not None:
                known.begin(window, now=now, asked_at=asked_at, asked_wall=asked_wall)
        for refusal in told.get("refusals", ()):
            if (known := self._hosts.get(refusal["host"])) is not None:
                known.refuse(refusal, now)
        for host in [*self._hosts.values()]:
            self._advance(host)
        self.changed()

    def _complain(self, why: str) -> None:
        if self._clock() - self._complained_at >= REPORT_EVERY_S:
            self._complained_at = self._clock()
            log.warning("hosts wait for the ledger: %s", why)
