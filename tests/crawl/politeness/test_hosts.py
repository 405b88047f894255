"""A host while it is visited: how much of it is leased at once, and for how long it is kept."""

from crawlfleet.crawl.politeness.hosts import MAX_PORTION, Sites, VisitedHost, wishes
from crawlfleet.model.crawl.frontier import HostLease, HostState, WaitingUrl
from crawlfleet.model.crawl.parameters import Politeness

NOW = 1_763_193_600.0
NAME = "https://a.example"


def urls(count: int) -> list[WaitingUrl]:
    return [WaitingUrl(number, f"{NAME}/{number}", 0, 1, 0) for number in range(count)]


def host(portion: int = 32) -> VisitedHost:
    lease = HostLease(host=NAME, token=1, urls=urls(portion), state=HostState())
    return VisitedHost(lease, Sites(Politeness(), began=NOW).enter(lease), portion=portion)


def use_up(visited: VisitedHost, at: float) -> None:
    """Visit until it is low, and have filled up what is wished for."""
    while not visited.is_low:
        visited.queue.popleft()
    visited.wanted = True
    visited.fill(urls(wishes([visited])[NAME]), at)


def test_portion_grows_while_each_lasts_for_a_moment_only() -> None:
    visited = host()
    portions = []
    for step in range(8):
        use_up(visited, NOW + step * 0.5)
        portions.append(visited.portion)
    assert portions == [32, 64, 128, 256, 512, 1024, 1024, 1024]
    assert MAX_PORTION == 1024
    assert len(visited.queue) == 1024


def test_portion_stays_when_it_lasts() -> None:
    visited = host()
    for step in range(5):
        use_up(visited, NOW + step * 1.5)
    assert visited.portion == 32


def test_portion_stays_when_no_more_is_waiting() -> None:
    visited = host()
    for step in range(10):
        visited.queue.clear()
        visited.fill(urls(20), NOW + step * 0.1)
    assert visited.portion == 32


def test_host_without_work_is_kept_for_a_while() -> None:
    visited = host()
    visited.ready = True
    visited.queue.clear()
    assert [visited.is_over(NOW + seconds) for seconds in (0, 1, 2, 2.5)] == [
        *(False, False, False),
        True,
    ]
    visited.fill(urls(1), NOW + 3)
    visited.queue.clear()
    assert not visited.is_over(NOW + 4)
    visited.visitors = 1
    assert not visited.is_over(NOW + 10)
    visited.visitors = 0
    assert not visited.is_over(NOW + 11)
    assert visited.is_over(NOW + 14)


def test_who_waits_for_a_turn_has_it_although_the_host_was_given_back() -> None:
    sites = Sites(Politeness(delay_s=0.0), began=NOW)
    left = HostLease(host="http://a.example", token=1, state=HostState(), urls=[])
    host = VisitedHost(left, sites.enter(left), portion=8)
    sites.leave(host)
    assert host.clock.grant(NOW + 60)
