"""The list of public suffixes that is installed with us; nothing is fetched."""

from functools import cache, lru_cache

from crawlfleet.core.urls.suffixes import Suffixes


@cache
def bundled() -> Suffixes:
    """The list of the installed `publicsuffixlist`, with the suffixes of hosting companies: two
    shops under `github.io` are two owners. The first call takes some 30 ms."""
    from publicsuffixlist import PublicSuffixList

    return Suffixes(PublicSuffixList())


@lru_cache(maxsize=65_536)
def registrable(host: str) -> str:
    """The registered domain that a host name is part of, for callers that ask for the same hosts
    again and again."""
    return bundled().registrable(host)
