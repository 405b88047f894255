"""`extract`: selectors on one page, to see what they catch before a crawl is made of them.

The control plane never reads pages: whoever tries selectors in the dashboard submits one of these.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Self

import msgspec

from crawlfleet.crawl.extract.try_selectors import try_selectors
from crawlfleet.crawl.fetch.charset import UTF8, Text, to_utf8
from crawlfleet.errors import CrawlfleetError, FieldProblem, InvalidRequest
from crawlfleet.executors.http_fetch import HttpFetch, HttpFetchParameters, address_problems
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Context

MAX_HTML: Final = 2_000_000
MAX_BYTES: Final = 900_000
"""Maximum size of the items as JSON; leaves room for the rest in the 1 MB that a result may
have."""
NOWHERE: Final = "https://page.invalid/"
"""Base URL of a page that was sent as `html` without a `base_url`."""


class BadTrial(CrawlfleetError):
    """Raised when the parameters name no page, or nothing to extract."""

    error_class: ClassVar = ErrorClass.INVALID


class ExtractParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selectors and one page: its `url`, or its `html`."""

    url: Annotated[str, msgspec.Meta(examples=["https://shop.example/"])] | None = None
    """The page is fetched from here, once."""
    html: Annotated[str, msgspec.Meta(max_length=MAX_HTML)] | None = None
    """The page itself; may be JSON as well."""
    base_url: Annotated[str, msgspec.Meta(examples=["https://shop.example/"])] | None = None
    """Address of the page in `html`, for its relative links."""
    selectors: dict[str, Any] = {}
    """Fields to extract: names, each with a selector for its place on the page."""
    item: Annotated[str, msgspec.Meta(max_length=2000, examples=["div.product"])] | None = None
    """Selector of the items: each match is one item, and `selectors` are its fields."""
    infer_item: bool = True
    """If `item` is not set, use a key of `selectors` that contains the others as the item;
    otherwise the page is the item."""
    structured: bool = False
    """Extract JSON-LD, OpenGraph and microdata, too."""
    max_items: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 200
    """Maximum number of items in the result; `count` includes the others."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=300)] = 30.0
    """Timeout in seconds for fetching the page."""


class Extract:
    Parameters: ClassVar[type[msgspec.Struct]] = ExtractParameters

    def __init__(self, *, allow_private: bool) -> None:
        self._fetch = HttpFetch(allow_private=allow_private)

    @classmethod
    def from_settings(cls, settings: WorkerSettings) -> Self:
        return cls(allow_private=settings.allow_private)

    @staticmethod
    def problems(parameters: ExtractParameters) -> Iterator[FieldProblem]:
        """Yield the problems of the page's address."""
        if parameters.url is not None:
            yield from address_problems(parameters.url)

    async def run(self, parameters: ExtractParameters, context: Context) -> dict[str, Any]:
        if (parameters.url is None) is (parameters.html is None):
            raise BadTrial("send a `url` to fetch, or the `html` itself: one of the two")
        if not (parameters.selectors or parameters.item or parameters.structured):
            raise BadTrial("there is nothing to look for; name `selectors`, or set `structured`")
        url, status, kind, text = await self._page(parameters)
        try:
            catch = try_selectors(
                text,
                url,
                kind,
                selectors=parameters.selectors,
                item=parameters.item,
                infer_item=parameters.infer_item,
                structured=parameters.structured,
            )
        except InvalidRequest as error:
            wrong = (f"`{each.field}` {each.message}; {each.remedy}" for each in error.problems)
            raise BadTrial(", and ".join(wrong)) from error
        items = [{"kind": each.kind, "fields": each.fields} for each in catch.items]
        shown = _fitting(items[: parameters.max_items])
        return {
            "url": url,
            "status": status,
            "bytes": len(text.utf8),
            "caught": catch.caught,
            "items": shown,
            "count": len(items),
        }

    async def _page(self, parameters: ExtractParameters) -> tuple[str, int | None, str, Text]:
        """Return the page's address, HTTP status, content type and text. A page sent as `html` has
        no status."""
        if parameters.html is not None:
            body = parameters.html.encode("utf-8", "replace")
            return parameters.base_url or NOWHERE, None, "", Text(body, UTF8)
        wanted = HttpFetchParameters(
            url=parameters.url or "", timeout_s=parameters.timeout_s, max_bytes=MAX_HTML
        )
        page = await self._fetch.visit(wanted)
        content_type = page.header("content-type") or ""
        text = to_utf8(page.body, content_type)
        kind = content_type.partition(";")[0].strip().lower()
        return page.url, page.status, kind, text


def _fitting(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return as many of the items as a result can hold."""
    size = 0
    for number, item in enumerate(items):
        size += len(msgspec.json.encode(item)) + 1
        if size > MAX_BYTES:
            return items[:number]
    return items
