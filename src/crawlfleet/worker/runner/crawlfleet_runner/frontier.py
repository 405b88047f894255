"""The frontier that the master keeps, asked through the node; and items that count with its steps.

Who asks waits for the answer: while the master is away, the work stands still.
"""

import base64
import json
import queue
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from .items import MOST_COLUMNS, pieces, sober
from .wire import Failed, Wire

IN_JSON: Final = b"\2"
"""Before what is said: the answer comes in the same form."""
QUERY_BYTES: Final = 1_000_000
WORKER: Final = "spider"
SINK: Final = "fleet:items"
OK: Final = "ok"


class Page:
    """A request that was leased, and what came of it so far."""

    def __init__(self, id: int, host: str) -> None:
        self.id = id
        self.host = host
        self.status = 0
        self.links: dict[int, list[Any]] = {}
        self.lines: list[bytes] = []
        self.ordinals: dict[bytes, int] = {}
        """How often a request was made here that must not be filtered."""


class Frontier:
    """Of one crawl, with all that this execution has leased of it."""

    def __init__(self, wire: Wire, takes: Iterable[str]) -> None:
        if not {"frontier", "segments"} <= {*takes}:
            raise Failed("the node passes nothing on to a frontier; update it")
        self._wire = wire
        self._told: queue.Queue[dict[str, Any]] = queue.Queue()
        self._number = 0
        self._life = 0
        self._tokens: dict[str, int] = {}
        self._held: dict[str, dict[int, Page]] = {}
        self._numbers = {"add": 0, "lease": 0, "step": 0}
        self.waiting = 0
        """How many requests nobody has leased, as far as is known."""
        self.items = CountedItems(wire)

    def hear(self, order: dict[str, Any]) -> None:
        """An answer; from another thread."""
        self._told.put(order)

    def open(self) -> None:
        """Learn what earlier attempts have done."""
        (receipts,) = self._talk(lambda: [{"ask": "open"}])
        self.items.know(receipts)

    def add(self, links: Sequence[list[Any]]) -> None:
        """Take in requests that no page led to."""
        number = self._next("add")
        seeds = {"ask": "add", "number": number, "seeds": [*links], "at": time.time()}
        self._talk(lambda: [seeds])

    def lease(self, hosts: int, each: int) -> list[tuple[Page, str]]:
        """Requests to be made now, and what they were taken in as."""
        number = self._next("lease")

        def ask() -> list[dict[str, Any]]:
            held = {host: max(each - len(pages), 0) for host, pages in self._held.items()}
            more = max(hosts - len(held), 0)
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
            self._tokens[host] = lease["token"]
            pages = self._held.setdefault(host, {})
            for id, text, *_ in lease["urls"]:
                if id not in pages:
                    pages[id] = Page(id, host)
                    found.append((pages[id], text))
        return found

    def commit(self, pages: Sequence[Page], loose: Sequence[bytes] = ()) -> list[Page]:
        """These are done: what they led to waits, and their items count, all in one step. What is
        not this execution's any more is left to whoever has it; those pages are given back."""
        given = pages
        while pages := [page for page in pages if page.id in self._held.get(page.host, {})]:
            self.items.stage([*loose, *(line for page in pages for line in page.lines)])
            (refused,) = self._talk(partial(self._steps, tuple(pages), self._next("step")))
            if not refused:
                self.items.count_staged()
                self._settle((page.host, page.id) for page in pages)
                counted = {*pages}
                return [page for page in given if page not in counted]
            for host in refused:
                self._held.pop(host, None)
                self._tokens.pop(host, None)
        if loose:
            self.items.stage(loose)
            self.items.count_staged()
        return [*given]

    def close(self) -> None:
        """Let others have what was leased and not done."""
        if self._held:
            self._talk(lambda: [{"ask": "forget", "worker": WORKER}])
            self._held.clear()
            self._tokens.clear()
        (receipts,) = self._talk(lambda: [{"ask": "open"}])
        self.items.finish(receipts)

    def _steps(self, pages: Sequence[Page], number: int) -> list[dict[str, Any]]:
        hosts: dict[str, list[Any]] = {}
        for page in pages:
            visit = [page.id, OK, page.status, time.time(), [*page.links.values()]]
            hosts.setdefault(page.host, []).append(visit)
        commits = [
            {
                "host": host,
                "token": self._tokens.get(host, 0),
                "visits": visits,
                # With its last page, so that there is room for others; it may come again.
                "release": len(visits) == len(self._held.get(host, ())),
            }
            for host, visits in hosts.items()
        ]
        commit = {"hosts": commits, "receipts": self.items.receipts()}
        return [{"ask": "step", "worker": WORKER, "number": number, "commit": commit}]

    def _settle(self, done: Iterable[tuple[str, int]]) -> None:
        for host, id in done:
            self._held.get(host, {}).pop(id, None)
        self._held = {host: held for host, held in self._held.items() if held}

    def _next(self, kind: str) -> int:
        self._numbers[kind] += 1
        return self._numbers[kind]

    def _talk(self, asks: Callable[[], list[dict[str, Any]]]) -> Any:
        """The answers; after the master forgot who has what, once that was said again."""
        while True:
            asked = asks()
            told = self._ask({"asks": asked, "life": self._life if self._held else 0})
            if told["answers"] is not None:
                self._life = told["life"]
                self.waiting = told["counts"]["waiting"]
                return told["answers"]
            for ask in asked:
                # What was committed just before the master went is not to be had again.
                if ask["ask"] == "step" and ask["number"] <= told["step"]:
                    parts = ask["commit"]["hosts"]
                    self._settle((each["host"], it[0]) for each in parts for it in each["visits"])
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
        self._number += 1
        data = IN_JSON + json.dumps(talk).encode()
        for start in range(0, len(data), QUERY_BYTES):
            part = data[start : start + QUERY_BYTES]
            self._wire.say(
                "query",
                number=self._number,
                data=base64.b64encode(part).decode(),
                more=start + QUERY_BYTES < len(data),
            )
        while (order := self._told.get())["number"] != self._number:
            pass
        if order.get("refusal"):
            raise Failed(f"the frontier is not to be had: {order['refusal']}")
        told: dict[str, Any] = json.loads(base64.b64decode(order["data"])[1:])
        return told


