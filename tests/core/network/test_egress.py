import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.core.network import egress

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.215.14",
    "172.15.255.255",
    "172.32.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
]

LOCAL = [
    "127.0.0.1",
    "127.255.255.254",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.1.1",
    "100.64.0.1",
    "198.18.0.1",
    "::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "::ffff:127.0.0.1",
    "::ffff:a00:1",
    "64:ff9b::10.0.0.1",
    "2002:7f00:1::",
    "2002:c0a8:101::1",
    "2606:4700::5efe:10.0.0.1",
    "fe80::5efe:192.168.0.1",
]

NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:0:127.0.0.1",
    "::ffff:0.0.0.0",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "ff02::1",
    "4000::1",
]

METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "fd00:ec2::254",
    "100.100.100.200",
    "168.63.129.16",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "64:ff9b::169.254.169.254",
    "2002:a9fe:a9fe::1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert egress.refusal(address) is None
    assert egress.refusal(address, allow_private=True) is None


@pytest.mark.parametrize("address", LOCAL)
def test_local_addresses_need_permission(address: str) -> None:
    reason = egress.refusal(address)

    assert reason is not None
    assert address in reason
    assert egress.refusal(address, allow_private=True) is None


@pytest.mark.parametrize("address", NEVER)
def test_addresses_that_lead_nowhere_are_never_allowed(address: str) -> None:
    assert egress.refusal(address)
    assert egress.refusal(address, allow_private=True)


@pytest.mark.parametrize("address", METADATA)
def test_metadata_services_are_never_allowed(address: str) -> None:
    for allow_private in (False, True):
        reason = egress.refusal(address, allow_private=allow_private)
        assert reason is not None
        assert "metadata" in reason


@pytest.mark.parametrize(
    "text", ["", "localhost", "127.1", "0x7f000001", "2130706433", "1.1.1.1/8"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    assert "not an IP address" in (egress.refusal(text) or "")


@given(st.ip_addresses())
def test_nothing_is_allowed_that_python_knows_not_to_be_global(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    # Versions of Python differ on 6to4 addresses; they are judged by what they lead to.
    embedded = getattr(ip, "ipv4_mapped", None) or getattr(ip, "sixtofour", None) or ip
    if not embedded.is_global or ip.is_multicast:
        assert egress.refusal(str(ip))


@given(st.ip_addresses(v=4))
def test_ipv6_spellings_of_an_ipv4_address_are_judged_like_it(ip: ipaddress.IPv4Address) -> None:
    verdict = egress.refusal(str(ip)) is None

    number = int(ip)
    for spelling in (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80):
        assert (egress.refusal(str(ipaddress.IPv6Address(spelling))) is None) == verdict
