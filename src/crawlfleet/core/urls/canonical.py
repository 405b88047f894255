"""One spelling for each page: canonical URLs, and the number and the host that stand for them.

An address is read as browsers read it (the WHATWG standard), then our own rules make the
spellings of one page equal; `docs/guides/crawling.md` lists them. They are applied in an order in
which none undoes another, so that a canonical URL is its own canonical form.

A page has dozens of links and most of them are plain, so the common ones never reach the parser:
one regular expression finds those on which parser and rules could change nothing but the query's
order. How a site is spelt says which site it is, whatever follows; so each spelling is parsed
once. Whatever is not recognised takes the slow way; both must agree, and the tests hold them to it.
"""

import re
from typing import Final

from ada_url import join_url, normalize_url
from xxhash import xxh3_64_intdigest

from crawlfleet.model.crawl.parameters import Urls

TRACKING_PREFIXES: Final = (
    "utm_",  # Google Analytics, and everybody since
    "hsa_",  # HubSpot advertisements
    "mtm_",  # Matomo
    "matomo_",
    "piwik_",
    "pk_campaign",
    "pk_kwd",
    "pk_source",
    "pk_medium",
    "pk_content",
    "at_campaign",  # AT Internet
    "at_medium",
    "fb_action_",
    "__hs",  # HubSpot
    "bsft_",  # Blueshift
    "trk_",
)

TRACKING: Final = frozenset(
    {
        # Click identifiers
        "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "srsltid",
        "fbclid", "msclkid", "yclid", "ysclid", "ymclid", "twclid", "ttclid", "li_fat_id", "epik",
        "igshid", "igsh", "irclickid", "irgwc", "rdt_cid", "sccid", "wickedid", "rb_clickid",
        "clickid", "zanpid", "admitad_uid", "cjevent", "tduid",
        # Analytics that carry a visitor over
        "_ga", "_gl", "_gac", "_ke", "_kx", "_openstat", "_branch_match_id", "_branch_referrer",
        # Mail campaigns
        "mc_cid", "mc_eid", "_hsenc", "_hsmi", "hsctatracking", "mkt_tok", "oly_anon_id",
        "oly_enc_id", "vero_id", "vero_conv", "ml_subscriber", "ml_subscriber_hash", "dm_i",
        "sc_src", "sc_llid", "sc_lid", "sc_uid", "ss_email_id", "s_cid", "cmpid", "elqtrackid",
        "elqtrack", "ck_subscriber_id", "guccounter", "guce_referrer", "guce_referrer_sig",
        # Shops and social networks
        "spm", "scm", "share_token", "fb_ref", "fb_source", "ref_src", "ref_url",
        "__twitter_impression", "__s", "xtor",
    }
)  # fmt: skip

SESSIONS: Final = frozenset(
    {"jsessionid", "phpsessid", "aspsessionid", "asp.net_sessionid", "cfid", "cftoken", "oscsid",
     "zenid", "xtcsid", "psessid", "bv_sessionid", "plack_session", "ci_session"}
)  # fmt: skip
"""Parameters that are always a session."""

SESSION_PREFIXES: Final = ("aspsessionid",)

PERHAPS_SESSIONS: Final = frozenset(
    {"sid", "sessid", "sessionid", "session_id", "session", "session-id", "sesskey", "phpsession",
     "s_id", "usid", "token_session"}
)  # fmt: skip
"""Parameters that are a session if their value looks like one."""


LONGEST: Final = 65_536
"""Length limit of an address; a longer one (an inlined picture) is not an address."""

_SIGN: Final = 1 << 63
_NAMES_KEPT: Final = 4096
_SITES_KEPT: Final = 4096
_LONGEST_NAME_KEPT: Final = 64

_UNRESERVED: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_NOT_IN_A_URI: Final = r"""[]|^\{}`"<>"""
"""Characters that RFC 3986 does not allow, of which the parser leaves some unchanged."""


def _spellings() -> dict[str, str]:
    """Return the normal form of each escape: upper case, or the character if it needs no escape. A
    stray `%` is escaped, or the text after it could join it to a new escape."""
    table = {"%": "%25"} | {char: f"%{ord(char):02X}" for char in _NOT_IN_A_URI}
    digits = "0123456789abcdefABCDEF"
    for escape in (f"%{high}{low}" for high in digits for low in digits):
        char = chr(int(escape[1:], 16))
        table[escape] = char if char in _UNRESERVED else escape.upper()
    return table


