"""Output of commands: JSON for programs, tables for people.

On a terminal a table fits its width and states have colours. Elsewhere there are no colours and no
limit to the width, so that `grep`, `cut` and `awk` see whole ids. Texts that come from a fleet are
never taken for markup, and cannot steer the terminal.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from crawlfleet.errors import ConfigError

ENDLESS: Final = 100_000
LEAST_WIDTH: Final = 4
STYLES: Final = {
    "completed": "green",
    "processing": "cyan",
    "running": "cyan",
    "assigned": "blue",
    "pending": "yellow",
    "waiting": "yellow",
    "paused": "magenta",
    "failed": "red",
    "timeout": "red",
    "cancelled": "magenta",
    "lost": "red",
    "released": "magenta",
    "online": "green",
    "draining": "yellow",
    "maintenance": "yellow",
    "unresponsive": "red",
    "offline": "dim",
    "active": "green",
    "inactive": "dim",
    "closed": "dim",
    "high": "red",
    "medium": "yellow",
    "low": "dim",
    "critical": "red",
    "warning": "yellow",
    "healthy": "green",
    "degraded": "yellow",
    "unhealthy": "red",
    "unreachable": "red",
    "live": "green",
    "expired": "dim",
    "revoked": "red",
    "used_up": "dim",
    "over": "dim",
    "cancelling": "yellow",
    "started": "green",
    "queued": "yellow",
    "skipped": "magenta",
    "missed": "red",
    "refused": "red",
    "delivered": "green",
    "dead": "red",
    "full": "red",
    "firing": "red",
    "clearing": "yellow",
    "quiet": "green",
    "held": "yellow",
    "ok": "green",
    "met": "green",
    "broken": "red",
    "unknown": "dim",
    "drifted": "red",
    "unmeasured": "yellow",
    "accepted": "green",
    "rejected": "red",
}
"""The colour of each state of tasks, executions, nodes and keys."""
_SPANS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


class CommandOutput:
    """Shows the result of a command as JSON or as tables."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self._console = answer_console()

    def show(self, document: Any, draw: Callable[[], RenderableType]) -> None:
        """Write the document as JSON, or else the table that `draw` makes."""
        if self.json:
            encoded = msgspec.json.format(msgspec.json.encode(document), indent=2)
            typer.echo(encoded.decode())
        else:
            self._console.print(draw())

    def line(self, document: Any, drawn: Text) -> None:
        """Write one of many documents on a line of its own, at once."""
        if self.json:
            typer.echo(msgspec.json.encode(document).decode())
        else:
            self._console.print(drawn, soft_wrap=True)
        sys.stdout.flush()

    def remark(self, text: str) -> None:
        """Write a remark for people to standard error; nothing when the output is JSON."""
        if not self.json:
            message_console().print(printable(text), style="dim")


def answer_console() -> Console:
    """Return the console for answers to people; `ConfigError` without a standard output."""
    if sys.stdout is None:
        raise ConfigError(
            "there is no standard output to answer to; where it is not wanted, send it to /dev/null"
        )
    return _console(sys.stdout.isatty(), stderr=False)


def message_console() -> Console:
    """Return the console for errors, remarks and progress."""
    return _console(sys.stderr is not None and sys.stderr.isatty(), stderr=True)


def _console(terminal: bool, *, stderr: bool) -> Console:
    return Console(
        width=None if terminal else ENDLESS,
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
    )


def table(
    columns: Sequence[str],
    rows: Iterable[Iterable[RenderableType]],
    *,
    flexible: Collection[str] = (),
) -> Table:
    """Rows under column names. Where there is no room, `flexible` columns and the last give in."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        gives_in = name in flexible or name == columns[-1]
        made.add_column(
            name, no_wrap=not gives_in, overflow="ellipsis", min_width=LEAST_WIDTH * gives_in
        )
    for row in rows:
        made.add_row(*row)
    return made


def facts(pairs: Iterable[tuple[str, RenderableType | None]]) -> Table:
    """Draw names and values, one a line; `None` values are left out."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            made.add_row(name, value)
    return made


def cell(value: object, style: str = "", *, lines: bool = False) -> Text:
    """A value as text, over several `lines` if it may; nothing is a dash."""
    text = "-" if value is None or value == "" else printable(str(value), lines=lines)
    return Text(text, style=style)


def state(name: str) -> Text:
    """A state in its colour."""
    return cell(name, STYLES.get(name, ""))


def heading(text: str) -> Text:
    """Draw the title of the next part."""
    return Text(f"\n{text}", style="bold")


def tree(value: Any) -> Text:
    """A JSON value over several lines."""
    return Text(printable(msgspec.json.format(msgspec.json.encode(value)).decode(), lines=True))


def moment(at: datetime | None) -> Text:
    """An instant in local time, to the millisecond."""
    if at is None:
        return cell(None)
    return Text(at.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3])


def since(at: datetime | None) -> Text:
    """Return the time since an instant."""
    if at is None:
        return cell(None)
    return Text(span((datetime.now(UTC) - at).total_seconds()))


def span(seconds: float) -> str:
    """A duration in its largest fitting unit."""
    for size, unit in _SPANS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0.0):.1f} s"


def printable(text: str, *, lines: bool = False) -> str:
    """The text without anything that a terminal obeys; line ends stay if `lines`."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or (lines and char == "\n") else _escaped(char) for char in text
    )


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
