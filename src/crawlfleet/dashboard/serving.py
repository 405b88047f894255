"""Answers browsers with the built page: any path that is no route of the API is the page's own.

The page may load and run what comes from this very address, and nothing else: not a script that
somebody wrote into a title, not a style in an attribute, nothing from another host. Everything is
read into memory at the start, so nobody gets at other files by a path of their choice.
"""

from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.dashboard.files import INDEX, read_files

BUILT: Final = Path(__file__).parent / "dist"
NOT_PAGES: Final = ("/api", "/metrics", "/healthz", "/readyz")
"""Paths of the API: a request below them never gets the dashboard's page, not even as a 404."""
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
FOR_EVER: Final = "public, max-age=31536000, immutable"
ASK_AGAIN: Final = "no-cache"
NEVER: Final = "no-store"


class Dashboard:
    """The built page, ready to be sent."""

    def __init__(self, folder: Path = BUILT) -> None:
        self._files = dict(read_files(folder))

    async def __call__(self, request: Request) -> Response | None:
        """Return the requested file, or the page; `None` when the API is to answer."""
        path = request.scope["path"]
        if request.method not in {"GET", "HEAD"} or path.startswith(NOT_PAGES):
            return None
        file = self._files.get(path.removeprefix("/"))
        if file is None and "text/html" in request.headers.get("accept", ""):
            # The page finds its own way by the path.
            file = self._files.get(INDEX)
        if file is None:
            return None
        keeps = NEVER if file.is_index else FOR_EVER if file.lasts_for_ever else ASK_AGAIN
        headers = {**HEADERS, "Cache-Control": keeps, "ETag": file.etag, "Vary": "Accept-Encoding"}
        if file.etag in request.headers.get("if-none-match", "") and not file.is_index:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        content, encoding = await file.packed(request.headers.get("accept-encoding", ""))
        if encoding:
            headers["Content-Encoding"] = encoding
        if request.method == "HEAD":
            headers["Content-Length"] = str(len(content))
            content = b""
        return Response(content, headers=headers, media_type=file.media_type)
