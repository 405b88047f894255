"""Resolves the raw links of a page to those that belong to the crawl, in one tight loop.

Most links of a page stand on every page of its site, so results are remembered: one look-up
replaces parsing, hashing and all rules. Links that begin at the root or name their host mean the
same on each page of a site or of the web, others only within their folder. A target of several
links is judged once.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from crawlfleet.core.urls.canonical import Canonicaliser, LinkBase, fingerprint, host_key
from crawlfleet.core.urls.host_parts import queue_of
from crawlfleet.core.urls.scope import (
    NOT_OF_THE_WEB,
    TOO_MANY_LINKS,
    TOO_MANY_VARIANTS,
    ScopeRefusal,
    Territory,
)
from crawlfleet.core.urls.traps import Variants
from crawlfleet.model.crawl.frontier import Link

REMEMBERED: Final = 131_072
"""Maximum number of remembered entries of some 250 bytes: 33 MB, and hardly twice that on any site.
A link has one or two entries, and long ones count for several. When it is full, nothing is added
until the next page, for which all entries are dropped; links that stand on every page are back
after it. On a site of 40,000 pages that link to any other a quarter as many entries made a page a
fifth more expensive."""
MAX_LINKS: Final = 10_000
"""Maximum number of links that are followed from one page; a sitemap may have as many as its
standard allows."""
MAX_LINK_CHARS: Final = 8_000_000
"""Maximum number of characters of all links of a page or a sitemap: its visit must fit into one
commit, and that into a request to the master."""

_FEW: Final = 50
"""Number of links that cannot exceed `MAX_LINK_CHARS`: an address has 65,536 characters at most,
and so has its host."""
_AROUND_A_LINK: Final = 20
"""Number of characters that a link's id and marks add to a message."""
_new: Final = tuple.__new__  # a third of the cost of `Link(…)`
_LONGEST_REMEMBERED: Final = 500
_IN_AN_ENTRY: Final = 150
"""Bytes of text in an entry; a text with more of them counts as one entry more for each so many."""
_PLAIN_NAME: Final = re.compile(r"(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*)?").fullmatch
"""The last part of an address that can change nothing of the folder before it."""
_SAME_ANYWHERE: Final = ("http://", "https://", "javascript:", "mailto:", "tel:", "data:")
_OF_THE_PAGE: Final = frozenset("#?" + "".join(map(chr, range(33))))
"""Links that begin so mean something else on each page; blanks may hide what follows them."""

_Memory = dict[str, Link | ScopeRefusal]
_NONE: Final[_Memory] = {}


