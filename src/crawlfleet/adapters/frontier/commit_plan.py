"""Works out what one commit changes, without changing anything.

The books and the tables stay as they are until the transaction has ended well; then the books take
over what is here. So a failing disk leaves RAM and file in step.

Depths: a link is one deeper than its page, a redirect as deep as what led to it. When a known URL
is met nearer to the seeds than before, its depth falls; if it was visited already and the crawl is
limited in depth, the links that were stored with it are met again at the new depth, and so on.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from crawlfleet import zstd
from crawlfleet.adapters.frontier.counts import RunningTotals
from crawlfleet.adapters.frontier.host_queue import HostQueue, QueuedUrl
from crawlfleet.adapters.frontier.lookup import look_up
from crawlfleet.adapters.frontier.packing import (
    MAX_HOSTS,
    PLACE,
    depth_of,
    known_at,
    place_of,
    queue_key,
)
from crawlfleet.adapters.frontier.seen import MAY_FALL, KnownUrls, Met
from crawlfleet.adapters.frontier.sql import Tables
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.crawl.frontier import (
    FrontierRules,
    HostCommit,
    HostState,
    Link,
    UrlRetry,
    Visit,
)

_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(list[tuple[int, str, str, int]]).decode
_to_json: Final = msgspec.json.Encoder().encode


class PlannedUrl(NamedTuple):
    """A URL to add. Its depth may still fall while the commit is worked out."""

    place: int
    link: Link
    host: HostQueue
    hops: int
    found_on: int | None
    found_at: float

    @property
    def key(self) -> int:
        return queue_key(self.host.number, self.link.priority, self.place)


class Stored(NamedTuple):
    """The links of a visited page, kept in case its depth falls."""

    ids: bytes = b""
    """Packed ids of known URLs whose depth could fall with that of the page."""
    far: bytes = b""
    """Links that were too deep to be added, compressed."""
    redirect: int | None = None


class FrontierSnapshot(NamedTuple):
    """The state of a frontier on which an intake decides."""

    rules: FrontierRules
    tables: Tables
    seen: KnownUrls
    hosts: Mapping[str, HostQueue]
    tally: RunningTotals
    next_place: int
    exact: bool


class CommitPlan:
    """The changes of one commit; see its fields."""

    def __init__(self, present: FrontierSnapshot) -> None:
        self._rules = present.rules
        self._tables = present.tables
        self._seen = present.seen
        self._hosts = present.hosts
        self._exact = present.exact
        self._depth_limit = present.rules.max_depth
        self._stores_links = self._exact and self._depth_limit is not None
        self._next_place = present.next_place
        self._per_host: dict[HostQueue, int] = {}
        self._open: dict[HostQueue, dict[int, QueuedUrl]] = {}
        self.tally = present.tally.copy()
        self._dropped_before = present.tally.dropped
        self.found: dict[int, PlannedUrl] = {}
        self.known: dict[int, int] = {}
        """New or changed values of known URLs, by id; see `packing`."""
        self.new_hosts: dict[str, HostQueue] = {}
        self.visits: list[tuple[Any, ...]] = []
        self.retries: list[tuple[Any, ...]] = []
        self.links: dict[int, Stored] = {}
        self.states: dict[HostQueue, HostState] = {}
        self.ended: list[tuple[HostQueue, QueuedUrl]] = []
        """Leased URLs that were visited for good."""
        self.delayed: list[tuple[HostQueue, QueuedUrl, float]] = []
        self.returned: list[tuple[HostQueue, QueuedUrl]] = []
        self.released: list[HostQueue] = []

    def seed(self, links: Sequence[Link], at: float) -> int:
        """Add seeds; returns how many were new."""
        new = 0
        if not self._exact:
            maybe = {link.id for link in links if self._seen[link.id] is not None}
            self.known.update((id, place) for id, place in self._tables.places(maybe))
        for link in links:
            known = self.known.get(link.id)
            if known is None and self._exact:
                known = self._seen[link.id]
            if known is None:
                self._take_in(link, 0, 0, None, at)
                new += 1
            elif depth_of(known):
                self._lower(link.id, known, 0, at)
        if not self._exact:
            self.known = {id: self.known[id] for id in self.found}
        return new

    def take(self, parts: Iterable[tuple[HostQueue, HostCommit]]) -> None:
        """Take the visits, retries and returns of URLs under live leases. Other URLs are skipped:
        an earlier commit has handled them.
        """
        done: list[tuple[HostQueue, QueuedUrl, Visit]] = []
        for host, part in parts:
            open_ = self._open.get(host)
            if open_ is None:
                open_ = self._open[host] = dict(host.leased or {})
            for visit in part.visits:
                entry = open_.pop(visit.id, None)
                if entry is not None:
                    done.append((host, entry, visit))
            for retry in part.retries:
                entry = open_.pop(retry.id, None)
                if entry is not None:
                    self._retry(host, entry, retry)
            for id in part.returned:
                entry = open_.pop(id, None)
                if entry is not None:
                    self.returned.append((host, entry))
            if part.state is not None:
                self.states[host] = part.state
            if part.release:
                self.released.append(host)
        if done:
            self._visit_all(done)

    def _visit_all(self, done: Sequence[tuple[HostQueue, QueuedUrl, Visit]]) -> None:
        met = look_up(
            self._seen,
            [visit for _, _, visit in done],
            None if self._exact else [entry.depth for _, entry, _ in done],
            store=self._stores_links,
        )
        for (host, entry, visit), links in zip(done, met, strict=True):
            self._visit(host, entry, visit, links)

    def _retry(self, host: HostQueue, entry: QueuedUrl, retry: UrlRetry) -> None:
        key, place = entry.key, entry.place
        attempts = entry.attempts + 1
        self.retries.append(
            (
                place,
                key,
                host.number,
                retry.due,
                attempts,
                retry.outcome,
                retry.status,
                retry.at,
                retry.note or None,
            )
        )
        self.delayed.append((host, entry._replace(attempts=attempts), retry.due))

    def _visit(self, host: HostQueue, entry: QueuedUrl, visit: Visit, met: Met) -> None:
        id, outcome, status, at, links, redirect, counts, validator, note = visit
        place = entry.place
        self.visits.append(
            (place, outcome, status, at, entry.attempts + 1, counts, validator, note or None)
        )
        self.ended.append((host, entry))
        tally = self.tally
        tally.done += 1
        tally.pages += counts
        tally.outcomes[outcome] = tally.outcomes.get(outcome, 0) + 1
        if id in self.known and (depth := depth_of(self.known[id])) != met.depth:
            # It has fallen within this commit: look at every link.
            met = Met(depth, links)
        depth = met.depth
        if self._stores_links and depth and (links or redirect):
            self._meet_and_store(entry, visit, met)
        elif self._depth_limit is None or depth < self._depth_limit:
            for link in met.worth:
                self._meet(link, depth + 1, 0, place, at)
        if redirect is not None:
            self._meet(redirect, depth, entry.hops + 1, place, at)

    def _meet_and_store(self, entry: QueuedUrl, visit: Visit, met: Met) -> None:
        """Meet the links, and keep what will be needed if the page's depth falls."""
        depth, place = met.depth, entry.place
        too_deep = depth == self._depth_limit
        ids = array("q", met.stable)
        far: list[Link] = []
        for link in met.worth:
            if too_deep and self._known(link.id) is None:
                far.append(link)
                continue
            known = self._meet(link, depth + 1, 0, place, visit.at)
            if known is not None and known >= MAY_FALL:
                ids.append(link.id)
        redirect = visit.redirect
        if ids or far or redirect is not None:
            packed = _compress(far) if far else b""
            self.links[place] = Stored(ids.tobytes(), packed, redirect.id if redirect else None)

    def _known(self, id: int) -> int | None:
        known = self.known.get(id)
        return self._seen[id] if known is None else known

    def _meet(
        self, link: Link, depth: int, hops: int, found_on: int | None, at: float
    ) -> int | None:
        """Add a link, or let its depth fall; returns its packed value, `None` if dropped."""
        known = self._known(link.id)
        if known is None:
            most = self._rules.max_per_host
            if most is not None and self._count(link.host) >= most:
                self.tally.dropped += 1
                return None
            return self._take_in(link, depth, hops, found_on, at)
        if depth_of(known) > depth:
            self._lower(link.id, known, depth, at)
        return self.known.get(link.id, known)

    def _count(self, name: str) -> int:
        host = self._hosts.get(name) or self.new_hosts.get(name)
        return host.taken_in + self._per_host.get(host, 0) if host else 0

    def _take_in(self, link: Link, depth: int, hops: int, found_on: int | None, at: float) -> int:
        place = self._next_place
        if place > PLACE:
            raise StoreUnavailable(f"a frontier holds at most {PLACE:,} URLs; split the crawl")
        self._next_place += 1
        host = self._hosts.get(link.host) or self.new_hosts.get(link.host) or self._begin(link.host)
        self._per_host[host] = self._per_host.get(host, 0) + 1
        self.found[link.id] = PlannedUrl(place, link, host, hops, found_on, at)
        known = self.known[link.id] = known_at(depth, place)
        tally = self.tally
        tally.known += 1
        tally.depths[depth] = tally.depths.get(depth, 0) + 1
        return known

    def _begin(self, name: str) -> HostQueue:
        number = len(self._hosts) + len(self.new_hosts)
        if number > MAX_HOSTS:
            raise StoreUnavailable(f"a frontier holds at most {MAX_HOSTS:,} hosts")
        host = self.new_hosts[name] = HostQueue(number, name)
        return host

    def _lower(self, id: int, known: int, depth: int, at: float) -> None:
        """Lower the depth of a known URL, and of the links of its page, where depths are
        limited.
        """
        self._fall(id, known, depth)
        if self._depth_limit is None:
            return
        falling = deque(self._reopen(place_of(known), depth, at))
        while falling:
            id, depth = falling.popleft()
            deeper = self._known(id)
            if deeper is not None and depth_of(deeper) > depth:
                self._fall(id, deeper, depth)
                falling += self._reopen(place_of(deeper), depth, at)

    def _fall(self, id: int, known: int, depth: int) -> None:
        self.known[id] = known_at(depth, place_of(known))
        depths = self.tally.depths
        depths[depth_of(known)] -= 1
        depths[depth] = depths.get(depth, 0) + 1

    def _reopen(self, place: int, depth: int, at: float) -> list[tuple[int, int]]:
        """Meet the links of a page again, now at `depth`; returns those whose depth falls."""
        stored = self.links.get(place)
        if stored is None:
            found = self._tables.links(place)
            if found is None:
                return []  # not visited yet, or nothing could come nearer
            stored = Stored(found[0] or b"", found[1] or b"", found[2])
        ids = array("q", stored.ids)
        falling = [(id, depth + 1) for id in ids]
        if stored.far:
            for link in _decompress(stored.far):
                if self._known(link.id) is not None:
                    falling.append((link.id, depth + 1))
                elif self._meet(link, depth + 1, 0, place, at) is None:
                    continue
                ids.append(link.id)
            self.links[place] = Stored(ids.tobytes(), b"", stored.redirect)
        if stored.redirect is not None:
            falling.append((stored.redirect, depth))
        return falling

    def changes(self, receipts: Mapping[str, Any]) -> bool:
        """Return whether there is anything to write."""
        dropped = self.tally.dropped != self._dropped_before
        return bool(receipts or self.known or self.visits or self.retries or self.states or dropped)

    def write(self, receipts: Mapping[str, Any]) -> None:
        """Put everything into the tables; the caller has begun a transaction."""
        tables, known, found = self._tables, self.known, self.found
        hosts = {host: HostState() for host in self.new_hosts.values()} | self.states
        lowered = [known[id] for id in known if id not in found]
        waits = [entry for _, entry, _ in self.delayed]
        tables.put("hosts", [_host_row(host, state) for host, state in hosts.items()])
        tables.put(
            "urls",
            [
                (place, id, link.url, host.number, depth_of(known[id]), hops, page, at)
                for id, (place, link, host, hops, page, at) in found.items()
            ],
        )
        tables.queue(sorted(one.key for one in found.values()))
        if lowered:
            tables.lower([(depth_of(one), place_of(one)) for one in lowered])
        tables.put("visits", sorted(self.visits))
        tables.unqueue([entry.key for _, entry in self.ended if not entry.attempts])
        tables.unqueue([entry.key for entry in waits if entry.attempts == 1])
        tables.remove_delayed([entry.place for _, entry in self.ended if entry.attempts])
        tables.put("delayed", self.retries)
        tables.put("links", [(place, *stored) for place, stored in self.links.items()])
        tables.put("receipts", [(sink, _to_json(receipt)) for sink, receipt in receipts.items()])
        tables.set_tally(_to_json(self.tally))


def _host_row(host: HostQueue, state: HostState) -> tuple[Any, ...]:
    plain = state == HostState()
    packed = None if plain else msgspec.msgpack.encode(state)
    return host.number, host.name, state.next_at, state.failures, packed


def _compress(links: Sequence[Link]) -> bytes:
    return zstd.compress(_pack(links), 1)


def _decompress(packed: bytes) -> list[Link]:
    return [Link(*fields) for fields in _unpack(zstd.decompress(packed))]
