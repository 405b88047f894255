"""Signs that a page is not what its status says: "not found" with a 200, or a wall for robots.

Both are hints from words and sizes, so they ask for several signs at once: a shop may sell a book
called "Page not found". Phrases are English and Chinese; numbers and sizes mean the same anywhere.
"""

import re
from collections.abc import Iterable
from typing import Final

SMALL_CHARS: Final = 2_000
"""Text length above which a page counts as having content of its own."""
_HEAD_CHARS: Final = 20_000
_TINY_BYTES: Final = 6_000

_MISSING_TITLE: Final = re.compile(
    r"\b404\b|\b(?:page|file|product|article|item|content) (?:was |could )?not (?:be )?found\b"
    r"|\bnot found\b|\bpage (?:doesn.t|does not) exist\b|\bno longer (?:available|exists)\b"
    r"|页面(?:不存在|未找到|找不到|已删除)|找不到(?:该|此|您|你)?.{0,8}(?:页|内容|商品)|(?:内容|商品|文章|帖子)(?:不存在|已删除|已下架)"
    r"|頁面不存在|找不到網頁",
    re.IGNORECASE,
)
_MISSING_TEXT: Final = re.compile(
    r"\b(?:error|http|code)[ :]{0,3}404\b|\b404[ :-]{1,3}(?:error|page|not found)"
    r"|\bpage you (?:are|were) (?:looking|searching) for\b"
    r"|\bpage (?:could not|cannot|can.t) be found\b"
    r"|\b(?:page|product|article|item) (?:was )?not found\b|\bdoes(?:n.t| not) exist\b"
    r"|\bno longer (?:available|exists)\b|\bhas been (?:removed|deleted)\b"
    r"|(?:访问|查看|请求|浏览)的(?:页面|内容|网页|商品).{0,6}(?:不存在|未找到|找不到|已删除|已下架)|页面(?:不存在|找不到|飞走|走丢)"
    r"|(?:内容|商品|文章|帖子)(?:不存在|已被?删除|已下架)",
    re.IGNORECASE,
)

_CHALLENGE_MARKS: Final = (
    (b"/.within.website/x/cmd/anubis/", "Anubis's challenge"),
    (b"/cdn-cgi/challenge-platform/", "Cloudflare's challenge"),
    (b"cf-chl-", "Cloudflare's challenge"),
    (b"_incapsula_resource", "Incapsula's challenge"),
    (b"datadome.co", "DataDome's challenge"),
    (b"px-captcha", "PerimeterX's challenge"),
    (b"perimeterx", "PerimeterX's challenge"),
    (b"awswaf.com", "AWS WAF's challenge"),
    (b"distil_r_captcha", "Distil's challenge"),
    (b"/_sec/cp_challenge/", "Akamai's challenge"),
    (b"geo.captcha-delivery.com", "DataDome's challenge"),
    (b"aliyun_waf", "Alibaba's challenge"),
    (b"punish?x5secdata", "Alibaba's challenge"),
    (b"tcaptcha", "Tencent's captcha"),
    (b"geetest", "a GeeTest captcha"),
    (b"g-recaptcha", "a captcha"),
    (b"h-captcha", "a captcha"),
    (b"hcaptcha.com", "a captcha"),
    (b"cf-turnstile", "a captcha"),
)
_ON_NO_OTHER_PAGE: Final = ((b'<script id="anubis_version"', "Anubis's challenge"),)
"""Marks of challenge pages that no page of a site has. The texts of these pages are often long and
in any language, so words and sizes cannot identify them."""
_WALL_TITLE: Final = re.compile(
    r"\bjust a moment\b|\battention required\b|\baccess (?:denied|to this page has been denied)\b"
    r"|\bare you (?:a )?(?:human|robot)\b|\brobot check\b|\bsecurity check\b"
    r"|\bverify (?:you|that you)\b|\byou(?:.re| are) not a (?:ro)?bot\b"
    r"|\bcaptcha\b|\bpardon our interruption\b|\brequest blocked\b|\bblocked\b|\bunusual traffic\b"
    r"|\bddos protection\b|\bforbidden\b"
    r"|安全验证|人机验证|滑动验证|验证码|访问(?:被拒绝|受限|过于频繁|异常)|身份验证|请完成验证",
    re.IGNORECASE,
)
_WALL_TEXT: Final = re.compile(
    r"\bverify (?:that )?you are (?:a )?human\b|\bnot a (?:ro)?bot\b"
    r"|\bunusual (?:traffic|activity)\b"
    r"|\benable (?:javascript|cookies)(?: and (?:javascript|cookies))?"
    r" to (?:continue|proceed|access)\b"
    r"|\bchecking (?:if the site connection is secure|your browser)\b"
    r"|\bcomplete the (?:captcha|security)\b"
    r"|\baccess (?:to this (?:page|site|resource) )?(?:has been |is )?(?:denied|blocked)\b"
    r"|\byou have been blocked\b|\btoo many requests\b|\bautomated (?:access|requests|queries)\b"
    r"|访问过于频繁|请(?:完成|进行|输入).{0,6}验证|人机验证|拖动.{0,4}滑块|您的访问.{0,6}(?:异常|拦截|阻断|受限)|操作太频繁",
    re.IGNORECASE,
)
_IN_ANY_APP: Final = re.compile(r"\benable javascript to (?:continue|proceed)\b", re.IGNORECASE)
"""Text that a single-page app shows to a client without JavaScript."""
_SIGN_IN_TITLE: Final = re.compile(
    "404|found|exist|no longer|just a moment|attention required|access|are you|robot|a bot|security"
    "|verify|captcha|pardon|blocked|unusual|ddos|forbidden"
).search
"""Words of which each title in plain letters that matches a long expression has one; a cheap first
test, since the long expressions try each letter in a dozen ways."""
_MISSING: Final = frozenset({404, 410})
_WALL_HEADERS: Final = {
    "cf-mitigated": "Cloudflare",
    "x-datadome": "DataDome",
    "x-amzn-waf-action": "AWS WAF",
    "x-sucuri-block": "Sucuri",
}


