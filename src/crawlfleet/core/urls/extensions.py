"""What kind of content the ending of a file name promises: a table.

Only endings that hardly ever belong to a page. Those that are not here may be anything and are
visited; the content type of the answer decides then.
"""

from collections.abc import Iterable
from typing import Final

_BY_TYPE: Final = {
    "image/": "bmp gif ico jpeg jpg jfif png svg svgz tif tiff webp avif heic heif psd ai eps raw",
    "audio/": "aac aif aiff flac m4a mid midi mp3 oga ogg opus ra wav wma",
    "video/": "3gp asf avi flv m4v mkv mov mp4 mpeg mpg ogv qt rm swf vob webm wmv ts m3u8",
    "font/": "eot otf ttf woff woff2",
    "text/css": "css less scss",
    "text/javascript": "js mjs cjs map",
    "text/calendar": "ics",
    "text/csv": "csv tsv",
    "application/pdf": "pdf",
    "application/msword": "doc docx dot dotx odt rtf pages",
    "application/vnd.ms-excel": "xls xlsx xlsm ods numbers",
    "application/vnd.ms-powerpoint": "ppt pptx pps ppsx odp key",
    "application/epub+zip": "epub mobi azw3 djvu",
    "application/zip": "zip tar gz tgz bz2 tbz xz txz 7z rar zst lz lzma jar war cab",
    "application/octet-stream": (
        "exe msi dmg pkg deb rpm apk ipa iso img bin dll so dylib class pyc whl egg crx xpi"
        " torrent db sqlite mdb bak dat parquet"
    ),
    "application/wasm": "wasm",
}


def unwanted_endings(content_types: Iterable[str]) -> frozenset[str]:
    """The endings of files that a crawl of these content types has no use for."""
    wanted = [wanted.partition(";")[0].strip().lower() for wanted in content_types]
    if "*/*" in wanted:
        return frozenset()
    return frozenset(
        ending
        for kind, endings in _BY_TYPE.items()
        if not any(_takes(one, kind) for one in wanted)
        for ending in endings.split()
    )


def _takes(wanted: str, kind: str) -> bool:
    if kind.endswith("/"):
        return wanted.startswith(kind)
    return wanted == kind or wanted == f"{kind.partition('/')[0]}/*"
