"""One item a line, as JSON."""

from collections.abc import Sequence

import msgspec

from crawlfleet.adapters.sinks.file import FileSink, file_sink
from crawlfleet.model.crawl.parameters import SinkSpec
from crawlfleet.ports.sink import PageRecord


def from_spec(spec: SinkSpec) -> FileSink:
    """The sink of a crawl's specification."""
    return file_sink(spec, JsonLines(kinds=spec.kinds))


class JsonLines:
    """Implements `crawlfleet.adapters.sinks.file.PageFormat`: the fields as they are, with `kind`
    before them where `kinds` are wanted."""

    wants_bodies = False

    def __init__(self, *, kinds: bool = False) -> None:
        self._kinds = kinds
        self._encoder = msgspec.json.Encoder()

    def head(self, name: str) -> bytes:
        return b""

    def encode(self, pages: Sequence[PageRecord]) -> tuple[list[bytes], int]:
        if self._kinds:
            rows = [{"kind": item.kind, **item.fields} for page in pages for item in page.items]
        else:
            rows = [item.fields for page in pages for item in page.items]  # type: ignore[misc]
        return [self._encoder.encode_lines(rows)] if rows else [], len(rows)
