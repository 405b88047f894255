"""`http_fetch`: one HTTP request, or a list of them, with what came back.

An answer such as 404 or 503 is a result; only a request that got no answer fails. Of a list each
URL has its own outcome, so that a site that is down fails nothing but itself.
"""

import base64
import codecs
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Annotated, ClassVar, Final, Literal, Self
from urllib.parse import urljoin

import msgspec

from crawlfleet.crawl.engine.list_fetcher import GrantedFetch
from crawlfleet.crawl.fetch.dial import AddressRefused, NetworkTrouble
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.fetch.request import header_problem, read_target
from crawlfleet.crawl.fetch.secrets import headers_with_secrets, private_headers
from crawlfleet.crawl.politeness.ledger_client import ledger_of
from crawlfleet.errors import CrawlfleetError, FieldProblem
from crawlfleet.executors.fetch_list import FetchedPage, ListFetch
from crawlfleet.model.crawl.parameters import Fetching, Limits, Outcome
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Context, Measured

MAX_REDIRECTS: Final = 10
MAX_URLS: Final = 4_000
MAX_URL_BYTES: Final = 400_000
"""Maximum size of all URLs of a list together: each is in the result, too."""
BODY_LIMIT: Final = 900_000
"""Bytes of a body as JSON; leaves room for the headers in the 1 MB that a result may have."""

Send = Callable[[FetchRequest, float], Awaitable[Fetched]]
"""Fetches one page; the number is the timeout in seconds."""


class BadRequest(CrawlfleetError):
    """The parameters are no request that could be sent."""

    error_class: ClassVar = ErrorClass.INVALID


class HttpFetchParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `url`, or a list of `urls`."""

    url: Annotated[str, msgspec.Meta(examples=["https://shop.example/price.json"])] | None = None
    """URL to fetch; redirects are followed."""
    urls: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_URLS)] = ()
    """URLs to fetch, each once."""
    method: Literal["GET", "HEAD"] = "GET"
    """`HEAD` asks for the headers alone."""
    headers: dict[str, str] = {}
    """Request headers in addition to the usual ones; `${secret:NAME}` stands for a secret of the
    project. Credentials are not sent on when a redirect leads to another site."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 30.0
    """Timeout in seconds for the whole request, with its redirects."""
    max_bytes: Annotated[int, msgspec.Meta(ge=0)] = 1_000_000
    """Maximum size of a body. All pages of a list share one result, in equal parts."""
    delay_s: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    """Minimum time in seconds between the starts of two requests to one host, in a list."""
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    """Maximum number of concurrent requests to one host, in a list."""
    retries: Annotated[int, msgspec.Meta(ge=0, le=10)] = 1
    """Number of retries of a URL that gave no answer, after the others of its host, in a list."""
    shards: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1
    """Number of tasks over which a list is spread, by host."""
    total_concurrency: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    """Maximum number of concurrent requests to one host by all shards of a list together."""

    def __post_init__(self) -> None:
        if (self.url is None) is (not self.urls):
            raise ValueError("has neither a `url` nor `urls`, or both; send one of the two")
        if sum(len(url.encode("utf-8", "replace")) for url in self.urls) > MAX_URL_BYTES:
            raise ValueError(f"has `urls` of more than {MAX_URL_BYTES:,} bytes; send fewer")


class FilledParameters(HttpFetchParameters, frozen=True, kw_only=True):
    """Parameters with the values of secrets in the headers. They are never decoded from a
    request."""

    private: frozenset[str] = frozenset()
    """Names of headers that are only sent to the site of the requested URL."""


