"""Rules for browsers: the session cookie, allowed origins, and the headers of answers.

A browser sends its cookie with requests that other sites cause, too. So requests that change
something must come from our own page (`Origin`), and have a token that only this page could read
(`X-Crawlfleet-Csrf`).
"""

import hmac
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from crawlfleet.control.access.keys import Principal
from crawlfleet.control.access.tokens import csrf_token
from crawlfleet.errors import Refused

COOKIE: Final = "crawlfleet_session"
CSRF: Final = "X-Crawlfleet-Csrf"
INERT: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""Headers that make an answer inert: it may contain foreign content, of which a browser must run
nothing."""


def session_of(request: Request) -> str | None:
    """The secret in the browser's cookie, if there is one."""
    return request.cookies.get(COOKIE) or None


def cookie(secret: str, *, lasts_s: float, secure: bool) -> str:
    """The header that gives a browser its cookie; without a secret it takes it away."""
    kept = f"Max-Age={max(int(lasts_s), 0)}"
    flags = f"Path=/; {kept}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
    return f"{COOKIE}={secret}; {flags}"


def check_own(request: Request, *, needs_origin: bool) -> None:
    """Raise `Refused` for requests that another site's page caused."""
    origin = request.headers.get("origin")
    if origin is None:
        if needs_origin:
            raise Refused(
                "a session may change things only from its own page, and the request has no "
                "`Origin`; programs send a key instead: `Authorization: Bearer KEY`"
            )
        return
    host = request.headers.get("host", "")
    if origin.partition("://")[2].lower() != host.lower():
        raise Refused(
            f"the page is from {origin[:200]!r}, and this is {host[:200]!r}; open the dashboard at "
            "its own address, and let proxies pass on the `Host` that they are asked for"
        )


def check_token(request: Request, caller: Principal) -> None:
    """Raise `Refused` for requests that do not come from the page that signed in."""
    shown = request.headers.get(CSRF, "").encode("latin-1")
    if not hmac.compare_digest(shown, csrf_token(caller.session_hash).encode()):
        raise Refused(f"`{CSRF}` is not that of this session; GET /api/v1/session tells it")


def keep_inert(response: Response) -> None:
    """Have the browser run nothing of an answer, and keep nothing."""
    for name, value in INERT.items():
        response.headers.setdefault(name, value)


def is_secure(scope: Scope) -> bool:
    """Return whether a proxy reports that it was reached by TLS."""
    return (b"x-forwarded-proto", b"https") in scope["headers"]
