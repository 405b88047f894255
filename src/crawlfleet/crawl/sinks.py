"""Which sink a place belongs to."""

from pathlib import PurePath
from typing import Final

import msgspec

from crawlfleet import plugins
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.crawl import SinkSpec
from crawlfleet.ports.sink import Sink

ENDINGS: Final = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".warc": "warc"}
COMPRESSED: Final = {".gz": "gzip", ".zst": "zstd"}
TABLES: Final = ("sqlite://", "postgresql://", "postgres://")


def open_sink(spec: SinkSpec) -> Sink:
    """The sink for a place; raises `InvalidRequest` when it cannot be told which one."""
    spec = completed(spec)
    sink: Sink = plugins.load_one(plugins.SINKS, spec.format or "")(spec)
    return sink


def completed(spec: SinkSpec) -> SinkSpec:
    """The specification with what follows from the place's name."""
    if spec.url.startswith(TABLES):
        return msgspec.structs.replace(spec, format=spec.format or "table")
    path = PurePath(spec.url.removeprefix("file://"))
    compress, suffix = spec.compress, path.suffix.lower()
    if suffix in COMPRESSED:
        compress = compress or COMPRESSED[suffix]  # type: ignore[assignment]
        suffix = PurePath(path.stem).suffix.lower()
    format = spec.format or ENDINGS.get(suffix)
    if format is None:
        raise InvalidRequest(
            [
                FieldProblem(
                    field="output",
                    message=f"does not tell its format by its ending {suffix or 'none'!r}",
                    remedy=f"end it in one of {', '.join(ENDINGS)}, or name a format",
                    value=spec.url,
                )
            ]
        )
    return msgspec.structs.replace(spec, url=str(path), format=format, compress=compress)
