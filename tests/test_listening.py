"""Where a master is reached."""

import pytest

from crawlfleet.listening import url_of


@pytest.mark.parametrize(
    ("host", "tls", "wanted"),
    [
        ("0.0.0.0", False, "http://here:8000"),
        ("::", True, "https://here:8000"),
        ("::1", False, "http://[::1]:8000"),
        ("fleet.example", True, "https://fleet.example:8000"),
    ],
)
def test_a_master_is_reached_by_the_address_it_listens_on(
    host: str, tls: bool, wanted: str
) -> None:
    assert url_of(host, 8000, tls=tls, anywhere="here") == wanted
