"""Egress rules: decide whether the fleet may connect to an IP address.

Pages come from strangers, and their links and redirects can point anywhere: at the machine itself,
its neighbours, or the cloud's metadata service that hands out credentials. So only addresses of the
public internet are allowed, however they are spelt. Names are not checked here: the dialler checks
each address just before it connects to it.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from crawlfleet.model.isolation import Egress

_METADATA: Final = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Azure, Google, Oracle, OpenStack
        "169.254.170.2",  # AWS containers
        "169.254.170.23",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure
        "192.0.0.192",  # Oracle
    )
)

_LOCAL: Final = tuple(
    (ip_network(network), kind)
    for network, kind in (
        ("127.0.0.0/8", "a loopback address"),
        ("10.0.0.0/8", "a private address"),
        ("172.16.0.0/12", "a private address"),
        ("192.168.0.0/16", "a private address"),
        ("169.254.0.0/16", "a link-local address"),
        ("100.64.0.0/10", "an address of a provider's own network"),
        ("198.18.0.0/15", "an address for benchmarks"),
        ("::1/128", "a loopback address"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a site-local address"),
    )
)

_NEVER: Final = tuple(
    (ip_network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "no destination"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "an address for documentation"),
        ("192.88.99.0/24", "a reserved address"),
        ("198.51.100.0/24", "an address for documentation"),
        ("203.0.113.0/24", "an address for documentation"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
        ("::/128", "no destination"),
        ("ff00::/8", "a multicast address"),
        ("2001::/23", "a reserved address"),  # Teredo among them
        ("2001:db8::/32", "an address for documentation"),
        ("3fff::/20", "an address for documentation"),
    )
)

_NAT64: Final = ip_network("64:ff9b::/96")
_GLOBAL_UNICAST: Final = ip_network("2000::/3")
OF_THIS_MACHINE: Final = "an address of this machine"
"""Reason for an address of this machine, whatever else it is: services may listen there that are
closed to all other machines."""
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})


def refusal(address: str, *, allow_private: bool = False) -> str | None:
    """Return why the address must not be connected to; `None` when it may.

    `allow_private` lets loopback, private and link-local addresses pass, metadata never.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return f"{address!r} is not an IP address"
    for spelling in (ip, *embedded(ip)):
        if kind := _kind(spelling, allow_private):
            via = "" if spelling == ip else f" by way of {spelling}"
            return f"{address} is {kind}{via}"
    return None


def _kind(ip: IPv4Address | IPv6Address, allow_private: bool) -> str | None:
    if ip in _METADATA:
        return "a cloud's metadata service"
    for network, kind in _NEVER:
        if ip in network:
            return kind
    for network, kind in _LOCAL:
        if ip in network:
            return None if allow_private else kind
    if isinstance(ip, IPv6Address) and ip not in _GLOBAL_UNICAST and not embedded(ip):
        return "a reserved address"
    return None


def embedded(ip: IPv4Address | IPv6Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses to which packets for this IPv6 address may really go."""
    if isinstance(ip, IPv4Address):
        return ()
    if ip.ipv4_mapped:
        return (ip.ipv4_mapped,)
    if ip.sixtofour:
        return (ip.sixtofour,)
    low, interface = int(ip) & 0xFFFFFFFF, int(ip) >> 32 & 0xFFFFFFFF
    if ip in _NAT64 or interface in _ISATAP:
        return (IPv4Address(low),)
    return ()


def refused_by_lists(
    host: str, rules: Egress, *, reached_port: int | None = None, is_own: bool = False
) -> str | None:
    """Return why the lists of a cell refuse a host; `None` when they do not. With a `reached_port`
    the host is the address that is connected to; `is_own` marks one of this machine."""
    if reached_port is not None:
        return refused_address(host, reached_port, is_own=is_own, rules=rules)
    return domain_refusal(host, rules.allow, rules.deny)


def refused_address(address: str, port: int, *, is_own: bool, rules: Egress) -> str | None:
    """Return why a cell must not connect to an address, however it is spelt; `None` when it may.
    `is_own` marks an address of this machine."""
    ways = _ways(address)
    if any(ways & _ways(each) for each in rules.deny):
        return f"{address} is denied"
    if port in rules.closed_ports and (is_own or any(each.is_loopback for each in ways)):
        return f"port {port} of this machine is denied"
    if is_own and not rules.allow_private:
        return f"{address} is {OF_THIS_MACHINE}"
    return None


def _ways(address: str) -> frozenset[IPv4Address | IPv6Address]:
    """Return all addresses that packets for this one may reach; empty if it is not an address."""
    try:
        ip = ip_address(address.partition("%")[0].strip("[]"))
    except ValueError:
        return frozenset()
    return frozenset((ip, *embedded(ip)))


def domain_refusal(host: str, allow: Sequence[str], deny: Sequence[str]) -> str | None:
    """Return why lists of domains refuse a host; `None` when they do not.

    A domain stands for itself and all its subdomains; a denied host stays denied even if it is also
    allowed.
    """
    name = host.rstrip(".").lower()
    if any(_is_below(name, each) for each in deny):
        return f"{host} is denied"
    if allow and not any(_is_below(name, each) for each in allow):
        return f"{host} is not among the domains that are allowed"
    return None


def _is_below(name: str, domain: str) -> bool:
    wanted = domain.strip(".").lower().removeprefix("*.")
    return bool(wanted) and f".{name}".endswith(f".{wanted}")
