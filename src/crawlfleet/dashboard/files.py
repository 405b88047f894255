"""The built files in memory: their types, cache times and compressed forms."""

import asyncio
import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import brotli

TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
UNPACKED: Final = frozenset({".png", ".woff2", ".ico"})
"""Packed already, or too small to gain."""
INDEX: Final = "index.html"
NAMED_BY_CONTENT: Final = "assets/"
"""Files there carry a hash in their names: another content is another file."""
BROTLI_QUALITY: Final = 6
GZIP_LEVEL: Final = 6


class Packed(NamedTuple):
    """A file as it is sent."""

    content: bytes
    encoding: str
    """Empty when it is sent as it is."""


class File:
    """One built file."""

    def __init__(self, name: str, content: bytes) -> None:
        suffix = Path(name).suffix
        self.media_type = TYPES[suffix]
        self.etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        self.is_index = name == INDEX
        self.lasts_for_ever = name.startswith(NAMED_BY_CONTENT)
        self._packs = suffix not in UNPACKED
        self._forms = {"": content}

    async def packed(self, accepted: str) -> Packed:
        """Return the smallest encoding that the browser accepts, compressed on first use."""
        takes = {each.partition(";")[0].strip() for each in accepted.lower().split(",")}
        encoding = ""
        if self._packs:
            encoding = "br" if "br" in takes else "gzip" if "gzip" in takes else ""
        if encoding not in self._forms:
            self._forms[encoding] = await asyncio.to_thread(_pack, self._forms[""], encoding)
        return Packed(self._forms[encoding], encoding)


def _pack(content: bytes, encoding: str) -> bytes:
    if encoding == "br":
        packed: bytes = brotli.compress(content, quality=BROTLI_QUALITY)
        return packed
    return gzip.compress(content, GZIP_LEVEL, mtime=0)


def read_files(folder: Path) -> Iterator[tuple[str, File]]:
    """Yield all files of a build by their names, which are paths within it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in TYPES:
            name = path.relative_to(folder).as_posix()
            yield name, File(name, path.read_bytes())
