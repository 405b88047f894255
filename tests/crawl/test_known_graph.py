"""The graph of the known site: what the tests of crawls, and measurements, are held to."""

import pytest

from crawlfleet.testing.known_site import SiteSpec


@pytest.mark.parametrize("local", [0.0, 0.5, 0.85, 1.0])
@pytest.mark.parametrize(("pages", "hosts"), [(5, 24), (300, 6), (777, 24), (400, 1)])
def test_every_page_can_be_reached(pages: int, hosts: int, local: float) -> None:
    spec = SiteSpec(pages=pages, hosts=hosts, local=local)
    assert spec.distances().keys() == {*range(pages)}


@pytest.mark.parametrize(("local", "least", "most"), [(0.0, 0.0, 0.1), (0.85, 0.75, 0.9)])
def test_links_stay_on_their_host_as_often_as_they_should(
    local: float, least: float, most: float
) -> None:
    spec = SiteSpec(pages=2_000, hosts=24, local=local)
    links = [(page, target) for page in range(spec.pages) for target in spec.targets(page)]
    staying = sum(spec.host(page) == spec.host(target) for page, target in links)
    assert least < staying / len(links) < most
