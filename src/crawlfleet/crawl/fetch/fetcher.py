"""Fetches pages from unknown servers: one request, one outcome, whatever the other side does."""

import asyncio
import ssl
import time
from importlib.util import find_spec
from typing import Final, Self

from crawlfleet.crawl.fetch.charset import is_binary
from crawlfleet.crawl.fetch.dial import AddressRefused, Dialler, NoConnection
from crawlfleet.crawl.fetch.dns import Names
from crawlfleet.crawl.fetch.http1 import Http1Connection, RawResponse, Wanted
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.fetch.pool import KEEP_S, Pool
from crawlfleet.crawl.fetch.proxy import BadProxy, Proxy, read_proxy
from crawlfleet.crawl.fetch.request import Manner, Target, header_problem, read_target
from crawlfleet.crawl.fetch.response import is_html, is_wanted, media_type
from crawlfleet.crawl.fetch.timeouts import TICK_S, TimeoutWatch
from crawlfleet.model.crawl.parameters import Fetching, Limits, Outcome

CONNECTIONS: Final = 1000
PER_HOST: Final = 64
"""A bound for the worst case; how many requests a host gets at once is politeness's matter."""
CONDITIONS: Final = frozenset({"if-none-match", "if-modified-since"})


class NotSent(Exception):
    """The request may not go out any more; no byte of it was sent."""


class _Taste:
    """Decides whether a content type is wanted; remembers the answers, since there are few
    spellings."""

    def __init__(self, wanted: tuple[str, ...]) -> None:
        self._wanted = tuple(each.lower() for each in wanted)
        self._known: dict[str, bool] = {}

    def __call__(self, content_type: str) -> bool:
        known = self._known.get(content_type)
        if known is None:
            known = is_wanted(media_type(content_type), self._wanted)
            if len(self._known) < 1000:
                self._known[content_type] = known
        return known


