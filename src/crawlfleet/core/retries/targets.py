"""Target of a task: the registered domain that all of its addresses have in common."""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

Registrable = Callable[[str], str]
"""Function that returns the registered domain of a host name."""

HOST: Final = re.compile(
    r"https?://(?:[^/?#@]*@)?(\[[^\]/?#]+\]|[^/:?#\[\]\s]+)(:\d+)?", re.IGNORECASE
)
TARGET: Final = re.compile(r"[a-z0-9\[][a-z0-9._:\[\]-]{0,252}\Z")
MAX_LOOKED_AT: Final = 1000
"""Limit of the addresses that are compared; a longer list counts as one without a common site."""


class _Addresses(msgspec.Struct):
    """Parameters of crawls and fetches that hold addresses; in other task types they may be
    anything."""

    url: Any = None
    urls: Any = None


_decode: Final = msgspec.json.Decoder(_Addresses).decode


def last_two_labels(host: str) -> str:
    """Return the registered domain without a list of public suffixes, which is right for most
    hosts."""
    if host.endswith("]") or host.rpartition(".")[2].isdigit():
        return host
    return ".".join(host.split(".")[-2:])


def target_of(parameters: msgspec.Raw, registrable: Registrable) -> str | None:
    """Return the target of a task with these parameters; `None` if they do not name one."""
    try:
        found = _decode(parameters)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    urls = [found.url] if found.url is not None else []
    urls += found.urls if isinstance(found.urls, list) else []
    if len(urls) > MAX_LOOKED_AT:
        return None
    domains: set[str | None] = set()
    for url in urls:
        domains.add(_domain(url, registrable) if isinstance(url, str) else None)
        if len(domains) > 1:
            return None
    return next(iter(domains), None)


def _domain(url: str, registrable: Registrable) -> str | None:
    match = HOST.match(url)
    if match is None:
        return None
    host = match[1].lower().rstrip(".")
    if "." not in host or host.rpartition(".")[2].isdigit():
        # Nobody registered it: on one machine there may be many sites, each on its port.
        domain = host + (match[2] or "")
    else:
        domain = registrable(host)
    return domain if TARGET.match(domain) else None
