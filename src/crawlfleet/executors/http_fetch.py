"""`http_fetch`: one HTTP request, with what came back.

An answer such as 404 or 503 is a result; only a request that got no answer fails.
"""

import base64
import codecs
import time
from typing import Annotated, ClassVar, Final, Literal, Self

import aiohttp
import msgspec
from yarl import URL

from crawlfleet import __version__
from crawlfleet.crawl.dial import NetworkTrouble, guarded_connector
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Context

USER_AGENT: Final = f"crawlfleet/{__version__}"
MAX_REDIRECTS: Final = 10
CHUNK_BYTES: Final = 1 << 16
BODY_LIMIT: Final = 900_000
"""Bytes of a body as JSON; leaves room for the headers in the 1 MB that a result may have."""


class BadRequest(CrawlfleetError):
    """The parameters are no request that could be sent."""

    error_class: ClassVar = ErrorClass.INVALID


class HttpFetchParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    method: Literal["GET", "HEAD"] = "GET"
    headers: dict[str, str] = {}
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 30.0
    max_bytes: Annotated[int, msgspec.Meta(ge=0)] = 1_000_000


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What came back. A body that is not text is in `body_base64`."""

    url: str
    """Where the redirects ended."""
    status: int
    headers: dict[str, str]
    """By lower-case name; repeated ones are joined, `set-cookie` by line breaks."""
    bytes: int
    """So many bytes of the body are here; `truncated` when there were more."""
    truncated: bool
    elapsed_s: float
    body: str | None = None
    body_base64: str | None = None


class HttpFetch:
    Parameters: ClassVar[type[msgspec.Struct]] = HttpFetchParameters

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private

    @classmethod
    def from_settings(cls, settings: WorkerSettings) -> Self:
        return cls(allow_private=settings.allow_private)

    async def run(self, parameters: HttpFetchParameters, context: Context) -> Page:
        url = _checked(parameters.url)
        try:
            # Nothing is kept between tasks: no cookies, no connections.
            async with aiohttp.ClientSession(
                connector=guarded_connector(allow_private=self._allow_private),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": USER_AGENT},
                timeout=aiohttp.ClientTimeout(total=parameters.timeout_s),
            ) as session:
                return await _fetch(session, url, parameters)
        except aiohttp.TooManyRedirects:
            raise NetworkTrouble(f"{url}: more than {MAX_REDIRECTS} redirects") from None
        except aiohttp.RedirectClientError as error:
            raise NetworkTrouble(f"{url}: redirected to no web address: {error}") from None
        except TimeoutError:
            raise NetworkTrouble(f"{url}: no answer within {parameters.timeout_s:g} s") from None
        except (aiohttp.InvalidURL, ValueError) as error:  # such as a line break in a header
            raise BadRequest(f"{url}: {error}; correct `url` or `headers`") from None
        except (aiohttp.ClientError, OSError) as error:
            raise NetworkTrouble(f"{url}: {error or type(error).__name__}") from error


def _checked(text: str) -> URL:
    try:
        url = URL(text)
    except ValueError as error:
        raise BadRequest(f"{text!r} is no URL: {error}; correct `url`") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise BadRequest(f"{text!r} is no web address; `url` must begin with http:// or https://")
    return url


async def _fetch(session: aiohttp.ClientSession, url: URL, parameters: HttpFetchParameters) -> Page:
    began = time.monotonic()
    async with session.request(
        parameters.method,
        url,
        headers=parameters.headers,
        max_redirects=MAX_REDIRECTS,
        allow_redirects=True,
    ) as response:
        content, cut = await _read(response, parameters.max_bytes)
        kept, text = _fit(content, response.charset)
        return Page(
            url=str(response.url),
            status=response.status,
            headers=_headers(response),
            bytes=len(kept),
            truncated=cut or len(kept) < len(content),
            elapsed_s=time.monotonic() - began,
            body=text,
            body_base64=base64.b64encode(kept).decode() if text is None else None,
        )


async def _read(response: aiohttp.ClientResponse, limit: int) -> tuple[bytes, bool]:
    """The body up to the limit, and whether there was more."""
    content = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        content += chunk
        if len(content) > limit:
            return bytes(content[:limit]), True
    return bytes(content), False


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        key = name.lower()
        joint = "\n" if key == "set-cookie" else ", "
        headers[key] = f"{headers[key]}{joint}{value}" if key in headers else value
    return headers


def _fit(content: bytes, charset: str | None) -> tuple[bytes, str | None]:
    """As much of the body as a result can hold, and the same as text if it is text."""
    while True:
        text = _text(content, charset)
        size = len(content) * 4 // 3 + 4 if text is None else len(msgspec.json.encode(text))
        if size <= BODY_LIMIT:
            return content, text
        content = content[: len(content) * BODY_LIMIT // size]


def _text(content: bytes, charset: str | None) -> str | None:
    """A declared charset is believed; without one, only what is UTF-8 counts as text."""
    try:
        if charset:
            return content.decode(charset, errors="replace")
        # The end may be in the middle of a character, where the limit cut it.
        text = codecs.getincrementaldecoder("utf-8")().decode(content)
    except (LookupError, ValueError):
        return None
    return None if "\0" in text else text