class Fetcher:
    """Fetches pages over connections that it keeps. Use one for all requests of a crawl."""

    def __init__(
        self,
        *,
        limits: Limits,
        fetching: Fetching,
        allow_private: bool,
        names: Names | None = None,
        tls: ssl.SSLContext | None = None,
        connections: int = CONNECTIONS,
        per_host: int = PER_HOST,
        keep_s: float = KEEP_S,
    ) -> None:
        """Create a fetcher. Pass `allow_private` only if both the node and the crawl allow private
        addresses."""
        self._limits = limits
        self._manner = Manner(fetching)
        self._proxy = fetching.proxy
        # Imported with the first connection that may speak it.
        self._http2 = fetching.http2 and find_spec("h2") is not None
        self._dialler = Dialler(
            allow_private=allow_private,
            connect_s=limits.connect_s,
            names=names,
            tls=tls,
            verify_tls=fetching.verify_tls,
            http2=self._http2,
        )
        self._pool = Pool(size=connections, per_host=per_host, keep_s=keep_s)
        shortest = min(limits.first_byte_s, limits.idle_s, limits.total_s)
        self._watch = TimeoutWatch(min(TICK_S, shortest / 4))
        self._kinds: dict[tuple[tuple[str, ...], int, bool, bool, bool], Wanted] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. No request may be under way."""
        self._pool.close()
        self._watch.close()
        await self._dialler.close()

    async def address_of(self, host: str) -> str | None:
        """Return the address to which requests to a host go; `None` if its name cannot be resolved,
        or if a proxy resolves it."""
        return None if self._proxy else await self._dialler.address_of(host)

    async def fetch(self, request: FetchRequest) -> Fetched:
        """Fetch one page. Raises nothing that a site, a proxy or the network could cause; raises
        `NotSent` when the request's own `may_go` returns false."""
        assert request.method != "POST" or not self._http2, "bodies go over HTTP/1.1 only"
        target = read_target(request.url)
        if target is None:
            return _refused(request, "this is no web address")
        problem = self._manner.problem or (request.headers and header_problem(request.headers))
        if problem:
            return _refused(request, problem)
        try:
            chosen = request.proxy or self._proxy
            proxy = read_proxy(chosen) if chosen else None
        except BadProxy as error:
            return _refused(request, str(error))
        data = self._encode(request, target, proxy)
        wanted = self._wanted(request)
        key = (target.origin, proxy)
        fresh = False
        while True:
            kept = await self._pool.take(key, fresh=fresh)
            began = time.monotonic()
            connection = kept
            back: Http1Connection | None = None
            try:
                if connection is None:
                    connection = await self._connect(target, proxy)
                if request.may_go is not None and not request.may_go():
                    raise NotSent(request.url)
                ends_at = began + self._limits.total_s
                answer = await self._ask(connection, request, target, data, wanted, ends_at)
                back = connection if answer.reusable else None
            except AddressRefused as error:
                return _refused(request, error.reason)
            except NoConnection as error:
                return Fetched(
                    url=request.url,
                    outcome=error.outcome,
                    reason=str(error),
                    address=error.address,
                    elapsed_s=time.monotonic() - began,
                )
            except BaseException:
                if connection is not None:
                    connection.close()
                raise
            finally:
                self._pool.give(key, back)
            if kept is None or fresh or answer.wire_bytes or answer.outcome is Outcome.TIMEOUT:
                return _fetched(request, answer, connection, began)
            fresh = True

    async def _connect(self, target: Target, proxy: Proxy | None) -> Http1Connection:
        if self._http2 and target.origin.tls:
            from crawlfleet.crawl.fetch import http2

            choice, address = await self._dialler.open(
                target.origin, proxy, lambda: http2.Choice(self._limits, self._watch)
            )
            connection = choice.chosen
        else:
            connection, address = await self._dialler.open(
                target.origin, proxy, lambda: Http1Connection(self._limits, self._watch)
            )
        connection.address = address
        return connection

    def _ask(
        self,
        connection: Http1Connection,
        request: FetchRequest,
        target: Target,
        data: bytes,
        wanted: Wanted,
        ends_at: float,
    ) -> asyncio.Future[RawResponse]:
        """`data` is the request as HTTP/1.1 has it."""
        if not connection.speaks_http2:
            return connection.ask(data, wanted, ends_at)
        from crawlfleet.crawl.fetch.http2 import Http2Connection

        assert isinstance(connection, Http2Connection)
        authority = target.origin.authority
        fields = self._manner.fields(request.method, target.path, authority, request.headers)
        return connection.ask_for(fields, wanted, ends_at)

    def _encode(self, request: FetchRequest, target: Target, proxy: Proxy | None) -> bytes:
        origin, path, extra = target.origin, target.path, request.headers
        if proxy is not None and not origin.tls and proxy.scheme.startswith("http"):
            path = f"http://{origin.authority}{path}"
            if secret := proxy.authorization:
                extra = (*extra, ("Proxy-Authorization", secret))
        if request.method != "POST":
            return self._manner.encode(request.method, path, origin.authority, extra)
        extra = (*extra, ("Content-Length", str(len(request.body))))
        head = self._manner.encode(request.method, path, origin.authority, extra)
        return head + request.body

    def _wanted(self, request: FetchRequest) -> Wanted:
        """Return the limits for the response; most requests of a crawl share one object."""
        conditional = bool(request.headers) and any(
            name.lower() in CONDITIONS for name, _ in request.headers
        )
        is_head = request.method == "HEAD"
        kind = (request.content_types, request.max_body_bytes, is_head, conditional, request.cut)
        wanted = self._kinds.get(kind)
        if wanted is None:
            if len(self._kinds) > 100:
                self._kinds.clear()
            wanted = self._kinds[kind] = Wanted(
                takes=_Taste(request.content_types),
                max_body_bytes=request.max_body_bytes,
                head=is_head,
                conditional=conditional,
                cut=request.cut,
            )
        return wanted


def _refused(request: FetchRequest, reason: str) -> Fetched:
    return Fetched(url=request.url, outcome=Outcome.REFUSED, reason=reason)


def _fetched(
    request: FetchRequest, answer: RawResponse, connection: Http1Connection, began: float
) -> Fetched:
    outcome, reason = answer.outcome, answer.reason
    if outcome is Outcome.OK and answer.body:
        kind = answer.content_type
        if is_html(kind) and is_binary(answer.body, kind):
            outcome, reason = Outcome.BAD_CONTENT, "it says HTML, and is binary"
    return Fetched(
        url=request.url,
        outcome=outcome,
        status=answer.status,
        headers=tuple(answer.headers),
        body=answer.body,
        wire_bytes=answer.wire_bytes,
        reason=reason,
        address=connection.address,
        sent_s=max(0.0, connection.sent_at - began),
        first_byte_s=max(0.0, answer.first_at - began) if answer.first_at else 0.0,
        elapsed_s=time.monotonic() - began,
    )
