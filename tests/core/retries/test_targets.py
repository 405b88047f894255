"""Which site a task depends on."""

import msgspec
import pytest

from crawlfleet.core.retries.targets import last_two_labels, target_of


@pytest.mark.parametrize(
    ("parameters", "target"),
    [
        ({"url": "https://www.shop.example/a?b=c"}, "shop.example"),
        ({"url": "HTTPS://WWW.Shop.Example./"}, "shop.example"),
        ({"url": "http://user:word@shop.example:8080/"}, "shop.example"),
        ({"url": "http://127.0.0.1:8001/x"}, "127.0.0.1:8001"),
        ({"url": "http://[::1]:8001/x"}, "[::1]:8001"),
        ({"url": "http://localhost/x"}, "localhost"),
        ({"urls": ["https://a.shop.example/", "https://b.shop.example/"]}, "shop.example"),
        ({"url": "https://shop.example/", "urls": ["https://x.shop.example"]}, "shop.example"),
        ({"urls": ["https://shop.example/", "https://other.example/"]}, None),
        ({"urls": ["https://shop.example/", 3]}, None),
        ({"urls": []}, None),
        ({"url": "no address"}, None),
        ({"url": "ftp://shop.example/"}, None),
        ({"url": {"a": 1}}, None),
        ({"seconds": 3}, None),
        ([1, 2], None),
        ("text", None),
        (None, None),
    ],
)
def test_the_target_is_the_domain_that_all_addresses_have_in_common(
    parameters: object, target: str | None
) -> None:
    raw = msgspec.Raw(msgspec.json.encode(parameters))
    assert target_of(raw, last_two_labels) == target


def test_a_list_of_public_suffixes_knows_better() -> None:
    raw = msgspec.Raw(b'{"url": "https://www.shop.co.uk/"}')
    assert target_of(raw, lambda host: ".".join(host.split(".")[-3:])) == "shop.co.uk"
