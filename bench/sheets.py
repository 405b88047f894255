"""Tables of figures, for the terminal and for the page."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table


class Sheet(NamedTuple):
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def show(sheets: Iterable[Sheet], console: Console) -> None:
    for sheet in sheets:
        table = Table(*sheet.head, title=sheet.title)
        for column in table.columns[1:]:
            column.justify = "right"
        for row in sheet.rows:
            table.add_row(*row)
        console.print(table)


def as_markdown(sheet: Sheet) -> str:
    lines = [sheet.head, ["---"] + ["---:"] * (len(sheet.head) - 1), *sheet.rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"**{sheet.title}**\n\n{body}\n"
