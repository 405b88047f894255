"""Scope of a crawl: decides whether a link belongs to it; a "no" is a value that `explain` prints.

The cheap checks come first, and those with the clearest "no": the place, the type, then the signs
of a trap, and the user's expressions last. Expressions are only matched against addresses of
bounded length.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from crawlfleet.core.text.patterns import REMEDY, compile_pattern, pattern_problem
from crawlfleet.core.urls.canonical import host_key
from crawlfleet.core.urls.suffixes import Suffixes
from crawlfleet.core.urls.traps import LOOK_BACK_YEARS, beyond_calendar, repeats
from crawlfleet.errors import FieldProblem
from crawlfleet.model.crawl.parameters import Limits, Scope

_BY_TYPE: Final = {
    "image/": "bmp gif ico jpeg jpg jfif png svg svgz tif tiff webp avif heic heif psd ai eps raw",
    "audio/": "aac aif aiff flac m4a mid midi mp3 oga ogg opus ra wav wma",
    "video/": "3gp asf avi flv m4v mkv mov mp4 mpeg mpg ogv qt rm swf vob webm wmv ts m3u8",
    "font/": "eot otf ttf woff woff2",
    "text/css": "css less scss",
    "text/javascript": "js mjs cjs map",
    "text/calendar": "ics",
    "text/csv": "csv tsv",
    "application/pdf": "pdf",
    "application/msword": "doc docx dot dotx odt rtf pages",
    "application/vnd.ms-excel": "xls xlsx xlsm ods numbers",
    "application/vnd.ms-powerpoint": "ppt pptx pps ppsx odp key",
    "application/epub+zip": "epub mobi azw3 djvu",
    "application/zip": "zip tar gz tgz bz2 tbz xz txz 7z rar zst lz lzma jar war cab",
    "application/octet-stream": (
        "exe msi dmg pkg deb rpm apk ipa iso img bin dll so dylib class pyc whl egg crx xpi"
        " torrent db sqlite mdb bak dat parquet"
    ),
    "application/wasm": "wasm",
}


def unwanted_endings(content_types: Iterable[str]) -> frozenset[str]:
    """Return the endings of files that a crawl of these content types does not need."""
    wanted = [wanted.partition(";")[0].strip().lower() for wanted in content_types]
    if "*/*" in wanted:
        return frozenset()
    return frozenset(
        ending
        for kind, endings in _BY_TYPE.items()
        if not any(_takes(one, kind) for one in wanted)
        for ending in endings.split()
    )


def _takes(wanted: str, kind: str) -> bool:
    if kind.endswith("/"):
        return wanted.startswith(kind)
    return wanted == kind or wanted == f"{kind.partition('/')[0]}/*"


_HOSTS_KEPT: Final = 10_000


class ScopeRefusal(NamedTuple):
    """Refusal of a link: the rule that rejected it, and the reason in words."""

    rule: str
    message: str


NOT_OF_THE_WEB: Final = ScopeRefusal("address", "is not an address of the web")
TOO_MANY_VARIANTS: Final = ScopeRefusal(
    "variants", "is one more query of a path that has more than `scope.max_query_variants`"
)
TOO_MANY_LINKS: Final = ScopeRefusal(
    "links", "stands on its page after more links than are followed"
)

_WITHIN: Final = {
    "host": "leads to a host that is not one of the seeds' (`scope.within: host`)",
    "domain": "leads to another domain than the seeds' (`scope.within: domain`)",
    "prefix": "is not below the folder of a seed (`scope.within: prefix`)",
}


def problems(scope: Scope) -> list[FieldProblem]:
    """Return the problems of a scope's expressions, for the user who wrote them."""
    found = []
    for field, patterns in (("allow", scope.allow), ("deny", scope.deny)):
        for number, pattern in enumerate(patterns):
            if problem := pattern_problem(pattern):
                found.append(
                    FieldProblem(
                        field=f"scope.{field}.{number}",
                        message=problem,
                        remedy=f"{REMEDY}; `/news/` is one",
                        value=pattern,
                    )
                )
    return found