def worth_a_look(*, status: int, title: str, size: int) -> bool:
    """Return whether a page needs the full check by `blocked`; cheap, since most pages do not.

    `size` is the size of the whole page in bytes.
    """
    if size <= _TINY_BYTES or status != 200:
        return True
    title = title[:500]
    if title.isascii() and not _SIGN_IN_TITLE(title.lower()):
        return False
    return bool(_MISSING_TITLE.search(title) or _WALL_TITLE.search(title))


def soft_404(*, status: int, title: str, text: str) -> str | None:
    """Return why a page with status 200 is really a missing one; `None` when it is not.

    `text` is the page's visible text, or its beginning.
    """
    if status != 200:
        return None
    said = _MISSING_TITLE.search(title[:500])
    found = _MISSING_TEXT.search(text[:SMALL_CHARS])
    if said and (found or len(text) <= SMALL_CHARS):
        return f"its title says {said[0]!r}"
    if found and len(text) <= SMALL_CHARS // 4:
        return f"a short page that says {found[0]!r}"
    return None


def blocked(
    *,
    status: int,
    title: str,
    text: str,
    body: bytes = b"",
    headers: Iterable[tuple[str, str]] = (),
) -> str | None:
    """Return the wall (captcha, challenge, denial) that came in place of a page; `None` if there
    seems to be none.

    `headers` have lower-case names. The mark of a captcha alone does not count on a page with
    content: contact forms have captchas too.
    """
    if by_header := _in_headers(status, headers):
        return by_header
    if surely := _marked(body[:_HEAD_CHARS], _ON_NO_OTHER_PAGE):
        return surely
    short = len(text) <= SMALL_CHARS
    said = _WALL_TITLE.search(title[:500])
    found = _WALL_TEXT.search(text[:SMALL_CHARS]) if short else None
    head = body[:_HEAD_CHARS].lower() if short else b""
    mark = _marked(head)
    if said and short and (mark or found or status in {403, 429, 503}):
        return mark or f"its title says {said[0]!r}"
    if mark and found:
        return mark
    if found and len(text) <= SMALL_CHARS // 4:
        return f"a short page that says {found[0]!r}"
    if mark and short and status in {403, 429, 503}:
        return mark
    return None


def in_place_of_rules(
    *,
    status: int,
    title: str,
    text: str,
    body: bytes,
    headers: Iterable[tuple[str, str]],
) -> str | None:
    """Return the wall that came in place of a robots.txt; `None` if the site itself may have
    answered.

    With a 4xx only the marks of known walls count, not words: file stores say "access denied" of
    any file that they do not have.
    """
    if 200 <= status < 300:
        text = _IN_ANY_APP.sub("", text)
        return blocked(status=status, title=title, text=text, body=body, headers=headers)
    if by_header := _in_headers(status, headers):
        return by_header
    if surely := _marked(body[:_HEAD_CHARS], _ON_NO_OTHER_PAGE):
        return surely
    if status in _MISSING or len(text) > SMALL_CHARS:
        return None
    return _marked(body[:_HEAD_CHARS].lower())


def _in_headers(status: int, headers: Iterable[tuple[str, str]]) -> str | None:
    for name, value in headers:
        if name in _WALL_HEADERS and (name != "x-datadome" or status in {403, 429}):
            return f"{_WALL_HEADERS[name]} says so in the header {name}: {value[:40]}"
    return None


def _marked(head: bytes, marks: tuple[tuple[bytes, str], ...] = _CHALLENGE_MARKS) -> str | None:
    """Return the name of the challenge whose mark is in the head (in lower case); `None` if none
    is."""
    return next((name for mark, name in marks if mark in head), None) if head else None