class CountedItems:
    """The run of this execution beside those of earlier ones: segments are durable at the master
    before the step that counts them."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._kept: queue.Queue[tuple[int, str]] = queue.Queue()
        self._sequence = 0
        self._counted = 0
        self._own = 0
        self._staged = 0
        self._columns: list[str] = []
        self._earlier: list[dict[str, Any]] = []

    @property
    def count(self) -> int:
        """Of all attempts."""
        earlier: int = sum(run.get("items", 0) for run in self._earlier)
        return self._own + earlier

    def know(self, receipts: Mapping[str, Any]) -> None:
        """What counts of the runs of others."""
        own = f"{SINK}@{self._wire.execution_id}"
        self._earlier = [
            run
            for name, receipt in receipts.items()
            if name.startswith(f"{SINK}@") and name != own
            for run in receipt["runs"]
        ]

    def line(self, fields: Iterable[str], text: str) -> bytes:
        """An item as it travels: the names of its fields, and its JSON."""
        if not self._columns:
            self._columns = [str(name) for name in fields][:MOST_COLUMNS]
        return f'["items",{sober(text)}]\n'.encode("utf-8", "replace")

    def stage(self, lines: Sequence[bytes]) -> None:
        """Hand over items that the next step counts, in place of what was staged and not counted.
        Raises `Failed` if they are not taken."""
        first = self._sequence + 1
        self._staged = len(lines)
        for data, count, is_part in pieces(lines):
            self._send(data, count, is_part, first=first)

    def receipts(self) -> dict[str, Any]:
        """What a step says of it."""
        if not self._sequence:
            return {}
        run = {
            "execution_id": self._wire.execution_id,
            "last": self._sequence,
            "items": self._own + self._staged,
        }
        return {f"{SINK}@{self._wire.execution_id}": {"runs": [run]}}

    def count_staged(self) -> None:
        """The step was made."""
        self._counted = self._sequence
        self._own += self._staged
        self._staged = 0

    def finish(self, receipts: Mapping[str, Any]) -> None:
        """Say that all of it counts."""
        self.know(receipts)
        if self._sequence or self._earlier:
            self._send(b"", 0, False, first=self._sequence + 1, known=self._earlier)

    def hear(self, order: dict[str, Any]) -> None:
        """A segment is kept, or refused; from another thread."""
        self._kept.put((order.get("sequence", 0), order.get("refusal", "")))

    def _send(
        self,
        data: bytes,
        count: int,
        is_part: bool,
        *,
        first: int,
        known: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._sequence += 1
        segment: dict[str, Any] = {
            "sequence": self._sequence,
            "first": first,
            "counted": self._counted,
            "items": count,
            "is_part": is_part,
            "earlier": [*known],
        }
        if self._sequence == 1:
            segment |= {"columns": self._columns, "shared": True, "earlier": self._earlier}
        packed = base64.b64encode(zlib.compress(data, 3)).decode() if data else ""
        self._wire.say("segment", segment=segment, stream="items", data=packed)
        while (answer := self._kept.get())[0] != self._sequence:
            pass
        if answer[1]:
            raise Failed(f"items are not taken: {answer[1]}")
