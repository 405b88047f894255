"""The list of public suffixes that is installed with us; nothing is fetched."""

from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from ada_url import idna_to_ascii

from crawlfleet.core.urls.suffixes import Suffixes
from crawlfleet.errors import CrawlfleetError

_PACKAGE = "tldextract"
_LIST = ".tld_set_snapshot"


class SuffixesMissing(CrawlfleetError):
    """The list is not where its package should have put it."""


def bundled() -> Suffixes:
    """The list of the installed `tldextract`, with the suffixes of hosting companies: two shops
    under `github.io` are two owners. Takes some 20 ms: call it once.

    The package is not imported: it would bring a network client along, and its list is all that
    is needed.
    """
    spec = find_spec(_PACKAGE)
    places = spec.submodule_search_locations if spec else None
    for place in places or ():
        path = Path(place) / _LIST
        if path.is_file():
            return Suffixes.of(_rules(path.read_text("utf-8")))
    raise SuffixesMissing(
        f"the list of public suffixes ({_PACKAGE}/{_LIST}) is missing, and `scope.within: domain`"
        f" needs it: install the package {_PACKAGE!r} again"
    )


_suffixes = cache(bundled)  # takes a moment, and not everybody needs it


@lru_cache(maxsize=65_536)
def registrable(host: str) -> str:
    """The registered domain that a host name is part of, for those who ask for the same hosts
    again and again."""
    return _suffixes().registrable(host)


def _rules(text: str) -> list[str]:
    lines = (line.split(maxsplit=1) for line in text.splitlines())
    rules = [words[0] for words in lines if words and not words[0].startswith("//")]
    return [rule if rule.isascii() else _ascii(rule) for rule in rules]


def _ascii(rule: str) -> str:
    mark = rule[:2] if rule.startswith("*.") else rule[:1] if rule.startswith("!") else ""
    return mark + idna_to_ascii(rule[len(mark) :]).decode()
