"""The books of a frontier: waiting, leased and done URLs. They belong to one thread and never wait.

Leases live in RAM only: they end with the process that gave them, and their URLs wait again because
they never left the tables. So leasing costs no write, and a commit is one transaction.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, Any, Final

import msgspec

from crawlfleet.adapters.frontier.commit_plan import CommitPlan, FrontierSnapshot
from crawlfleet.adapters.frontier.counts import RunningTotals
from crawlfleet.adapters.frontier.host_queue import NEVER, Head, HostQueue, HostSchedule, QueuedUrl
from crawlfleet.adapters.frontier.packing import depth_of, place_of
from crawlfleet.adapters.frontier.seen import FEW, BloomSeen, FewSeen, KnownUrls
from crawlfleet.adapters.frontier.sql import Tables
from crawlfleet.model.crawl.frontier import (
    Commit,
    FrontierCounts,
    FrontierRules,
    Holdings,
    HostCommit,
    HostFigures,
    HostLease,
    HostState,
    Link,
    PartitionFigures,
    UrlRecord,
    WaitingUrl,
)
from crawlfleet.model.crawl.notes import notes_in, totals_of
from crawlfleet.telemetry import Component, logger

if TYPE_CHECKING:
    from crawlfleet.adapters.frontier.fingerprint_table import ExactSeen

log = logger(Component.DEDUP)

PORTION: Final = 64
"""URLs of a host that are read at once, or as many as are asked for."""
MAX_READ: Final = 65_536
"""URLs in the heads of all leased hosts, before portions become smaller."""
HEAD_PORTIONS: Final = 16
"""Portions of a head beyond which it is dropped and read again; it grows by URLs found
meanwhile.
"""
LIFE_SHIFT: Final = 32
"""A token is the number of the life and a counter: it grows over restarts without a write."""
SAVE_AFTER: Final = 100_000
"""A Bloom filter is saved when it has grown by so many URLs, and by a quarter; later URLs are added
from the rows when it is loaded.
"""

_state: Final = msgspec.msgpack.Decoder(HostState).decode


class Books:
    """Implements the methods of `crawlfleet.ports.frontier.frontier.Frontier`, without waiting."""

    def __init__(self, tables: Tables, rules: FrontierRules) -> None:
        self._rules = rules
        self._tables = tables
        self._exact = rules.dedup == "exact"
        self._hosts: dict[str, HostQueue] = {}
        self._lent: dict[str, set[HostQueue]] = {}
        self._schedule = HostSchedule()
        self._leased = 0
        self._now = 0.0
        self._seen: KnownUrls = FewSeen()
        self._next_place = 0
        self.life, tally, self._filtered, self._round = tables.begin_life()
        self._last_token = self.life << LIFE_SHIFT
        self._tally = msgspec.json.decode(tally, type=RunningTotals)
        self._notes = notes_in(self.receipts())
        self._totals = totals_of(self._notes.values(), self._round)
        self._load()

    def receipts(self) -> Mapping[str, Any]:
        rows = self._tables.receipts()
        return {sink: msgspec.json.decode(receipt) for sink, receipt in rows}

    def close(self) -> None:
        """Save what would take long to work out anew."""
        self._save_filter(at_least=1)

    def add(self, seeds: Sequence[Link], at: float) -> int:
        intake = CommitPlan(self._present())
        new = intake.seed(seeds, at)
        self._carry_out(intake, {})
        return new

    def begin_round(self, round: int) -> None:
        if round <= self._round:
            return
        assert not self._leased, "a round begins before anything is leased"
        tally = msgspec.structs.replace(self._tally, done=0, pages=0, outcomes={})
        self._tables.begin_round(round, msgspec.json.encode(tally))
        self._round, self._tally = round, tally
        self._totals = totals_of(self._notes.values(), round)
        self._hosts, self._schedule = {}, HostSchedule()
        self._load()

    def lease(
        self, worker: str, *, hosts: int, urls: int, held: Mapping[str, int], now: float
    ) -> list[HostLease]:
        self._now = now
        leases = []
        room = self._room()
        for name, wanted in held.items():
            host = self._hosts.get(name)
            if host is not None and host.worker == worker and room > 0:
                taken = self._take(host, min(wanted, room), now)
                room -= len(taken)
                if taken:
                    leases.append(HostLease(host=name, token=host.token, urls=taken))
        if hosts <= 0 or urls <= 0 or room <= 0:
            return leases
        for host in self._schedule.due(now):
            self._last_token += 1
            host.lend(worker, self._last_token)
            taken = self._take(host, min(urls, room), now)
            assert taken, f"the books have URLs of {host.name} that are not in the tables"
            self._lent.setdefault(worker, set()).add(host)
            packed = self._tables.host_state(host.number)
            state = _state(packed) if packed else HostState()
            leases.append(HostLease(host=host.name, token=host.token, urls=taken, state=state))
            hosts -= 1
            room -= len(taken)
            if hosts <= 0 or room <= 0:
                break
        return leases

    def commit(self, worker: str, commit: Commit) -> list[str]:
        refused: list[str] = []
        living: list[tuple[HostQueue, HostCommit]] = []
        for part in commit.hosts:
            host = self._hosts.get(part.host)
            if host is None or host.worker != worker or host.token != part.token:
                refused.append(part.host)
            else:
                living.append((host, part))
        if not refused:
            intake = CommitPlan(self._present())
            intake.take(living)
            self._carry_out(intake, commit.receipts)
        return refused

    def forget(self, worker: str) -> None:
        for host in self._lent.pop(worker, ()):
            self._take_back(host)

    def reclaim(self, worker: str, name: str, ids: Sequence[int]) -> int | None:
        host, wanted = self._hosts.get(name), {*ids}
        if host is None:
            return None
        if host.worker is not None:
            has_all = host.worker == worker and wanted <= (host.leased or {}).keys()
            return host.token if has_all else None
        entries = self._tables.waiting(host.number, wanted)
        if len(entries) != len(wanted):
            return None
        self._last_token += 1
        self._schedule.remove(host)
        host.lend(worker, self._last_token)
        host.leased = {entry.id: entry for entry in entries}
        self._leased += len(entries)
        self._lent.setdefault(worker, set()).add(host)
        return host.token

    def holdings(self) -> Holdings:
        lent = {worker: len(hosts) for worker, hosts in self._lent.items() if hosts}
        return Holdings(free=self._schedule.standing, lent=lent)

    def shares(self) -> list[PartitionFigures]:
        holdings = self.holdings()
        return [
            PartitionFigures(
                number=0,
                waiting=self._tally.known - self._tally.done - self._leased,
                leased=self._leased,
                done=self._tally.done,
                free=holdings.free,
                lent=holdings.lent,
            )
        ]

    def counts(self) -> FrontierCounts:
        tally, now = self._tally, self._now
        next_due = self._schedule.next_time()
        for lent in self._lent.values():
            next_due = min([next_due, *(host.next_due for host in lent if host.next_due > now)])
        return FrontierCounts(
            known=tally.known,
            waiting=tally.known - tally.done - self._leased,
            leased=self._leased,
            done=tally.done,
            pages=tally.pages,
            dropped=tally.dropped + round(tally.lost),
            outcomes=dict(tally.outcomes),
            depths={depth: count for depth, count in sorted(tally.depths.items()) if count},
            totals=self._totals,
            next_due=None if next_due == NEVER else next_due,
        )

    def busiest(self, limit: int) -> list[HostFigures]:
        return [
            HostFigures(
                host=host.name,
                waiting=host.waiting,
                leased=len(host.leased or ()),
                done=host.done,
                failures=host.failures,
                next_at=host.next_at,
                worker=host.worker or "",
            )
            for host in nlargest(limit, self._hosts.values(), key=lambda host: host.waiting)
        ]

    def record(self, id: int) -> UrlRecord | None:
        if self._exact:
            known = self._seen[id]
            row = None if known is None else self._tables.record(place=place_of(known))
        else:
            row = self._tables.record(id=id)
        if row is None:
            return None
        url, name, depth, found_at, page, due, attempts, outcome, status, at, note, done = row
        leased = self._hosts[name].leased or {}
        return UrlRecord(
            id=id,
            url=url,
            host=name,
            status="done" if done else "leased" if id in leased else "waiting",
            depth=depth,
            attempts=attempts or 0,
            found_on=page,
            found_at=found_at,
            due=due,
            outcome=outcome,
            http_status=status or 0,
            at=at,
            note=note or "",
        )

    def _present(self) -> FrontierSnapshot:
        return FrontierSnapshot(
            rules=self._rules,
            tables=self._tables,
            seen=self._seen,
            hosts=self._hosts,
            tally=self._tally,
            next_place=self._next_place,
            exact=self._exact,
        )

    def _room(self) -> int:
        """Return how many URLs may be leased before `max_pages` could be exceeded."""
        most = self._rules.max_pages
        return self._tally.known if most is None else most - self._tally.pages - self._leased

    def _portion(self) -> int:
        """URLs of a host to read at once: fewer when very many hosts are leased."""
        lent = sum(map(len, self._lent.values()))
        return max(1, min(PORTION, MAX_READ // (lent + 1)))

    def _take(self, host: HostQueue, wanted: int, now: float) -> list[WaitingUrl]:
        """Lease up to `wanted` URLs of a host that is lent."""
        head, leased, seen = host.head, host.leased, self._seen
        assert head is not None
        assert leased is not None
        if host.next_due <= now:
            self._read_due(host, head, leased, now)
        if len(head) < wanted and head.behind:
            self._read_queue(host, head, leased, max(self._portion(), wanted))
        taken: list[WaitingUrl] = []
        while len(taken) < wanted and len(head):
            entry = head.pop()
            leased[entry.id] = entry
            depth = entry.depth
            if self._exact:
                depth = depth_of(seen[entry.id] or 0)
            _, _, id, url, _, hops, attempts, validator = entry
            taken.append(WaitingUrl(id, url, depth, attempts + 1, hops, validator))
        self._leased += len(taken)
        return taken

    def _read_queue(
        self, host: HostQueue, head: Head, leased: dict[int, QueuedUrl], limit: int
    ) -> None:
        """Leased rows are still in the queue: read past them."""
        limit += len(leased)
        entries = self._tables.queued(host.number, head.mark, limit)
        if entries:
            head.mark = entries[-1].key
        head.behind = len(entries) == limit
        head.extend(entry for entry in entries if entry.id not in leased)

    def _read_due(
        self, host: HostQueue, head: Head, leased: dict[int, QueuedUrl], now: float
    ) -> None:
        rows = self._tables.due(host.number, now, head.due_mark, self._portion() + len(leased))
        if rows:
            entry, due = rows[-1]
            head.due_mark = (due, entry.place)
        head.extend(entry for entry, _ in rows if entry.id not in leased)
        host.next_due = self._tables.next_due(host.number, head.due_mark)

    def _take_back(self, host: HostQueue) -> None:
        """End the lease of a host; its URLs wait again."""
        self._leased -= len(host.leased or ())
        host.take_back()
        if host.delayed:
            # What a head has read is not counted in `next_due`, and it is gone now.
            host.next_due = self._tables.next_due(host.number, Head().due_mark)
        self._schedule.place(host)

    def _carry_out(self, intake: CommitPlan, receipts: Mapping[str, Any]) -> None:
        """Make the intake durable, then let the books follow."""
        if isinstance(self._seen, BloomSeen):
            intake.tally.lost += len(intake.found) * self._seen.error
        if intake.changes(receipts):
            with self._tables.transaction():
                intake.write(receipts)
        self._tally = intake.tally
        if noted := notes_in(receipts):
            self._notes |= noted
            self._totals = totals_of(self._notes.values(), self._round)
        self._hosts |= intake.new_hosts
        self._next_place += len(intake.found)
        self._seen.update(intake.known)
        if isinstance(self._seen, BloomSeen) and self._seen.is_nearly_full():
            log.warning(
                "dedup filter is nearly full; a further stage of twice its size is added",
                frontier=self._tables.name,
                urls=len(self._seen),
            )
        if isinstance(self._seen, FewSeen) and len(self._seen) > FEW:
            few, self._seen = self._seen, _empty(len(self._seen))
            self._seen.update(few)
        for host, state in intake.states.items():
            host.next_at, host.failures = state.next_at, state.failures
        self._follow_leases(intake)
        self._follow_found(intake)
        for host in intake.released:
            if host.worker is not None:
                self._lent[host.worker].discard(host)
                self._take_back(host)
        self._save_filter(at_least=max(SAVE_AFTER, self._filtered // 4))

    def _follow_leases(self, intake: CommitPlan) -> None:
        for host, entry in intake.ended:
            self._end(host, entry)
            if entry.attempts:
                host.delayed -= 1
            else:
                host.queued -= 1
            host.done += 1
        for host, entry, due in intake.delayed:
            self._end(host, entry)
            if entry.attempts == 1:
                host.queued -= 1
                host.delayed += 1
            if host.head and due <= host.head.due_mark[0]:
                self._start_over(host)
            host.next_due = min(host.next_due, due)
        for host, entry in intake.returned:
            self._end(host, entry)
            if host.head is None:
                continue
            if entry.attempts:
                self._start_over(host)
            elif host.head.reaches(entry.key):
                host.head.push(entry)

    def _end(self, host: HostQueue, entry: QueuedUrl) -> None:
        assert host.leased is not None
        del host.leased[entry.id]
        self._leased -= 1

    def _start_over(self, host: HostQueue) -> None:
        """Drop the head of a host: it is read anew from the tables."""
        host.head = Head()
        host.next_due = self._tables.next_due(host.number, host.head.due_mark)

    def _follow_found(self, intake: CommitPlan) -> None:
        most = self._portion() * HEAD_PORTIONS
        for id, found in intake.found.items():
            host = found.host
            host.queued += 1
            head = host.head
            if head is None:
                if host.when is None or host.when > host.next_at:
                    self._schedule.place(host)
            elif head.reaches(key := found.key):
                depth = depth_of(intake.known[id])
                head.push(QueuedUrl(key, found.place, id, found.link.url, depth, found.hops))
                if len(head) > most:
                    self._start_over(host)

    def _load(self) -> None:
        """Load everything that is kept in RAM from the tables."""
        tables = self._tables
        numbered: list[HostQueue] = []
        for number, name, next_at, failures in tables.hosts():
            assert number == len(numbered)
            self._hosts[name] = host = HostQueue(number, name, next_at, failures)
            numbered.append(host)
        if self._exact:
            seen = self._seen = _empty(self._tally.known)
            for ids, known, owners in tables.known():
                seen.load(ids, known)
                for number, count in Counter(owners).items():
                    numbered[number].done += count
        else:
            bloom = self._seen = BloomSeen(self._rules.dedup_capacity, tables.stages())
            bloom.add(id for (id,) in tables.ids_after(self._filtered))
            bloom.is_nearly_full()  # that was told in an earlier life
            for number, count in tables.url_counts().items():
                numbered[number].done = count
        for host in numbered:
            host.queued = tables.queue_length(host.number)
            host.done -= host.queued
        for number, count, due in tables.delayed_lengths():
            host = numbered[number]
            host.delayed, host.next_due = count, due
            host.done -= count
        for host in numbered:
            self._schedule.place(host)
        self._next_place = tables.last_place() + 1

    def _save_filter(self, at_least: int) -> None:
        last = self._next_place - 1
        if isinstance(self._seen, BloomSeen) and last - self._filtered >= at_least:
            stages = self._seen.stages
            self._tables.save_stages(
                last, [(stage.capacity, stage.held, stage.bloom.save_bytes()) for stage in stages]
            )
            self._filtered = last


def _empty(expected: int) -> "FewSeen | ExactSeen":
    """Return an empty exact set for so many URLs."""
    if expected <= FEW:
        return FewSeen()
    from crawlfleet.adapters.frontier.fingerprint_table import ExactSeen

    return ExactSeen(expected)