_SPELLINGS: Final = _spellings()
_TO_SPELL: Final = re.compile(rf"%(?:[0-9A-Fa-f]{{2}})?|[{re.escape(_NOT_IN_A_URI)}]")
_HALVES: Final = re.compile(r"[\ud800-\udfff]")
_PARTS: Final = re.compile(
    r"(https?://)(?:[^/?#@]*@)?([^/?#@]+)(/[^?#]*)(?:\?([^#]*))?(?:\#(.*))?", re.DOTALL
).fullmatch

# Removing a session from `/..;jsessionid=1` would make a way upwards of it: left alone.
_PATH_SESSION: Final = re.compile(
    r"(?<!/\.)(?<!/\.\.);(?:(?:jsessionid|phpsessid)=[^/;]*|sid=[0-9a-f]{16,}(?=[/;]|\Z))",
    re.IGNORECASE,
)
_ASP_SESSION: Final = re.compile(r"/\((?:[A-Z]\([0-9a-z]{24}\))+\)(?=/|\Z)", re.IGNORECASE)
_LIKE_A_SESSION: Final = re.compile(
    r"[0-9A-Fa-f]{16,}|(?=[^0-9]*[0-9])[0-9A-Za-z_-]{20,}"
).fullmatch

# What the fast way takes. No segment begins with a dot (dot segments), none is empty; `;` and `(`
# may begin a session; escapes are looked at on their own. A relative link has no colon, which
# could end a scheme.
_SEGMENT: Final = r"[A-Za-z0-9_~+,@=!$*'&%-][A-Za-z0-9._~+,@=!$*'&%-]*"
_ROOTED_SEGMENT: Final = _SEGMENT.replace("@", "@:")
_QUERY: Final = r"(?:\?([A-Za-z0-9._~+,:@=!$*()/?;&%-]*))?"
_SIMPLE: Final = re.compile(
    r"/?[A-Za-z0-9_~-][A-Za-z0-9._~-]*(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?"
).fullmatch
"""Pattern of the most common links, in which nothing could change."""
_ROOTED: Final = re.compile(rf"((?:/{_ROOTED_SEGMENT})*/?){_QUERY}").fullmatch
_RELATIVE: Final = re.compile(rf"({_SEGMENT}(?:/{_SEGMENT})*/?){_QUERY}").fullmatch
_ONLY_QUERY: Final = re.compile(_QUERY).fullmatch
_SITE: Final = re.compile(r"https?://[A-Za-z0-9._-]{1,255}(?::[0-9]{1,5})?").fullmatch
"""Pattern of a site in which the parser sees only a host and a port, whatever path follows."""
_ODD: Final = r"%(?!(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-DF]))"
_ODD_ESCAPE: Final = re.compile(_ODD).search
"""Pattern of an escape that is not in its normal form, or is invalid."""
_TO_CHANGE: Final = re.compile(rf"{_ODD}|[{re.escape(_NOT_IN_A_URI)}]").search

_USUAL: Final = Urls()
_DROP: Final = 1
_DROP_IF_LIKE_A_SESSION: Final = 2


def fingerprint(url: str) -> int:
    """Return the id of a canonical URL: its signed 64-bit hash, the same everywhere."""
    return (xxh3_64_intdigest(url.encode()) ^ _SIGN) - _SIGN


def host_key(url: str) -> str:
    """Return scheme, host and port of a canonical URL: `https://shop.example:8443`."""
    return url[: url.index("/", 8)]


class LinkBase:
    """Address of a page, prepared for resolving its links. `Canonicaliser.place` makes one per
    page."""

    __slots__ = ("base", "folder", "page", "plain", "rooted", "site", "url")

    def __init__(
        self, *, base: str, url: str, site: str, folder: str, page: str, plain: bool
    ) -> None:
        self.base = base
        """Address of the page as it is passed to the parser."""
        self.url = url
        self.site = site
        self.rooted = site + "/"
        self.plain = plain
        """True if the page lies in exactly `folder`, as spelt there."""
        self.folder = folder
        """Folder of the page with its last slash, whatever the rule for trailing slashes."""
        self.page = page
        """Address of the page without its query."""


