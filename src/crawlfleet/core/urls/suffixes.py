"""Which part of a host name its owner registered, by the list of public suffixes.

`shop.example.co.uk` belongs to whoever registered `example.co.uk`, since everybody may register
names under `co.uk`. The list comes in as a value: it changes with the world, not with the code.
"""

from collections.abc import Iterable
from typing import Self


class Suffixes:
    """The public suffixes: `com`, `co.uk`, `*.ck`, `!www.ck`, in ASCII and lower case."""

    __slots__ = ("_exceptions", "_plain", "_wildcards")

    def __init__(
        self, plain: frozenset[str], wildcards: frozenset[str], exceptions: frozenset[str]
    ) -> None:
        self._plain = plain
        self._wildcards = wildcards
        self._exceptions = exceptions

    @classmethod
    def of(cls, rules: Iterable[str]) -> Self:
        """From the lines of the list."""
        plain, wildcards, exceptions = set(), set(), set()
        for rule in rules:
            if rule.startswith("*."):
                wildcards.add(rule[2:])
            elif rule.startswith("!"):
                exceptions.add(rule[1:])
            else:
                plain.add(rule)
        return cls(frozenset(plain), frozenset(wildcards), frozenset(exceptions))

    def registrable(self, name: str) -> str:
        """The registered domain that a host name is part of; the name itself when there is none:
        IP addresses, suffixes themselves, names of a local network."""
        if name[-1:] == "]" or name.rpartition(".")[2].isdigit():
            return name
        labels = name.split(".")
        for first in range(len(labels)):
            suffix = ".".join(labels[first:])
            parent = ".".join(labels[first + 1 :])
            if suffix in self._exceptions:
                return suffix
            if suffix in self._plain or parent in self._wildcards:
                return ".".join(labels[max(first - 1, 0) :])
        return ".".join(labels[-2:])  # the list's own default: every last label is a suffix
