"""Pages that are at hand: in files, in WARC archives, or one request away."""

import asyncio
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final

import aiohttp
import msgspec
from charset_normalizer import from_bytes
from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from crawlfleet import __version__
from crawlfleet.cli.arguments import STANDARD_INPUT
from crawlfleet.crawl.dial import AddressRefused, NetworkTrouble, guarded_connector
from crawlfleet.errors import CrawlfleetError

MOST_BYTES: Final = 50_000_000
"""Of one page."""
TIMEOUT_S: Final = 60.0
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META_CHARSET: Final = re.compile(r"<meta[^>]+charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_WEB: Final = ("http://", "https://")
_READ: Final = (
    "text/",
    "application/xhtml",
    "application/json",
    "application/xml",
    "+json",
    "+xml",
)


class Unreadable(CrawlfleetError):
    """A file that cannot be read; the message says why."""


class KeptPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page, as UTF-8."""

    url: str
    kind: str
    """Its content type; empty when nobody said."""
    body: bytes


def find_pages(
    sources: Iterable[str], *, url: str | None, allow_private: bool, limit: int | None
) -> Iterator[KeptPage]:
    """All pages of the sources, one after another, `limit` at most.

    `url` is the address of pages that are in files. Raises `Unreadable` or `NetworkTrouble`.
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
        yield asyncio.run(_fetch(source, allow_private))
    elif source == STANDARD_INPUT:
        yield _page(sys.stdin.buffer.read(MOST_BYTES), url or "file:///dev/stdin", "")
    else:
        path = Path(source).expanduser()
        try:
            with path.open("rb") as file:
                if _is_archive(path, file):
                    yield from _archived(file, source)
                else:
                    address = url or path.absolute().as_uri()
                    yield _page(file.read(MOST_BYTES), address, "")
        except OSError as error:
            raise Unreadable(f"{source}: {error.strerror or error}") from None


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
                body = record.content_stream().read(MOST_BYTES)
                yield _page(body, record.rec_headers.get_header("WARC-Target-URI") or "", kind)
    except (ArchiveLoadFailed, EOFError, ValueError) as error:
        raise Unreadable(f"{name} is no readable WARC archive: {error}") from None


async def _fetch(url: str, allow_private: bool) -> KeptPage:
    """One request, with redirects; whatever its status, an answer is a page."""
    try:
        async with (
            aiohttp.ClientSession(
                connector=guarded_connector(allow_private=allow_private),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": f"crawlfleet/{__version__}"},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            ) as session,
            session.get(url) as response,
        ):
            body = await _read(response)
            return _page(body, str(response.url), response.headers.get("Content-Type", ""))
    except AddressRefused as error:
        reason = str(error).partition(";")[0]
        raise Unreadable(f"{url}: {reason}; if you mean it, add --allow-private") from None
    except TimeoutError:
        raise NetworkTrouble(f"{url}: no answer within {TIMEOUT_S:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise NetworkTrouble(f"{url}: {error or type(error).__name__}") from None


async def _read(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        content += chunk
        if len(content) >= MOST_BYTES:
            break
    return bytes(content[:MOST_BYTES])


def _page(body: bytes, url: str, content_type: str) -> KeptPage:
    kind = content_type.partition(";")[0].strip().lower()
    return KeptPage(url=url, kind=kind, body=_utf8(body, content_type))


def _utf8(body: bytes, content_type: str) -> bytes:
    """The body in UTF-8: by what is said of it, by what it says, or by its looks."""
    declared = _CHARSET.search(content_type) or _META_CHARSET.search(body[:4096].decode("latin-1"))
    if not declared or declared[1].lower().replace("-", "") == "utf8":
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            declared = None
        else:
            return body
    try:
        if declared:
            return body.decode(declared[1], "replace").encode()
    except LookupError:
        pass
    best = from_bytes(body[:65_536]).best()
    return body.decode(best.encoding if best else "utf-8", "replace").encode()
