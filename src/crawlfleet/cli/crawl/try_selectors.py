"""`extract`: try selectors on a page, or take items out of pages that were kept."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from crawlfleet.cli.shell.arguments import STANDARD_INPUT
from crawlfleet.cli.shell.command import add_command
from crawlfleet.cli.shell.output import CommandOutput, cell, heading, message_console, table

if TYPE_CHECKING:
    from crawlfleet.cli.crawl.pages import KeptPage
    from crawlfleet.crawl.extract.extract import Extractor
    from crawlfleet.model.crawl.extraction import Item

SHOWN: Final = 10
"""Items that people are shown of each kind."""
LONGEST: Final = 60
LINE_EVERY_S: Final = 5.0
"""Seconds between two progress lines without a terminal."""

Named = list[str] | None


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_command(
        app,
        "extract",
        extract,
        try_this=(
            "crawlfleet extract page.html --item div.product --css title=h2.title",
            "crawlfleet extract https://example.org --css 'title=h1' --xpath 'lang=/html/@lang'",
            "crawlfleet extract https://example.org --links",
            "crawlfleet extract archive.warc.gz --selectors plan.json -o items.jsonl",
        ),
    )


def extract(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|URL…",
            help="Pages: files (HTML, JSON), WARC archives, web addresses, or - for input.",
        ),
    ],
    item: Annotated[
        str | None,
        typer.Option(
            metavar="SELECTOR",
            help="What one item is, such as div.product: each match is one, with its fields "
            "within. Without it, the page is one item.",
        ),
    ] = None,
    css: Annotated[
        Named, typer.Option(metavar="NAME=CSS", help="A field by CSS; may be repeated.")
    ] = None,
    xpath: Annotated[Named, typer.Option(metavar="NAME=XPATH", help="A field by XPath.")] = None,
    path: Annotated[
        Named, typer.Option(metavar="NAME=PATH", help="A field of JSON by path: $.a[*].b.")
    ] = None,
    selectors: Annotated[
        Path | None,
        typer.Option(
            help="File with the `selectors` of a crawl, as JSON.", exists=True, dir_okay=False
        ),
    ] = None,
    structured: Annotated[
        bool, typer.Option("--structured", help="Take JSON-LD, OpenGraph and microdata too.")
    ] = False,
    links: Annotated[bool, typer.Option("--links", help="Show the links, not the items.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Read so many pages at most.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the items as JSON lines.", dir_okay=False),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Address of a page from a file, for its relative links.")
    ] = None,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Allow addresses of private networks.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write items (or links) as JSON lines.")
    ] = False,
) -> None:
    """Take items out of pages, without a crawl: to try selectors, or on pages that were kept.

    Shows what each selector caught. With --json or -o, items are JSON lines with their page and
    kind. Nothing is fetched but the addresses that are given, each once.
    """
    from crawlfleet.cli.crawl.pages import find_pages
    from crawlfleet.core.pages.selectors import make_plan
    from crawlfleet.crawl.extract.extract import Extractor

    wanted = _wanted(selectors, item, css, xpath, path)
    if not (wanted.selectors or wanted.item or structured or links):
        raise typer.BadParameter(
            "nothing to look for; give --css NAME=SELECTOR, --selectors FILE, --structured "
            "or --links"
        )
    extractor = Extractor(make_plan(**wanted._asdict(), structured=structured))
    survey = _Survey(extractor, CommandOutput(json=as_json))
    is_shown = not as_json and str(output) != STANDARD_INPUT
    with _lines(output, as_json) as out, _progress(survey.told, shown=is_shown) as advance:
        for page in find_pages(sources, url=url, allow_private=allow_private, limit=limit):
            if links:
                survey.list_links(page, out)
            else:
                survey.take(page, out)
            advance()
    survey.show(output)


class _Survey:
    """Everything that the selectors matched, over all pages."""

    def __init__(self, extractor: "Extractor", output: CommandOutput) -> None:
        self._extractor = extractor
        self._output = output
        self._pages = 0
        self._links = 0
        self._counts: dict[str, int] = {}
        self._on: dict[str, int] = {}
        self._kinds: dict[str, int] = {}
        self._samples: dict[str, list[Item]] = {}
        self._found: list[list[Any]] = []

    def take(self, kept: "KeptPage", out: IO[bytes] | None) -> None:
        """Extract from one page."""
        from crawlfleet.crawl.extract.page_reader import open_page

        page, document = open_page(kept.body, kept.url, kept.kind, kept.charset)
        items = self._extractor.items(page, document)
        self._pages += 1
        for item in items:
            self._kinds[item.kind] = self._kinds.get(item.kind, 0) + 1
            if out is not None:
                line = {"page": kept.url, "kind": item.kind, "item": item.fields}
                out.write(msgspec.json.encode(line) + b"\n")
            samples = self._samples.setdefault(item.kind, [])
            if len(samples) < SHOWN:
                samples.append(item)
        if not self._output.json:
            for name, count in self._extractor.caught(page, document).items():
                self._counts[name] = self._counts.get(name, 0) + count
                self._on[name] = self._on.get(name, 0) + (count > 0)

    def list_links(self, kept: "KeptPage", out: IO[bytes] | None) -> None:
        """Show where one page leads."""
        from crawlfleet.core.pages.selectors import make_plan
        from crawlfleet.core.pages.values import absolute
        from crawlfleet.crawl.extract.page_reader import PageReader

        reading = PageReader(make_plan({})).read(
            kept.body, kept.url, charset=kept.charset, content_type=kept.kind
        )
        self._pages += 1
        for href, found in reading.links.items():
            self._links += 1
            target = absolute(reading.base, href) or href
            if out is not None:
                line = {
                    "page": kept.url,
                    "url": target,
                    "kind": found.kind,
                    "nofollow": found.nofollow,
                }
                out.write(msgspec.json.encode(line) + b"\n")
            nofollow = cell("nofollow" if found.nofollow else "")
            self._found.append([cell(found.kind), nofollow, cell(target)])

    def told(self) -> str:
        """Return the number of items or links so far, and of their pages."""
        total = self._links or sum(self._kinds.values())
        what = ("link" if self._links else "item") + ("" if total == 1 else "s")
        pages = "1 page" if self._pages == 1 else f"{self._pages} pages"
        return f"{total} {what} of {pages}"

    def show(self, written_to: Path | None) -> None:
        """Show the result."""
        if self._output.json:
            return
        self._output.show(None, self._draw)
        where = f", written to {written_to}" if written_to else ""
        self._output.remark(f"{self.told()}{where}")

    def _draw(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self._found:
            return table(("kind", "rel", "url"), self._found)
        if self._counts:
            rows = [
                [cell(name), cell(count), cell(self._on[name]), _warning(count)]
                for name, count in self._counts.items()
            ]
            parts.append(table(("selector", "matches", "pages", "remark"), rows))
        for kind, items in self._samples.items():
            parts.append(heading(f"{kind}: {self._kinds[kind]}"))
            names = list(dict.fromkeys(name for item in items for name in item.fields))
            drawn = ([_short(item.fields.get(name)) for name in names] for item in items)
            parts.append(table(names, drawn, flexible=names))
        return Group(*parts)


class _Wanted(NamedTuple):
    """The fields to extract from each page, as in the parameters of a crawl."""

    selectors: dict[str, Any]
    item: str | None
    infer_item: bool


def _wanted(
    selectors: Path | None, item: str | None, css: Named, xpath: Named, path: Named
) -> _Wanted:
    """Merge the selectors of the file and of the flags."""
    written: dict[str, Any] = {}
    infers = False
    if selectors is not None:
        try:
            document = msgspec.json.decode(selectors.read_bytes(), type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise typer.BadParameter(
                f"{selectors} is not a JSON object: {error}", param_hint="--selectors"
            ) from None
        inner = document.get("selectors")
        # The whole parameters of a crawl are welcome too, and then mean what they mean there.
        if isinstance(inner, dict) and ("url" in document or "urls" in document):
            written = inner
            item = item or document.get("item")
            infers = document.get("infer_item", True)
        else:
            written = document
    flags = (("--css", "css", css), ("--xpath", "xpath", xpath), ("--path", "json", path))
    for flag, language, pairs in flags:
        for pair in pairs or ():
            name, separator, text = pair.partition("=")
            if not separator or not name.strip() or not text.strip():
                raise typer.BadParameter(f"{pair!r} is not NAME=EXPRESSION", param_hint=flag)
            written[name.strip()] = {language: text.strip()}
            infers = False
    return _Wanted(written, item, infers)


@contextmanager
def _lines(output: Path | None, as_json: bool) -> Iterator[IO[bytes] | None]:
    """Yield the stream for JSON lines; `None` when none are written."""
    if output is not None and str(output) != STANDARD_INPUT:
        with output.open("wb") as out:
            yield out
    elif output is not None or as_json:
        yield sys.stdout.buffer
        sys.stdout.flush()
    else:
        yield None


@contextmanager
def _progress(told: Callable[[], str], *, shown: bool) -> Iterator[Callable[[], None]]:
    """Show the text of `told` while this is entered: live on a terminal, else as a line now and
    then. The caller calls the yielded function after each page."""
    console, now, due = message_console(), told(), time.monotonic() + LINE_EVERY_S
    is_live = shown and console.is_terminal

    def draw() -> Text:
        # In a thread: what is counted meanwhile is not looked at here.
        return Text(f"reading: {now}", style="dim")

    def advance() -> None:
        nonlocal now, due
        now = told()
        if shown and not is_live and time.monotonic() >= due:
            due = time.monotonic() + LINE_EVERY_S
            console.print(draw())

    if not is_live:
        yield advance
        return
    from rich.live import Live

    with Live(get_renderable=draw, console=console, transient=True):
        yield advance


def _warning(count: int) -> Any:
    return cell("" if count else "caught nothing", "yellow")


def _short(value: Any) -> Any:
    if value is None:
        return cell(None)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return cell(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")
