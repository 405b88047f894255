"""Pages that are at hand: in files, in WARC archives, or one request away."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final

import msgspec
from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from crawlfleet.cli.shell.arguments import STANDARD_INPUT
from crawlfleet.cli.shell.loop import run
from crawlfleet.core.urls.canonical import Canonicaliser
from crawlfleet.crawl.fetch.charset import to_utf8
from crawlfleet.crawl.fetch.dial import NetworkTrouble
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import FetchRequest
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.crawl.parameters import Fetching, Limits, Outcome, Urls

MAX_BYTES: Final = 50_000_000
"""Maximum size of one page."""
TIMEOUT_S: Final = 60.0
_WEB: Final = ("http://", "https://")
_READ: Final = (
    "text/",
    "application/xhtml",
    "application/json",
    "application/xml",
    "+json",
    "+xml",
)


class UnreadableSource(CrawlfleetError):
    """A file that cannot be read; the message says why."""


class KeptPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page, converted to UTF-8."""

    url: str
    kind: str
    """Content type of the page; empty when its source named none."""
    body: bytes
    charset: str
    """Charset of the page as it was received."""


def find_pages(
    sources: Iterable[str], *, url: str | None, allow_private: bool, limit: int | None
) -> Iterator[KeptPage]:
    """Yield all pages of the sources, one after another, `limit` at most.

    `url` is the address of pages that are in files. Raises `UnreadableSource` or `NetworkTrouble`.
    """
    left = limit
    for source in sources:
        for page in _pages_of(source, url, allow_private):
            if left is not None and left <= 0:
                return
            yield page
            if left is not None:
                left -= 1


def _pages_of(source: str, url: str | None, allow_private: bool) -> Iterator[KeptPage]:
    if source.lower().startswith(_WEB):
        yield run(_fetch(source, allow_private))
    elif source == STANDARD_INPUT:
        yield _page(sys.stdin.buffer.read(MAX_BYTES), url or "file:///dev/stdin", "")
    else:
        path = Path(source).expanduser()
        try:
            with path.open("rb") as file:
                if _is_archive(path, file):
                    yield from _archived(file, source)
                else:
                    address = url or path.absolute().as_uri()
                    yield _page(file.read(MAX_BYTES), address, "")
        except OSError as error:
            raise UnreadableSource(f"{source}: {error.strerror or error}") from None


def _is_archive(path: Path, file: IO[bytes]) -> bool:
    start = file.read(5)
    file.seek(0)
    return start == b"WARC/" or path.name.lower().endswith((".warc", ".warc.gz"))


def _archived(file: IO[bytes], name: str) -> Iterator[KeptPage]:
    """The answers of an archive that are text, with a good status."""
    try:
        for record in ArchiveIterator(file):
            headers = record.http_headers
            if record.rec_type != "response" or headers is None:
                continue
            kind = headers.get_header("Content-Type") or ""
            is_text = not kind or any(part in kind.lower() for part in _READ)
            if is_text and (headers.get_statuscode() or "200").startswith("2"):
                body = record.content_stream().read(MAX_BYTES)
                yield _page(body, record.rec_headers.get_header("WARC-Target-URI") or "", kind)
    except (ArchiveLoadFailed, EOFError, ValueError) as error:
        raise UnreadableSource(f"{name} is no readable WARC archive: {error}") from None


async def _fetch(url: str, allow_private: bool) -> KeptPage:
    """Fetch one page and follow its redirects; a response of any status is a page."""
    limits = Limits(max_body_bytes=MAX_BYTES, total_s=TIMEOUT_S)
    canonical = Canonicaliser(Urls(keep_tracking=True, sort_query=False, drop_session_ids=False))
    async with Fetcher(limits=limits, fetching=Fetching(), allow_private=allow_private) as fetcher:
        for _ in range(limits.max_redirects + 1):
            page = await fetcher.fetch(FetchRequest(url=url, max_body_bytes=MAX_BYTES, cut=True))
            target = canonical.join(url, page.header("location") or "")
            if page.outcome is not Outcome.REDIRECT or target is None:
                break
            url = target
    if page.outcome is Outcome.REFUSED:
        raise UnreadableSource(f"{url}: {page.reason}; if you mean it, add --allow-private")
    if not page.status:
        raise NetworkTrouble(f"{url}: {page.reason or page.outcome}")
    return _page(page.body, url, page.header("content-type") or "")


def _page(body: bytes, url: str, content_type: str) -> KeptPage:
    kind = content_type.partition(";")[0].strip().lower()
    text = to_utf8(body, content_type)
    return KeptPage(url=url, kind=kind, body=text.utf8, charset=text.charset)
