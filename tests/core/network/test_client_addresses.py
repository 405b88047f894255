"""Where a request comes from, and whether anybody from there may ask."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from crawlfleet.core.network.client_addresses import (
    client_of,
    household,
    is_welcome,
    parse_address,
    parse_networks,
)

PROXIES = parse_networks(["10.0.0.1", "192.168.0.0/16", "fd00::/8"])


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.1.2.3", "10.1.2.3"),
        (" 10.1.2.3 ", "10.1.2.3"),
        ("10.1.2.3:4711", "10.1.2.3"),
        ("::1", "::1"),
        ("[2001:db8::7]:443", "2001:db8::7"),
        ("fe80::1%eth0", "fe80::1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("unknown", None),
        ("_hidden", None),
        ("", None),
        ("10.1.2", None),
        ("10.1.2.3, 4.5.6.7", None),
        ("1:2", None),
    ],
)
def test_addresses_are_read_however_they_are_spelt(text: str, address: str | None) -> None:
    assert parse_address(text) == (None if address is None else parse_address(address))


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.5", "", "203.0.113.5"),
        # A client may write what it likes: nobody believes it.
        ("203.0.113.5", "10.0.0.1", "203.0.113.5"),
        ("203.0.113.5", "127.0.0.1", "203.0.113.5"),
        # The proxy appends whom it heard; what stands before that is hearsay.
        ("10.0.0.1", "203.0.113.5", "203.0.113.5"),
        ("10.0.0.1", "127.0.0.1, 203.0.113.5", "203.0.113.5"),
        # Through two proxies, both of them trusted.
        ("10.0.0.1", "6.6.6.6, 203.0.113.5, 192.168.7.7", "203.0.113.5"),
        # A proxy that is not trusted may say nothing.
        ("10.0.0.1", "203.0.113.5, 10.0.0.2", "10.0.0.2"),
        # All of them trusted: the first one asks itself.
        ("10.0.0.1", "192.168.1.1", "192.168.1.1"),
        ("::ffff:10.0.0.1", "203.0.113.5", "203.0.113.5"),
        ("fd00::1", "2001:db8::9", "2001:db8::9"),
        # Nonsense never turns into an address of somebody, nor into that of the proxy.
        ("10.0.0.1", "unknown", "None"),
        ("10.0.0.1", "203.0.113.5, unknown", "None"),
        ("10.0.0.1", ",,,", "None"),
        ("10.0.0.1", "010.0.0.1", "None"),
    ],
)
def test_only_trusted_proxies_may_say_whom_they_ask_for(
    peer: str, forwarded: str, client: str
) -> None:
    assert str(client_of(peer, forwarded, PROXIES)) == client


def test_whom_a_proxy_cannot_name_is_not_let_in_where_only_some_are_allowed() -> None:
    client = client_of("10.0.0.1", "unknown", PROXIES)

    assert not is_welcome(client, parse_networks(["10.0.0.0/8"]), allow_loopback=True)


def test_a_peer_without_an_address_is_unknown() -> None:
    assert client_of("", "203.0.113.5", PROXIES) is None


def test_without_trusted_proxies_the_header_means_nothing() -> None:
    assert str(client_of("127.0.0.1", "203.0.113.5", ())) == "127.0.0.1"


@given(some.text(max_size=300))
def test_whatever_the_header_holds_there_is_an_answer(forwarded: str) -> None:
    client_of("10.0.0.1", forwarded, PROXIES)
    assert str(client_of("203.0.113.5", forwarded, PROXIES)) == "203.0.113.5"


@pytest.mark.parametrize(
    ("client", "allowed", "allow_loopback", "welcome"),
    [
        ("203.0.113.5", [], True, True),
        ("203.0.113.5", ["10.0.0.0/8"], True, False),
        ("10.200.0.1", ["10.0.0.0/8"], True, True),
        ("::ffff:10.200.0.1", ["10.0.0.0/8"], True, True),
        ("10.200.0.1", ["2001:db8::/32", "10.200.0.1"], True, True),
        ("2001:db8::1", ["2001:db8::/32"], True, True),
        ("2001:db9::1", ["2001:db8::/32", "0.0.0.0/0"], True, False),
        ("127.0.0.1", ["10.0.0.0/8"], True, True),
        ("::1", ["10.0.0.0/8"], True, True),
        ("127.0.0.1", ["10.0.0.0/8"], False, False),
        ("127.0.0.1", ["127.0.0.0/8"], False, True),
        ("", ["0.0.0.0/0", "::/0"], True, False),
        ("", [], True, True),
    ],
)
def test_who_is_welcome(
    client: str, allowed: list[str], allow_loopback: bool, welcome: bool
) -> None:
    networks = parse_networks(allowed)
    address = parse_address(client)
    assert is_welcome(address, networks, allow_loopback=allow_loopback) is welcome


@pytest.mark.parametrize("text", ["10.0.0.0/33", "everywhere", "", "10.0.0/8/8"])
def test_a_network_that_is_none_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address or network"):
        parse_networks(["10.0.0.0/8", text])


def test_one_household_has_many_ipv6_addresses_but_one_ipv4() -> None:
    def counted_for(text: str) -> str:
        return household(parse_address(text))

    assert counted_for("2001:db8:1:2:3::4") == counted_for("2001:db8:1:2:ffff::1")
    assert counted_for("2001:db8:1:2::1") != counted_for("2001:db8:1:3::1")
    assert counted_for("10.0.0.1") != counted_for("10.0.0.2")
    assert counted_for("nobody") == "unknown"
