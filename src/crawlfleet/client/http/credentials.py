"""Checks the addresses and keys that a client is given, before they are used."""

from typing import Final
from urllib.parse import urlsplit

from crawlfleet.errors import ConfigError
from crawlfleet.listening import complete_url

EXAMPLE: Final = "http://127.0.0.1:8000"


def usable_url(url: str) -> str:
    """The addresses of masters in full; raises `ConfigError` for what cannot be one."""
    complete = complete_url(url)
    if not complete:
        raise ConfigError(f"{url!r} names no master; give its address, such as {EXAMPLE}")
    for each in complete.split(","):
        if trouble := _trouble(each):
            raise ConfigError(
                f"{each!r} is no address of a master: {trouble}; give one such as {EXAMPLE}"
            )
    return complete


def usable_key(key: str) -> str:
    """The key without the blanks and ends of lines that a file adds; raises `ConfigError` for what
    cannot be one."""
    stripped = key.strip()
    if not (stripped.isascii() and stripped.isprintable()):
        raise ConfigError(
            "the key has characters that no key has, such as the end of a line; "
            "give the one line that `crawlfleet keys create` showed"
        )
    return stripped


def _trouble(address: str) -> str:
    """Return the problem with an address; empty when there is none."""
    if not address.isprintable() or " " in address:
        return "it has blanks or control characters"
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in {"http", "https"}:
        return f"{parts.scheme!r} is neither http nor https"
    if not host:
        return "it has no host"
    if parts.username is not None:
        return "it has the name of a user; the key is given by itself"
    if parts.query or parts.fragment:
        return "it has more than host, port and path"
    return ""