class HttpFetch:
    Parameters: ClassVar[type[msgspec.Struct]] = HttpFetchParameters
    secrets_as_variables: ClassVar = False

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private

    @classmethod
    def from_settings(cls, settings: WorkerSettings) -> Self:
        return cls(allow_private=settings.allow_private)

    @staticmethod
    def problems(parameters: HttpFetchParameters) -> Iterator[FieldProblem]:
        """Yield the problems of the URL and the headers. URLs of a list have their own outcomes
        instead."""
        if parameters.url is not None:
            yield from address_problems(parameters.url)
        if problem := header_problem(parameters.headers.items()):
            yield FieldProblem(
                field="headers", message=f"cannot be sent: {problem}", remedy="correct it"
            )

    async def run(
        self, parameters: HttpFetchParameters, context: Context
    ) -> FetchedPage | Measured:
        if parameters.headers:
            parameters = _filled(parameters, context.secrets)
        if parameters.urls:
            if problem := header_problem(parameters.headers.items()):
                raise BadRequest(f"{problem}; correct `headers`")
            return await self._fetch_list(parameters, context)
        return await self.fetch(parameters)

    async def _fetch_list(self, parameters: HttpFetchParameters, context: Context) -> Measured:
        ledger = await ledger_of(context)
        if ledger is None:
            return await self._run_list(parameters, context, None)
        async with GrantedFetch(
            ledger,
            delay_s=parameters.delay_s,
            concurrency=parameters.total_concurrency or parameters.concurrency,
            timeout_s=parameters.timeout_s,
            allow_private=self._allow_private,
        ) as granted:
            return await self._run_list(parameters, context, granted.fetch)

    async def _run_list(
        self, parameters: HttpFetchParameters, context: Context, send: Send | None
    ) -> Measured:
        async def fetch(url: str, most: int) -> FetchedPage:
            one = msgspec.structs.replace(
                parameters, url=url, urls=(), max_bytes=min(parameters.max_bytes, most)
            )
            return await self.fetch(one, most=most, send=send)

        fetching = ListFetch(
            parameters.urls,
            fetch,
            delay_s=parameters.delay_s,
            concurrency=parameters.concurrency,
            retries=parameters.retries,
            most_bytes=BODY_LIMIT,
            is_granted=send is not None,
        )
        return await fetching.run(context)

    async def fetch(
        self,
        parameters: HttpFetchParameters,
        *,
        most: int = BODY_LIMIT,
        send: Send | None = None,
    ) -> FetchedPage:
        """Fetch one page; its body has at most `most` bytes as JSON. `send` replaces the direct
        fetch."""
        page, elapsed_s = await self._visit(parameters, send)
        kept, text = _fit(page.body, _charset(page), most)
        return FetchedPage(
            url=page.url,
            status=page.status,
            headers=_headers(page),
            bytes=len(kept),
            truncated=page.outcome is Outcome.TOO_LARGE or len(kept) < len(page.body),
            elapsed_s=elapsed_s,
            body=text,
            body_base64=base64.b64encode(kept).decode() if text is None else None,
        )

    async def visit(self, parameters: HttpFetchParameters) -> Fetched:
        """Return the page at the end of the redirects; raises when there is no answer."""
        return (await self._visit(parameters, None))[0]

    async def _visit(
        self, parameters: HttpFetchParameters, send: Send | None
    ) -> tuple[Fetched, float]:
        """Return the page, and the seconds it took without waits for a turn."""
        if read_target(parameters.url or "") is None:
            raise BadRequest(
                f"{parameters.url!r} is no web address; `url` must begin with http:// or https://"
            )
        if problem := header_problem(parameters.headers.items()):
            raise BadRequest(f"{problem}; correct `headers`")
        page, elapsed_s = await self._follow(parameters, send or self._send)
        _check(page, parameters)
        return page, elapsed_s

    async def _follow(self, parameters: HttpFetchParameters, send: Send) -> tuple[Fetched, float]:
        url, elapsed_s = parameters.url or "", 0.0
        for _ in range(MAX_REDIRECTS + 1):
            left_s = parameters.timeout_s - elapsed_s
            if left_s <= 0:
                return Fetched(url=url, outcome=Outcome.TIMEOUT), elapsed_s
            page = await send(_request(url, parameters), left_s)
            # One that ran out of time has used all of it.
            elapsed_s += left_s if page.outcome is Outcome.TIMEOUT else page.elapsed_s
            if page.outcome is not Outcome.REDIRECT:
                return page, elapsed_s
            url = urljoin(url, page.header("location") or "")
            if read_target(url) is None:
                raise NetworkTrouble(f"{parameters.url}: redirected to no web address: {url}")
            if not _is_of_site(url, parameters.url or ""):
                parameters = _without_credentials(parameters)
        raise NetworkTrouble(f"{parameters.url}: more than {MAX_REDIRECTS} redirects")

    async def _send(self, request: FetchRequest, left_s: float) -> Fetched:
        limits = Limits(connect_s=left_s, first_byte_s=left_s, idle_s=left_s, total_s=left_s)
        began = time.monotonic()
        # Nothing is kept between requests: no cookies, no connections.
        async with Fetcher(
            limits=limits, fetching=Fetching(), allow_private=self._allow_private, keep_s=0
        ) as fetcher:
            page = await fetcher.fetch(request)
        return msgspec.structs.replace(page, elapsed_s=time.monotonic() - began)


