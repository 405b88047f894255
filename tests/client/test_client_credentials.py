"""A client says at once that an address or a key cannot be used, and what to do."""

import pytest

from crawlfleet.client import BlockingClient, Client
from crawlfleet.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("fleet.local", "http://fleet.local"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("https://[::1]:8443", "https://[::1]:8443"),
        ("https://shop.example/fleet", "https://shop.example/fleet"),
        (" one:1 , https://two:2/ ,", "http://one:1,https://two:2"),
    ],
)
def test_an_address_is_completed_as_on_the_command_line(given: str, meant: str) -> None:
    assert Client(given, "key").url == meant


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("", "names no master"),
        (" , ", "names no master"),
        ("http://[::1", "Invalid IPv6"),
        ("ftp://foo", "neither http nor https"),
        ("http://127.0.0.1:port", "[Pp]ort"),
        ("http://127.0.0.1:99999", "[Pp]ort"),
        ("http://:8000", "no host"),
        ("http://me:secret@fleet:8000", "user"),
        ("http://fleet:8000?x=1", "more than host"),
        ("http://fleet :8000", "blanks"),
        ("http://fl\neet:8000", "control characters"),
        ("http://one:1,ftp://two:2", "'ftp://two:2'"),
    ],
)
@pytest.mark.parametrize("kind", [Client, BlockingClient])
def test_what_is_no_address_is_refused_by_name(
    kind: type[Client] | type[BlockingClient], url: str, what: str
) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        kind(url, "key")
    assert "http://127.0.0.1:8000" in str(caught.value)


@pytest.mark.parametrize("key", ["cf_key", "cf_key\r\n", "  cf_key\n", "\tcf_key "])
def test_what_a_file_adds_to_a_key_is_not_sent(key: str) -> None:
    assert Client("http://fleet:1", key)._key == "cf_key"


@pytest.mark.parametrize("key", ["one\r\ntwo", "one\ntwo", "a\x00b", "cl\u00e9"])
def test_what_is_no_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="crawlfleet keys create") as caught:
        Client("http://fleet:1", key)
    assert key not in str(caught.value)