class Canonicaliser:
    """Canonicaliser of addresses by the rules of one crawl. Never raises on an invalid address."""

    def __init__(self, options: Urls = _USUAL) -> None:
        self.keep_fragment = options.keep_fragment
        self._sort = options.sort_query
        self._drop_sessions = options.drop_session_ids
        self._keep_slash = options.trailing_slash == "keep"
        own = [name.lower() for name in options.drop_parameters]
        names = {name for name in own if not name.endswith("*")}
        prefixes = tuple(name[:-1] for name in own if name.endswith("*"))
        if not options.keep_tracking:
            names |= TRACKING
            prefixes += TRACKING_PREFIXES
        if options.drop_session_ids:
            names |= SESSIONS
            prefixes += SESSION_PREFIXES
        self._dropped = frozenset(names)
        self._dropped_prefixes = prefixes
        self._verdicts: dict[str, int] = {}
        self._sites: dict[str, str] = {}

    def canonical(self, url: str) -> str | None:
        """Return the canonical form of an absolute address; `None` when it is not a web address."""
        found = self._absolute(url) if len(url) <= LONGEST else None
        return self._slow(url, None) if found is None else found

    def join(self, base: str, href: str) -> str | None:
        """Return the canonical form of a link on the page `base`; `None` when it does not lead to a
        web address."""
        place = self.place(base)
        return self.canonical(href) if place is None else self.resolve(place, href)

    def place(self, base: str) -> LinkBase | None:
        """Return the base for `resolve` from a page's address; `None` when it is not a web
        address."""
        place = self._plain_place(base) if len(base) <= LONGEST else None
        if place is not None:
            return place
        parsed = self._parsed(base, None)
        if parsed is None:
            return None
        site, path, query, fragment = parsed
        return LinkBase(
            base=base,
            url=self._whole(site, path, query, fragment),
            site=site,
            folder=site + self._path(path[: path.rindex("/") + 1]),
            page=self._whole(site, path, None, None),
            plain=False,
        )

    def _plain_place(self, base: str) -> LinkBase | None:
        """Return the base of a plain page on a site that is spelt canonically."""
        end = base.find("/", 8)
        if end < 0:
            return None
        site = self._site(base[:end])
        plain = _ROOTED(base, end) if end == len(site) and base.startswith(site) else None
        url = self._plain(site, plain[1], plain[2]) if plain else None
        if plain is None or url is None:
            return None
        return LinkBase(
            base=base,
            url=url,
            site=site,
            folder=site + plain[1][: plain[1].rindex("/") + 1],
            page=url.partition("?")[0],
            plain=True,
        )

    def resolve(self, place: LinkBase, href: str) -> str | None:
        """Return the canonical form of a link, like `join`, for a prepared page."""
        if self._keep_slash and len(href) <= LONGEST:
            if href[:4] == "http":
                end = href.find("/", 8)
                site = self._sites.get(href[:end]) if end > 0 else None
                if site and _SIMPLE(href, end):
                    # The same text where it can be: it is kept, and was looked up already.
                    return href if len(site) == end and href.startswith(site) else site + href[end:]
            if _SIMPLE(href):
                return (place.site if href[0] == "/" else place.folder) + href
        head = href
        if "#" in href and not self.keep_fragment:
            head = href.partition("#")[0]
        if not head and not self.keep_fragment:
            return place.url
        found = self._fast(place, head) if len(head) <= LONGEST else None
        return self._slow(href, place.base) if found is None else found

    def _fast(self, place: LinkBase, head: str) -> str | None:
        """Resolve a plain link without fragment on a fast path; `None` for any other link."""
        if head[:1] == "/":
            if plain := _ROOTED(head):
                return self._plain(place.site, plain[1], plain[2])
        elif head[:3] == "../":
            if place.plain and (plain := _RELATIVE(head, 3)):
                folder = place.folder
                if len(folder) > len(place.rooted):
                    folder = folder[: folder.rindex("/", 0, -1) + 1]
                return self._plain(folder, plain[1], plain[2])
        elif plain := _RELATIVE(head):
            return self._plain(place.folder, plain[1], plain[2])
        elif head[:1] == "?":
            if plain := _ONLY_QUERY(head):
                return self._plain(place.page, "", plain[1])
        else:
            return self._absolute(head)
        return None

    def _absolute(self, url: str) -> str | None:
        """Canonicalise a plain link that names its site on a fast path; `None` for any other
        link."""
        end = url.find("/", 8)
        if end < 0:
            return None
        site = self._site(url[:end])
        plain = _ROOTED(url, end) if site else None
        return self._plain(site, plain[1], plain[2]) if plain else None

    def _plain(self, before: str, path: str, query: str | None) -> str | None:
        """Build the URL on a fast path, from parts that only the rules for queries and slashes may
        change."""
        if "%" in path and _ODD_ESCAPE(path):
            return None
        if not self._keep_slash and path.endswith("/"):
            path = path[:-1] or "/"
        if not query:
            return before + path
        if "%" in query and _ODD_ESCAPE(query):
            return None
        query = self._parameters(query)
        return f"{before}{path}?{query}" if query else before + path

    def _slow(self, url: str, base: str | None) -> str | None:
        parsed = self._parsed(url, base)
        return None if parsed is None else self._whole(*parsed)

    def _parsed(self, url: str, base: str | None) -> tuple[str, str, str | None, str | None] | None:
        """Return site, path, query and fragment as the standard reads them."""
        if len(url) > LONGEST:
            return None
        try:
            url = _whole_characters(url)
            href = normalize_url(url) if base is None else join_url(_whole_characters(base), url)
        except ValueError:
            return None
        parts = _PARTS(href)
        if parts is None:
            return None
        scheme, host, path, query, fragment = parts.groups()
        if "." in host and (host[-1] == "." or ".:" in host):
            # The dot that ends a full domain name changes nothing for whoever asks for a page.
            name, _, port = host.partition(":")
            name = name[:-1]
            if not name or name[-1] == ".":
                return None
            host = f"{name}:{port}" if port else name
        return scheme + host, path, query, fragment

    def _whole(self, site: str, path: str, query: str | None, fragment: str | None) -> str:
        path = self._path(path)
        if not self._keep_slash:
            path = path.rstrip("/") or "/"
        url = site + path
        if query and (query := self._parameters(_spelt(query))):
            url = f"{url}?{query}"
        if fragment and self.keep_fragment:
            url = f"{url}#{_spelt(fragment)}"
        return url

    def _path(self, path: str) -> str:
        path = _spelt(path)
        if self._drop_sessions and (";" in path or "(" in path):
            path = _ASP_SESSION.sub("", _PATH_SESSION.sub("", path)) or "/"
        return path

    def _parameters(self, query: str) -> str:
        """Return the query in order, without ignored parameters; `a=` and `a` stay as they are."""
        if "&" not in query:
            return "" if self._drops(query) else query
        pieces = [piece for piece in query.split("&") if piece and not self._drops(piece)]
        if self._sort:
            pieces.sort()
        return "&".join(pieces)

    def _drops(self, piece: str) -> bool:
        name, _, value = piece.partition("=")
        verdict = self._verdicts.get(name)
        if verdict is None:
            verdict = self._learn(name)
        if not verdict:
            return False
        return verdict == _DROP or _LIKE_A_SESSION(value) is not None

    def _learn(self, name: str) -> int:
        plain = name.lower()
        verdict = 0
        if plain in self._dropped or plain.startswith(self._dropped_prefixes):
            verdict = _DROP
        elif self._drop_sessions and plain in PERHAPS_SESSIONS:
            verdict = _DROP_IF_LIKE_A_SESSION
        if len(name) <= _LONGEST_NAME_KEPT:
            if len(self._verdicts) >= _NAMES_KEPT:
                self._verdicts.clear()  # names come from strangers
            self._verdicts[name] = verdict
        return verdict

    def _site(self, spelt: str) -> str:
        """Return the canonical spelling of the site; empty if it needs the full parser."""
        known = self._sites.get(spelt)
        if known is not None:
            return known
        if not _SITE(spelt):
            return ""
        parsed = self._parsed(f"{spelt}/", None)
        site = "" if parsed is None else parsed[0]
        if len(self._sites) >= _SITES_KEPT:
            self._sites.clear()  # as above
        self._sites[spelt] = site
        return site


def _spelt(text: str) -> str:
    """Return the text with every escape in its normal form."""
    if _TO_CHANGE(text) is None:
        return text  # as nearly always, and there may be thousands of escapes
    return _TO_SPELL.sub(lambda found: _SPELLINGS[found[0]], text)


def _whole_characters(text: str) -> str:
    """Replace unpaired surrogates, which cannot be encoded, by U+FFFD, as a browser does."""
    return text if text.isascii() else _HALVES.sub("\N{REPLACEMENT CHARACTER}", text)