def address_problems(url: str) -> Iterator[FieldProblem]:
    """Yield the problem of a `url` that cannot be fetched."""
    if read_target(url) is None:
        yield FieldProblem(
            field="url",
            message="is not an address of the web",
            remedy="begin it with https:// or http://",
            value=url,
        )


def _filled(parameters: HttpFetchParameters, secrets: Mapping[str, str]) -> HttpFetchParameters:
    fields = {name: getattr(parameters, name) for name in HttpFetchParameters.__struct_fields__}
    filled = headers_with_secrets(parameters.headers, secrets)
    return FilledParameters(
        **{**fields, "headers": filled}, private=private_headers(parameters.headers)
    )


def _without_credentials(parameters: HttpFetchParameters) -> HttpFetchParameters:
    """Return the parameters without credentials, for a redirect to another site."""
    if isinstance(parameters, FilledParameters):
        private = parameters.private
    else:
        private = private_headers(parameters.headers)
    headers = {name: value for name, value in parameters.headers.items() if name not in private}
    return msgspec.structs.replace(parameters, headers=headers)


def _is_of_site(url: str, first: str) -> bool:
    """Return true if a URL is on the host of the first one, with the same port and protocol or
    upgraded to HTTPS."""
    there, here = read_target(url), read_target(first)
    if there is None or here is None or there.origin.host != here.origin.host:
        return False
    begun, led = here.origin, there.origin
    is_upgraded = (begun.tls, begun.port, led.tls, led.port) == (False, 80, True, 443)
    return is_upgraded or (begun.tls, begun.port) == (led.tls, led.port)


def _request(url: str, parameters: HttpFetchParameters) -> FetchRequest:
    return FetchRequest(
        url=url,
        method=parameters.method,
        headers=tuple(parameters.headers.items()),
        max_body_bytes=parameters.max_bytes,
        cut=True,
    )


def _check(page: Fetched, parameters: HttpFetchParameters) -> None:
    """Raise if the page is no answer. Odd answers are left for the reader to judge."""
    match page.outcome:
        case Outcome.REFUSED:
            raise AddressRefused(page.reason)
        case Outcome.TIMEOUT:
            raise NetworkTrouble(f"{page.url}: no answer within {parameters.timeout_s:g} s")
        case Outcome.DNS | Outcome.CONNECT | Outcome.TLS:
            raise NetworkTrouble(f"{page.url}: {page.reason}")
        case Outcome.BAD_RESPONSE if page.status < 300:
            raise NetworkTrouble(f"{page.url}: {page.reason}")
        case Outcome.BAD_CONTENT if not page.body:
            raise NetworkTrouble(f"{page.url}: {page.reason}")


def _headers(page: Fetched) -> dict[str, str]:
    headers: dict[str, str] = {}
    for key, value in page.headers:
        joint = "\n" if key == "set-cookie" else ", "
        headers[key] = f"{headers[key]}{joint}{value}" if key in headers else value
    return headers


def _charset(page: Fetched) -> str | None:
    _, _, after = (page.header("content-type") or "").lower().partition("charset=")
    return after.partition(";")[0].strip(" \"'") or None


def _fit(content: bytes, charset: str | None, most: int) -> tuple[bytes, str | None]:
    """Return as much of the body as a result can hold, and the same as text if it is text."""
    while True:
        text = _text(content, charset)
        size = len(content) * 4 // 3 + 4 if text is None else len(msgspec.json.encode(text))
        if size <= most or not content:
            return content, text
        content = content[: len(content) * most // size]


def _text(content: bytes, charset: str | None) -> str | None:
    """Return the body as text, or `None`. A declared charset is trusted; without one, only UTF-8
    counts as text."""
    try:
        if charset:
            return content.decode(charset, errors="replace")
        # The end may be in the middle of a character, where the limit cut it.
        text = codecs.getincrementaldecoder("utf-8")().decode(content)
    except (LookupError, ValueError):
        return None
    return None if "\0" in text else text