class Territory:
    """Territory of one crawl: tests which links belong to it. Immutable except for a cache of
    hosts: use it from one thread."""

    def __init__(
        self,
        scope: Scope,
        limits: Limits,
        seeds: Sequence[str],
        *,
        year: int,
        suffixes: Suffixes | None = None,
    ) -> None:
        """Make the territory of a crawl: `seeds` are canonical, `year` is the present one, and
        `suffixes` are needed for `domain`."""
        if scope.within == "domain" and suffixes is None:
            raise ValueError("`within: domain` needs the public suffixes")
        self._scope, self._limits, self._seeds = scope, limits, tuple(seeds)
        self._year, self._suffixes = year, suffixes
        self._within = scope.within
        self._outside = ScopeRefusal("within", _WITHIN.get(scope.within, ""))
        self._places = frozenset(map(self._place_of, seeds))
        self._prefixes = tuple(map(_folder, seeds)) if scope.within == "prefix" else ()
        self._hosts: dict[str, bool] = {}
        self._allow = [compile_pattern(pattern) for pattern in scope.allow]
        self._deny = [compile_pattern(pattern) for pattern in scope.deny]
        # So many segments neither are too many nor can repeat one too often.
        self._shallow = min(scope.max_repeated_segments, scope.max_path_segments)
        self._expressions = bool(self._allow or self._deny)
        self._endings = unwanted_endings(limits.content_types)
        self._longest = max(map(len, self._endings), default=0)
        ahead = scope.max_years_ahead
        self._years = None if ahead is None else (year - LOOK_BACK_YEARS, year + ahead)

    def including(self, url: str) -> "Territory":
        """Return a territory that includes `url` like a seed, for the target of a seed's redirect;
        the same object when nothing changes."""
        if url in self._seeds or not self._is_outside(url, host_key(url)):
            return self
        return Territory(
            self._scope,
            self._limits,
            (*self._seeds, url),
            year=self._year,
            suffixes=self._suffixes,
        )

    def refusal(self, url: str, host: str) -> ScopeRefusal | None:
        """Return why the canonical `url` with that host key does not belong; `None` when it
        does."""
        outside = self._hosts.get(host)
        if outside is None:
            outside = self._is_outside(url, host)
        if outside:
            return self._outside
        scope = self._scope
        if len(url) > scope.max_url_chars:
            return ScopeRefusal("length", f"has more than {scope.max_url_chars} characters")
        rest = path = url[len(host) :]
        if "?" in rest:
            path, _, query = rest.partition("?")
            if query.count("&") >= scope.max_query_parameters:
                limit = scope.max_query_parameters
                return ScopeRefusal("parameters", f"has more than {limit} query parameters")
        dot = path.rfind(".", -self._longest - 1)
        if dot >= 0 and path[dot + 1 :].lower() in self._endings:
            ending = path[dot:].lower()
            return ScopeRefusal("file_type", f"ends in {ending!r}: no content type that is wanted")
        if path.count("/") > self._shallow:
            trap = self._too_deep(path)
            if trap is not None:
                return trap
        if self._years is not None and beyond_calendar(rest, *self._years):
            first, last = self._years
            return ScopeRefusal("calendar", f"names a date before {first} or after {last}")
        return self._against_expressions(url) if self._expressions else None

    def _too_deep(self, path: str) -> ScopeRefusal | None:
        limit = self._scope.max_path_segments
        if path.count("/") > limit and path.rstrip("/").count("/") > limit:
            return ScopeRefusal("depth", f"has more than {limit} path segments")
        limit = self._scope.max_repeated_segments
        if repeats(path, limit):
            return ScopeRefusal("repeated", f"has a path segment more than {limit} times")
        return None

    def _against_expressions(self, url: str) -> ScopeRefusal | None:
        for pattern in self._deny:
            if pattern.search(url):
                return ScopeRefusal("deny", f"matches `scope.deny` {pattern.pattern!r}")
        if self._allow and not any(pattern.search(url) for pattern in self._allow):
            return ScopeRefusal("allow", "matches none of `scope.allow`")
        return None

    def _is_outside(self, url: str, host: str) -> bool:
        if self._within == "prefix":
            # Schemes are no matter: sites lead from http to https as they like.
            address = url.partition("://")[2]
            return not any(_is_below(address, prefix) for prefix in self._prefixes)
        outside = self._within != "any" and self._place_of(f"{host}/") not in self._places
        if len(self._hosts) >= _HOSTS_KEPT:
            self._hosts.clear()
        self._hosts[host] = outside
        return outside

    def _place_of(self, url: str) -> str:
        """Return the key that is equal for all URLs at the same place as a seed."""
        authority = host_key(url).partition("://")[2]
        if self._within != "domain" or self._suffixes is None:
            return authority
        if authority[0] == "[":
            return authority.partition("]")[0]
        return self._suffixes.registrable(authority.partition(":")[0])


def _folder(url: str) -> str:
    """Return host and folder of a seed, without a slash at the end. `/docs` is a folder unless its
    name has a dot: a crawl from `/docs` covers the pages below it."""
    address = url.partition("://")[2].partition("?")[0]
    parent, _, last = address.rpartition("/")
    return parent if "." in last or not last else address


def _is_below(address: str, prefix: str) -> bool:
    end = len(prefix)
    return address.startswith(prefix) and address[end : end + 1] in ("", "/", "?")
