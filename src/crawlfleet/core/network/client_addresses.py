"""Address of a client, and whether it may send requests.

A proxy's statement about its client counts only if the operator trusts that proxy, hop by hop from
the nearest: anybody could have written the entries further left in `X-Forwarded-For`.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_HOPS: Final = 16
"""Limit of proxies in a row; no real chain is longer."""
OWN_PREFIX: Final = 64
"""Length in bits of the IPv6 prefix that one customer of a provider has."""


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return networks such as `10.0.0.0/8`, or single addresses. Raises `ValueError`, which names
    the text that is neither."""
    return tuple(_network(text) for text in texts)


def _network(text: str) -> Network:
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is not an address or network") from None


def parse_address(text: str) -> Address | None:
    """Return an address, given with or without port and brackets; `None` if the text is not one."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == each.version and address in each for each in networks)


def client_of(peer: str, forwarded: str, trusted: Sequence[Network]) -> Address | None:
    """Return the client's address: the peer, or the client that trusted proxies name; `None` if it
    is not known.

    `forwarded` is all of `X-Forwarded-For`.
    """
    client = parse_address(peer)
    hops = forwarded.split(",")[-MAX_HOPS:] if forwarded and trusted else []
    while client is not None and hops and is_in(client, trusted):
        # A proxy that does not know whom it heard asks for anybody, and not for itself.
        client = parse_address(hops.pop())
    return client


def is_welcome(client: Address | None, allowed: Sequence[Network], *, allow_loopback: bool) -> bool:
    """Return whether a client at this address may send requests; an empty `allowed` admits all."""
    if not allowed:
        return True
    if client is None:
        return False
    return is_in(client, allowed) or (allow_loopback and client.is_loopback)


def household(client: Address | None) -> str:
    """Return the key under which wrong keys of a client are counted: all addresses of one IPv6
    prefix count as one."""
    if isinstance(client, IPv6Address):
        return str(ip_network((client, OWN_PREFIX), strict=False))
    return "unknown" if client is None else str(client)
