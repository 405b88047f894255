"""Remembers the links that a worker has already reported to the frontier.

Most links of a page were met before: menus, neighbours, the way back. Reporting them again changes
nothing where depth does not matter, and would be nine tenths of all that a crawl reports.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from crawlfleet.model.crawl.frontier import Commit, FrontierRules, HostCommit, HostLease, Visit

MOST: Final = 100_000
"""Maximum number of links that are remembered."""

Depths = Callable[[str], Mapping[int, int]]
"""A function from a host to the depths of its leased URLs, by their ids."""
FAR: Final = 1 << 62
_new: Final = tuple.__new__  # a quarter of the cost of `_replace`, for each page


class KnownLinks:
    """The reported links with the depth of their pages, up to a limit; forgotten links are reported
    again."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._depths: dict[int, int] = {}
        """Depth of the nearest page that reported each link, by the link's id."""

    def lean(self, hosts: Sequence[HostCommit], depths: Depths) -> list[HostCommit]:
        """Return the commits without links that a page at the same depth, or nearer, has
        reported."""
        return [self._lean(part, depths(part.host)) for part in hosts]

    def note(self, commit: Commit, depths: Depths) -> None:
        """This was committed."""
        known = self._depths
        for part in commit.hosts:
            leased = depths(part.host)
            for visit in part.visits:
                depth = leased.get(visit.id)
                if depth is None:
                    continue
                for link in visit.links:
                    if known.get(link[0], FAR) > depth:
                        known[link[0]] = depth
        if len(known) > self._most:
            self._depths = {}

    def clear(self) -> None:
        """Forget all links, because the frontier may have lost them."""
        self._depths = {}

    def _lean(self, part: HostCommit, leased: Mapping[int, int]) -> HostCommit:
        known = self._depths.get
        visits = []
        for visit in part.visits:
            depth = leased.get(visit.id)
            if depth is not None and visit.links:
                links = [link for link in visit.links if known(link[0], FAR) > depth]
                visit = _new(Visit, (*visit[:4], links, *visit[5:]))
            visits.append(visit)
        return replace(part, visits=visits)


class LeasedDepths:
    """The depths of the URLs leased from a frontier, by host."""

    def __init__(self) -> None:
        self._depths: dict[str, dict[int, int]] = {}

    def of(self, host: str) -> Mapping[int, int]:
        return self._depths.get(host, {})

    def take(self, leases: Iterable[HostLease]) -> None:
        """Remember the depths of newly leased URLs."""
        for lease in leases:
            if lease.state is not None:
                self._depths[lease.host] = {}  # a new lease: what there was of another is over
            mine = self._depths.setdefault(lease.host, {})
            mine.update((waiting.id, waiting.depth) for waiting in lease.urls)

    def settle(self, commit: Commit, refused: Iterable[str]) -> None:
        """Forget the visited URLs of an accepted commit; or forget the `refused` hosts, whose
        leases are lost, and keep the rest."""
        lost = [*refused]
        for host in lost:
            self._depths.pop(host, None)
        for part in commit.hosts if not lost else ():
            if part.release:
                self._depths.pop(part.host, None)
                continue
            mine = self._depths.get(part.host, {})
            for visit in part.visits:
                mine.pop(visit.id, None)


def may_leave_out(rules: FrontierRules) -> bool:
    """Return whether links that were reported can be omitted from a commit. Not with `max_depth`
    (links are stored until their page comes nearer) nor with `max_per_host` (rejected links are
    counted)."""
    return rules.max_depth is None and rules.max_per_host is None
