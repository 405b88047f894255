"""Registered domains, by the list of public suffixes.

The owner of `shop.example.co.uk` registered `example.co.uk`, since everybody may register names
under `co.uk`. The list is an argument: it changes independently of the code.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


class Suffixes:
    """List of the public suffixes: `com`, `co.uk`, `*.ck`, `!www.ck`."""

    __slots__ = ("_list",)

    def __init__(self, list: "PublicSuffixList") -> None:
        self._list = list

    def registrable(self, name: str) -> str:
        """Return the registered domain of a host name; the name itself when there is none: IP
        addresses, suffixes themselves, names of a local network."""
        if name[-1:] == "]" or name.rpartition(".")[2].isdigit():
            return name
        return self._list.privatesuffix(name) or name
