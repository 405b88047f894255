"""Turns the response to a visit into its outcome: a page with links and items, a redirect, a retry,
or a final failure."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from crawlfleet.core.politeness import retry as refetch
from crawlfleet.core.urls.scope import NOT_OF_THE_WEB, ScopeRefusal
from crawlfleet.crawl.extract.links import PLAIN
from crawlfleet.crawl.extract.page_reader import Reader, decoded, read_failed
from crawlfleet.crawl.extract.sitemaps import MAX_ADDRESSES
from crawlfleet.crawl.fetch.messages import Fetched
from crawlfleet.crawl.links import MAX_LINKS, Links
from crawlfleet.model.crawl.frontier import Link, UrlRetry, Visit, WaitingUrl
from crawlfleet.model.crawl.parameters import FETCHED, CrawlParameters, Outcome, Scope
from crawlfleet.model.crawl.reading import LinkKind, LinkTraits, Reading
from crawlfleet.ports.sink import PageRecord
from crawlfleet.telemetry import Component, logger

log = logger(Component.WORKER)
LONGEST_NOTE: Final = 300
LONGEST_VALIDATOR: Final = 500
MAX_LED: Final = 1000


class PageOutcome(NamedTuple):
    """The outcome of one visit. Exactly one of `visit` and `retry` is set."""

    visit: Visit | None
    retry: UrlRetry | None = None
    page: PageRecord | None = None
    """The record that the sinks receive."""
    widened: str | None = None
    """Redirect target of a seed outside the scope. It belongs to the crawl from now on."""
    through: WaitingUrl | None = None
    """The original URL to fetch again: it redirected to this one, and this one redirected back
    after setting cookies (a consent page, for instance). Its content is recorded as the result of
    this visit."""


def _unwanted_kinds(scope: Scope) -> frozenset[LinkKind]:
    unwanted = set()
    if not scope.feeds:
        unwanted.add(LinkKind.FEED)
    if not scope.sitemaps:
        unwanted.add(LinkKind.SITEMAP)
    return frozenset(unwanted)


def _said_by_headers(fetched: Fetched) -> tuple[str, list[str]]:
    """Return the content type and the values of `X-Robots-Tag`."""
    content_type, tags = "", []
    for name, value in fetched.headers:
        if name == "content-type":
            content_type = value
        elif name == "x-robots-tag":
            tags.append(value)
    return content_type, tags


class OutcomeReader:
    """Turns responses into outcomes, by the rules of one crawl."""

    def __init__(
        self,
        parameters: CrawlParameters,
        *,
        links: Links,
        reader: Reader,
        chance: Callable[[], float],
        keep_bodies: bool,
        revisiting: bool = False,
    ) -> None:
        """`chance` spreads retries; `keep_bodies` is whether a sink wants them; `revisiting` is
        whether pages may have been visited in an earlier round."""
        self._politeness = parameters.politeness
        self._max_redirects = parameters.limits.max_redirects
        self._obey_tags = parameters.scope.obey_meta_robots
        self._heed_nofollow = not parameters.scope.follow_nofollow
        self._unwanted_kinds = _unwanted_kinds(parameters.scope)
        self._links = links
        self._reader = reader
        self._chance = chance
        self._keep_bodies = keep_bodies
        self._revisiting = revisiting
        self._conditional = parameters.fetching.conditional
        self._led: OrderedDict[int, tuple[WaitingUrl, bool]] = OrderedDict()
        """Recent redirects by the id of their target: the URL that was redirected, and whether the
        response set new cookies."""

    def judge(
        self,
        waiting: WaitingUrl,
        fetched: Fetched,
        now: float,
        *,
        retry_after_s: float | None = None,
        new_cookies: bool = False,
        lost: bool = False,
        reading: Reading | None = None,
    ) -> PageOutcome:
        """Return what the response means for the URL. `new_cookies`: the response set some. `lost`:
        the crawl no longer waits for the host. `reading`: the content of the page, if it was read
        before."""
        judged = self._judge(waiting, fetched, now, retry_after_s, new_cookies, lost, reading)
        if not self._revisiting or judged.visit is None or judged.page is not None:
            return judged
        if not refetch.supersedes(judged.visit.outcome):
            return judged
        return judged._replace(page=PageRecord(id=waiting.id, url=waiting.url, at=now, gone=True))

    def _judge(
        self,
        waiting: WaitingUrl,
        fetched: Fetched,
        now: float,
        retry_after_s: float | None,
        new_cookies: bool,
        lost: bool,
        reading: Reading | None,
    ) -> PageOutcome:
        outcome = fetched.outcome
        if outcome is Outcome.OK:
            try:
                return self._with_reading(waiting, fetched, now, reading or self._read(fetched))
            except Exception as error:
                # One page must not end the crawl, now and each time that it is resumed.
                log.exception("a page could not be read", url=waiting.url)
                return self._end(waiting, Outcome.UNREADABLE, fetched, now, read_failed(error))
        if outcome is Outcome.REDIRECT:
            return self._redirected(waiting, fetched, now, new_cookies)
        if outcome is Outcome.NOT_MODIFIED:
            kept = self._validator(fetched) or waiting.validator
            return PageOutcome(Visit(waiting.id, outcome, fetched.status, now, validator=kept))
        verdict = refetch.decide(
            outcome,
            fetched.status,
            waiting.attempt,
            self._politeness,
            retry_after_s=retry_after_s,
            now=now,
            chance=self._chance(),
        )
        note = fetched.reason[:LONGEST_NOTE]
        if isinstance(verdict, refetch.RetryUrl) and not lost:
            return PageOutcome(
                None, UrlRetry(waiting.id, outcome, fetched.status, now, verdict.due, note)
            )
        return PageOutcome(Visit(waiting.id, outcome, fetched.status, now, counts=False, note=note))

    def reads_at_once(self, fetched: Fetched) -> bool:
        """Return whether `judge` may read the page itself. If not, call `read_within_limit`
        first."""
        return fetched.outcome is not Outcome.OK or self._reader.reads_at_once(fetched.body)

    async def read_within_limit(self, fetched: Fetched) -> Reading:
        """Read a page that may take long."""
        content_type, tags = _said_by_headers(fetched)
        return await self._reader.read_within_limit(
            fetched.body,
            fetched.url,
            status=fetched.status,
            content_type=content_type,
            robots_tags=tags,
            headers=fetched.headers,
        )

    async def close(self) -> None:
        """Nothing more will be read."""
        await self._reader.close()

    def _read(self, fetched: Fetched) -> Reading:
        content_type, tags = _said_by_headers(fetched)
        text = decoded(fetched.body, content_type)
        return self._reader.read(
            text.utf8,
            fetched.url,
            charset=text.charset,
            status=fetched.status,
            content_type=content_type,
            robots_tags=tags,
            headers=fetched.headers,
        )

    def _with_reading(
        self, waiting: WaitingUrl, fetched: Fetched, now: float, reading: Reading
    ) -> PageOutcome:
        if reading.outcome is Outcome.UNREADABLE:
            log.warning("a page could not be read", url=waiting.url, reason=reading.note)
            return self._end(waiting, Outcome.UNREADABLE, fetched, now, reading.note)
        obey = self._obey_tags
        links: Sequence[Link] = ()
        note = reading.note
        if reading.links and not (obey and reading.robots.nofollow):
            followed = [
                href
                for href, found in reading.links.items()
                if found is PLAIN or not self._passes_over(found)
            ]
            found_here = self._links.resolve(reading.base, followed)
            most = MAX_ADDRESSES if reading.is_listing else MAX_LINKS
            links = self._links.first(found_here, most)
            if len(links) < len(found_here):
                note = note or f"only the first {len(links):,} of its links are followed"
        page = None
        if not (obey and reading.robots.noindex):
            page = self._record(waiting, fetched, now, reading.items)
        visit = Visit(
            waiting.id,
            reading.outcome,
            fetched.status,
            now,
            links,
            counts=reading.outcome in FETCHED,
            validator=self._validator(fetched) if reading.outcome is Outcome.OK else None,
            note=note[:LONGEST_NOTE],
        )
        return PageOutcome(visit, page=page)

    def _validator(self, fetched: Fetched) -> str | None:
        """Return the validator for the next conditional request: the entity tag, or else the
        date."""
        dated = None
        if self._conditional:
            for name, value in fetched.headers:
                if name == "etag" and '"' in value and len(value) <= LONGEST_VALIDATOR:
                    return value
                if name == "last-modified" and '"' not in value:
                    dated = value[:LONGEST_VALIDATOR]
        return dated

    def _passes_over(self, found: LinkTraits) -> bool:
        return found.kind in self._unwanted_kinds or (found.nofollow and self._heed_nofollow)

    def _record(
        self, waiting: WaitingUrl, fetched: Fetched, now: float, items: Sequence[Any]
    ) -> PageRecord | None:
        if self._keep_bodies:
            return PageRecord(
                id=waiting.id,
                url=waiting.url,
                at=now,
                items=items,
                status=fetched.status,
                headers=fetched.headers,
                body=fetched.body,
                address=fetched.address,
            )
        return PageRecord(id=waiting.id, url=waiting.url, at=now, items=items) if items else None

    def _redirected(
        self, waiting: WaitingUrl, fetched: Fetched, now: float, new_cookies: bool
    ) -> PageOutcome:
        location = fetched.header("location") or ""
        target = self._links.follow(waiting.url, location)
        widened = None
        if isinstance(target, ScopeRefusal) and waiting.depth == 0:
            # Where a seed leads belongs to the crawl: `shop.example` to `www.shop.example`.
            widened = self._links.widen(waiting.url, location)
            target = self._links.follow(waiting.url, location)
        if isinstance(target, ScopeRefusal):
            # Out of the scope is where many lead; out of the web, only those who try us.
            outcome = Outcome.REFUSED if target is NOT_OF_THE_WEB else Outcome.REDIRECT
            return self._end(waiting, outcome, fetched, now, f"{location} {target.message}")
        if waiting.hops >= self._max_redirects:
            note = f"{waiting.hops + 1} redirects one after another"
            return self._end(waiting, Outcome.REDIRECT_LOOP, fetched, now, note)
        if target.id == waiting.id:
            if new_cookies and waiting.attempt == 1:
                note = "leads to itself, with cookies to come back with"
                return PageOutcome(
                    None, UrlRetry(waiting.id, Outcome.REDIRECT, fetched.status, now, now, note)
                )
            note = "leads to itself"
            return self._end(waiting, Outcome.REDIRECT_LOOP, fetched, now, note)
        before, cookies_before = self._led.pop(waiting.id, (None, False))
        through = None
        if before is None or target.id != before.id:
            self._led[target.id] = waiting, new_cookies
            if len(self._led) > MAX_LED:
                self._led.popitem(last=False)
        elif new_cookies or cookies_before:
            through = waiting._replace(url=before.url)
        return PageOutcome(
            Visit(
                waiting.id,
                Outcome.REDIRECT,
                fetched.status,
                now,
                redirect=target,
                counts=False,
                note=f"to {target.url}"[:LONGEST_NOTE],
            ),
            widened=widened,
            through=through,
        )

    def _end(
        self, waiting: WaitingUrl, outcome: Outcome, fetched: Fetched, now: float, note: str
    ) -> PageOutcome:
        visit = Visit(
            waiting.id, outcome, fetched.status, now, counts=False, note=note[:LONGEST_NOTE]
        )
        return PageOutcome(visit)


def wanted_types(parameters: CrawlParameters) -> tuple[str, ...]:
    """The content types that a crawl reads."""
    scope, wanted = parameters.scope, parameters.limits.content_types
    if scope.sitemaps or scope.feeds:
        wanted += ("application/xml", "text/xml", "application/*+xml", "application/gzip")
    return wanted


def disallowed(waiting: WaitingUrl, reason: str, now: float) -> Visit:
    """The end of a URL that robots.txt keeps us from."""
    return Visit(waiting.id, Outcome.ROBOTS, 0, now, counts=False, note=reason)


def asked_to_wait(fetched: Fetched, now: float) -> float | None:
    """Return the seconds of the pause that the site asked for."""
    asked = fetched.header("retry-after") if fetched.status >= 300 else None
    return refetch.retry_after_s(asked, now) if asked else None
