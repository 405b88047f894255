"""Items as rows of a table, in SQLite or PostgreSQL.

A row is an item: which crawl and page it is from, and its fields as JSON. Another table,
`crawlfleet_output`, says for each crawl which stage was the last, and who may write: opening a
crawl again raises its `fence`, and a process with an older one can write no more. A view beside it
has a column for each field (`table_view`).
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from crawlfleet.errors import SinkUnusable
from crawlfleet.ports.sink import PageRecord

LONGEST_NAME: Final = 63
"""Bytes: PostgreSQL cuts longer names, and two of them may then be one."""
CRAWLS: Final = "crawlfleet_output"
COLUMNS: Final = ("crawl", "page", "position", "sequence", "url", "at", "kind", "fields")


class TableReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The output that counts: the rows of a crawl up to a sequence number."""

    crawl: str
    table: str
    sequence: int
    items: int


class ItemRow(NamedTuple):
    """A row of the table."""

    crawl: str
    page: int
    position: int
    sequence: int
    url: str
    at: float
    kind: str
    fields: str


def rows_of(pages: Sequence[PageRecord], crawl: str, sequence: int) -> list[ItemRow]:
    """The items of the pages; of a page that comes twice, the later ones."""
    encode = msgspec.json.Encoder().encode
    return [
        ItemRow(
            crawl,
            page.id,
            position,
            sequence,
            page.url,
            page.at,
            item.kind,
            encode(item.fields).decode(),
        )
        for page in {page.id: page for page in pages}.values()
        for position, item in enumerate(page.items)
    ]


def read_receipt(receipt: Any, table: str, place: str) -> TableReceipt:
    """Raises `SinkUnusable` when it is not one of this table."""
    try:
        read = msgspec.convert(receipt, TableReceipt)
    except msgspec.ValidationError as error:
        raise SinkUnusable(
            f"what was committed for {place} is not the receipt of a table ({error}); "
            "name the same kind of output as before, or start afresh"
        ) from error
    if read.table != table:
        raise SinkUnusable(
            f"what was committed is in the table {read.table} of {place}, not in {table}; "
            "name the same table as before, or start afresh"
        )
    return read


def check_sequence(found: int | None, receipt: TableReceipt, place: str) -> None:
    """Raise `SinkUnusable` unless the database has all rows of a receipt."""
    if found is None or found < receipt.sequence:
        known = "nothing of this crawl" if found is None else f"{found} stages of this crawl"
        raise SinkUnusable(
            f"{place} has {known} and should have {receipt.sequence}: it is another database, or "
            "was set back; name the right one, or start afresh"
        )


def fenced_off(place: str, table: str) -> SinkUnusable:
    return SinkUnusable(
        f"another process goes on with this crawl into the table {table} of {place}; "
        "this one stops, and wrote nothing more"
    )


def unfit_table(place: str, table: str, why: str) -> SinkUnusable:
    return SinkUnusable(
        f"the table {table} of {place} has other columns than output needs ({why}); "
        "name another one by ?table="
    )


def shown(url: str) -> str:
    """The address in a URL, without what may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
