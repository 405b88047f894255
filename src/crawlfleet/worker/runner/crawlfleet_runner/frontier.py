"""The frontier at the master, reached through the node; and items that count with its steps.

Each call waits for its response: while the master is away, the work stands still.
"""

import base64
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from .frontier_items import CountedItems
from .leased_request import Page
from .protocol import Failed, Wire

IN_JSON: Final = b"\2"
"""First byte of a request in JSON; its response is in JSON, too."""
WORKER: Final = "spider"
OK: Final = "ok"
NOWHERE: Final[Mapping[str, float]] = MappingProxyType({})


class Frontier:
    """The frontier of one crawl, with all leases of this execution."""

    def __init__(self, wire: Wire, takes: Iterable[str]) -> None:
        if not {"frontier", "output"} <= {*takes}:
            raise Failed("the node passes nothing on to a frontier")
        self._wire = wire
        self._life = 0
        self._tokens: dict[str, int] = {}
        self._held: dict[str, dict[int, Page]] = {}
        self._numbers = {"add": 0, "lease": 0, "step": 0}
        self.waiting = self.outstanding = 0
        """Known numbers of requests that no worker has leased (`waiting`) and that are not done
        (`outstanding`)."""
        self.surplus = 0
        """Number of hosts to give back, so that other workers get their share."""
        self.items = CountedItems(wire)

    def open(self) -> None:
        """Open the frontier and load the results of earlier attempts."""
        (receipts,) = self._talk(lambda: [{"ask": "open"}])
        self.items.know(receipts)

    def add(self, links: Sequence[list[Any]]) -> None:
        """Take in requests that no page led to."""
        number = self._next("add")
        seeds = {"ask": "add", "number": number, "seeds": [*links], "at": time.time()}
        self._talk(lambda: [seeds])

    def has(self, page: Page) -> bool:
        """Return whether this execution has leased the request, as far as it knows: another worker
        may hold it by now."""
        return self._held.get(page.host, {}).get(page.id) is page

    def held(self) -> Mapping[str, Mapping[int, Page]]:
        """Return the leased requests that are not done, by host and id."""
        return self._held

    def look(self) -> None:
        """Update the numbers of waiting and outstanding requests."""
        self._talk(lambda: [{"ask": "busiest", "limit": 0}])

    def lease(self, hosts: int, each: int, leaving: Collection[str] = ()) -> list[tuple[Page, str]]:
        """Lease requests, and return each new one with its serialised text. No more are leased of
        the hosts in `leaving`."""
        number = self._next("lease")

        def ask() -> list[dict[str, Any]]:
            held = {
                host: max(each - len(pages), 0)
                for host, pages in self._held.items()
                if host not in leaving
            }
            more = max(hosts - len(self._held), 0)
            return [
                {
                    "ask": "lease",
                    "worker": WORKER,
                    "number": number,
                    "hosts": more,
                    "urls": each,
                    "held": held,
                    "now": time.time(),
                }
            ]

        (leases,) = self._talk(ask)
        found = []
        for lease in leases:
            host = lease["host"]
            if lease.get("state") is not None:
                # The host was somebody else's meanwhile, if it was held here: so are its pages.
                self._held.pop(host, None)
            self._tokens[host] = lease["token"]
            pages = self._held.setdefault(host, {})
            for id, text, *_ in lease["urls"]:
                if id not in pages:
                    pages[id] = Page(id, host)
                    found.append((pages[id], text))
        return found

    def commit(
        self,
        pages: Sequence[Page],
        returned: Sequence[Page] = (),
        rests: Mapping[str, float] = NOWHERE,
    ) -> list[Page]:
        """Commit finished pages: the requests that they led to are added, and their items count,
        all in one step.

        Requests that are `returned` wait again. A host without leased requests here is given back,
        and left alone until the time in `rests`. Pages whose lease this execution has lost do not
        count: they are returned to the caller.
        """
        given = [*pages]
        while True:
            pages, returned = [*filter(self.has, pages)], [*filter(self.has, returned)]
            if not pages and not returned:
                return given
            self.items.stage([line for page in pages for line in page.lines])
            step = partial(self._steps, pages, returned, rests, self._next("step"))
            (refused,) = self._talk(step)
            if not refused:
                self.items.count_staged(pages)
                self._settle((page.host, page.id) for page in (*pages, *returned))
                counted = {*pages}
                return [page for page in given if page not in counted]
            for host in refused:
                self._held.pop(host, None)
                self._tokens.pop(host, None)

    def close(self) -> None:
        """Release all unfinished leases, and declare the items complete."""
        if self._held:
            self._talk(lambda: [{"ask": "forget", "worker": WORKER}])
            self._held.clear()
            self._tokens.clear()
        (receipts,) = self._talk(lambda: [{"ask": "open"}])
        self.items.finish(receipts)

    def _steps(
        self,
        pages: Sequence[Page],
        returned: Sequence[Page],
        rests: Mapping[str, float],
        number: int,
    ) -> list[dict[str, Any]]:
        visits: dict[str, list[Any]] = {}
        back: dict[str, list[int]] = {}
        found: set[int] = set()
        for page in pages:
            # What several pages of a step led to is said once: they count together or not at all.
            links = [link for id, link in page.links.items() if id not in found]
            found |= page.links.keys()
            # Only answers count as pages, not what was ignored, moved or never answered.
            visit = [page.id, OK, page.status, time.time(), links, None, page.status > 0]
            visits.setdefault(page.host, []).append(visit)
        for page in returned:
            back.setdefault(page.host, []).append(page.id)
        commits = [
            self._part(host, visits.get(host, []), back.get(host, []), rests)
            for host in dict.fromkeys([*visits, *back])
        ]
        commit = {"hosts": commits, "receipts": self.items.receipts(pages)}
        return [{"ask": "step", "worker": WORKER, "number": number, "commit": commit}]

    def _part(
        self, host: str, visits: list[Any], returned: list[int], rests: Mapping[str, float]
    ) -> dict[str, Any]:
        # With its last page, so that there is room for others; it may come again.
        release = len(visits) + len(returned) == len(self._held.get(host, ()))
        part: dict[str, Any] = {
            "host": host,
            "token": self._tokens.get(host, 0),
            "visits": visits,
            "returned": returned,
            "release": release,
        }
        if release and host in rests:
            part["state"] = {"next_at": rests[host]}
        return part

    def _settle(self, done: Iterable[tuple[str, int]]) -> None:
        for host, id in done:
            self._held.get(host, {}).pop(id, None)
        self._held = {host: held for host, held in self._held.items() if held}

    def _next(self, kind: str) -> int:
        self._numbers[kind] += 1
        return self._numbers[kind]

    def _talk(self, asks: Callable[[], list[dict[str, Any]]]) -> Any:
        """Send requests and return their answers. If the master has restarted, the leases are
        declared again first."""
        while True:
            asked = asks()
            told = self._ask({"asks": asked, "life": self._life if self._held else 0})
            if told["answers"] is not None:
                self._life, counts = told["life"], told["counts"]
                self.waiting = counts["waiting"]
                self.outstanding = counts["waiting"] + counts["leased"]
                self.surplus = told.get("surplus", 0) or self.surplus
                return told["answers"]
            for ask in asked:
                # What was committed just before the master went is not to be had again.
                if ask["ask"] == "step" and ask["number"] <= told["step"]:
                    for part in ask["commit"]["hosts"]:
                        done = (*(visit[0] for visit in part["visits"]), *part["returned"])
                        self._settle((part["host"], id) for id in done)
            hosts = {host: [*pages] for host, pages in self._held.items() if pages}
            reclaim = {"ask": "reclaim", "worker": WORKER, "hosts": hosts}
            again = self._ask({"asks": [reclaim], "life": told["life"]})
            if again["answers"] is not None:
                self._life = again["life"]
                self._tokens = again["answers"][0]
                self._held = {
                    host: pages for host, pages in self._held.items() if host in self._tokens
                }

    def _ask(self, talk: Mapping[str, Any]) -> dict[str, Any]:
        response = self._wire.call("frontier", data=IN_JSON + json.dumps(talk).encode())
        if response.get("refusal"):
            raise Failed(f"the frontier is not to be had: {response['refusal']}")
        told: dict[str, Any] = json.loads(base64.b64decode(response["data"])[1:])
        return told