class Links:
    """Resolves the links of one crawl, by its canonical form and its scope."""

    def __init__(
        self,
        canonical: Canonicaliser,
        territory: Territory,
        variants: Variants,
        *,
        parts: int = 1,
        remembered: int = REMEMBERED,
    ) -> None:
        """Create the resolver; `parts` is the number of parts of each host."""
        self._parts = parts
        self._canonical = canonical
        self._territory = territory
        self._variants = variants
        self._drops_fragments = not canonical.keep_fragment
        self._limit = remembered
        self._held = 0
        self._by_site: dict[str, _Memory] = {}
        self._by_folder: dict[str, _Memory] = {}
        self._near: dict[str, tuple[_Memory, _Memory]] = {}
        """The results of the site and of the folder, for pages whose address shows that they lie in
        just that folder."""
        self._hosts: dict[str, str] = {}
        """The text of each host, of which there is one for all its links."""
        self._anywhere: _Memory = {}
        """Results by canonical URL, and by other spellings that mean the same on every page."""
        self.refused: Counter[str] = Counter()
        """Links that did not belong, by rule; each is counted when it is looked at, not each time
        that it is met."""

    def seed(self, url: str) -> Link | ScopeRefusal:
        """Return the link of a seed: any web address belongs to the crawl if a user asked for
        it."""
        canonical = self._canonical.canonical(url)
        if canonical is None:
            return NOT_OF_THE_WEB
        id = fingerprint(canonical)
        return Link(id, canonical, queue_of(host_key(canonical), id, self._parts))

    def resolve(self, base_url: str, raw_hrefs: Iterable[str]) -> list[Link]:
        """Return the links of the page at `base_url` that belong to the crawl, each once, in
        order."""
        if self._held >= self._limit:
            self._forget()
        end = base_url.rfind("/") + 1
        near = self._near.get(base_url[:end]) if _PLAIN_NAME(base_url, end) else None
        place = None
        if near is None:
            place = self._canonical.place(base_url)
            if place is None:
                fates = (self.follow(base_url, href) for href in raw_hrefs)
                return list({fate.id: fate for fate in fates if isinstance(fate, Link)}.values())
            near = self._memories(place)
        site, folder = near
        found: dict[int, Link] = {}
        anywhere, on_site, in_folder = self._anywhere.get, site.get, folder.get
        for href in raw_hrefs:
            # Each spelling is in one of them at most.
            fate = anywhere(href) or on_site(href) or in_folder(href)
            if fate is None:
                fate = self._known_page(href, site)
                if fate is None:
                    place = place or self._canonical.place(base_url)
                    assert place is not None, "a folder of the web has pages of the web"
                    fate = self._learn(place, href, site, folder)
            if fate.__class__ is Link:
                found[fate[0]] = fate
        return list(found.values())

    def first(self, links: list[Link], most: int = MAX_LINKS) -> list[Link]:
        """Return the links of a page that are followed; the others count as refused."""
        kept = links
        if len(links) > _FEW:
            kept = links[:most]
            sizes = accumulate(len(each[1]) + len(each[2]) + _AROUND_A_LINK for each in kept)
            kept = kept[: bisect_right([*sizes], MAX_LINK_CHARS)]
            if len(kept) < len(links):
                self.refused[TOO_MANY_LINKS.rule] += len(links) - len(kept)
        return kept

    def follow(self, base_url: str, href: str) -> Link | ScopeRefusal:
        """Resolve one link, or the target of a redirect, on the page at `base_url`."""
        url = self._canonical.join(base_url, href)
        return NOT_OF_THE_WEB if url is None else self._judged(url, host_key(url))

    def widen(self, base_url: str, href: str) -> str | None:
        """Take where the seed at `base_url` is redirected to for a seed too; its address, for
        those to know who did not see the redirect."""
        canonical = self._canonical.join(base_url, href)
        if canonical is not None:
            self._become(self._territory.including(canonical))
        return canonical

    def _become(self, territory: Territory) -> None:
        if territory is not self._territory:
            self._territory = territory
            self._forget()

    def _known_page(self, href: str, site: _Memory) -> Link | ScopeRefusal | None:
        """Return the known result for the page of which the link names a fragment; `None` if there
        is none. Fragments are many, and each is met once or twice: the page is remembered
        instead."""
        if "#" in href and self._drops_fragments:
            # A blank before the sign is part of the address, and none at the end of one.
            head = href.partition("#")[0]
            if head[-1:] > " ":
                return self._anywhere.get(head) or site.get(head)
        return None

    def _learn(
        self, place: LinkBase, href: str, site: _Memory, folder: _Memory
    ) -> Link | ScopeRefusal:
        url = self._canonical.resolve(place, href)
        if url is None:
            fate: Link | ScopeRefusal = NOT_OF_THE_WEB
        else:
            # A canonical URL means itself, on every page.
            known = self._anywhere.get(url)
            if known is None:
                # One text for the host of all links that are remembered: a fifth less memory.
                host = place.site if url.startswith(place.rooted) else host_key(url)
                host = self._hosts.get(host, host)
                known = self._judged(url, host)
                if len(url) <= _LONGEST_REMEMBERED and self._held < self._limit:
                    self._anywhere[url] = known
                    if known.__class__ is Link:
                        self._hosts[host] = host
                    self._held += 1 + len(url) // _IN_AN_ENTRY
            fate = known
        if fate.__class__ is ScopeRefusal:
            self.refused[fate[0]] += 1
        if not href or href == url or "#" in href or len(href) > _LONGEST_REMEMBERED:
            return fate
        if self._held >= self._limit or (url and len(url) > _LONGEST_REMEMBERED):
            return fate  # the address would be kept with its short spelling
        if href[0] == "/":
            site[href] = fate
        elif ":" in href and href.startswith(_SAME_ANYWHERE):
            self._anywhere[href] = fate
        elif folder is not _NONE and href[0] not in _OF_THE_PAGE and ":" not in href:
            # A colon may end a scheme after which the rest is relative to the page.
            folder[href] = fate
        else:
            return fate
        # Addresses are ASCII; a character of other texts has up to four bytes.
        size = len(href) if href.isascii() else 4 * len(href)
        self._held += 1 + size // _IN_AN_ENTRY
        return fate

    def _memories(self, place: LinkBase) -> tuple[_Memory, _Memory]:
        """Return the known results for links of the page's site, and for those of its folder.

        Results of a folder are kept only from its second page on: many have but one. A page whose
        own address is not canonical uses none: it may lie in another folder than it seems.
        """
        site = self._by_site.get(place.site)
        if site is None:
            site = self._by_site[place.site] = {}
            self._held += 1
        folder = self._by_folder.get(place.folder)
        if folder is None:
            self._by_folder[place.folder] = folder = _NONE
            self._held += 1 + len(place.folder) // _IN_AN_ENTRY
        elif not place.plain:
            folder = _NONE
        elif folder is _NONE:
            self._by_folder[place.folder] = folder = {}
            self._near[place.folder] = site, folder
            self._held += 1
        return site, folder

    def _judged(self, url: str, host: str) -> Link | ScopeRefusal:
        refusal = self._territory.refusal(url, host)
        if refusal is not None:
            return refusal
        id = fingerprint(url)
        if "?" in url and not self._variants.admits(url.partition("?")[0], id):
            return TOO_MANY_VARIANTS
        if self._parts > 1:
            host = queue_of(host, id, self._parts)
        return _new(Link, (id, url, host, 0))

    def _forget(self) -> None:
        self._by_site.clear()
        self._by_folder.clear()
        self._near.clear()
        self._hosts.clear()
        self._anywhere.clear()
        self._held = 0
