"""The options of `crawlfleet crawl` as the parameters of a crawl."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from crawlfleet.cli.crawl.outputs import OutputFile
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.crawl.parameters import (
    FAST,
    CrawlParameters,
    Fetching,
    Limits,
    Politeness,
    Scope,
)


def parameters_of(
    *,
    urls: Sequence[str],
    outputs: Sequence[OutputFile],
    depth: int | None,
    item: str | None,
    css: Sequence[str],
    xpath: Sequence[str],
    selectors: Path | None,
    structured: bool,
    max_pages: int | None,
    max_seconds: float | None,
    scope: str,
    allow: Sequence[str],
    deny: Sequence[str],
    sitemaps: bool,
    workers: int,
    fast: bool,
    delay: float | None,
    concurrency: int | None,
    allow_private: bool,
    user_agent: str | None,
    contact: str | None,
    headers: Sequence[str],
    proxy: str | None,
) -> CrawlParameters:
    """Return the parameters of the crawl; raises `InvalidRequest` that names the option."""
    manners: dict[str, Any] = {"delay_s": delay, "concurrency": concurrency}
    politeness = msgspec.structs.replace(
        FAST if fast else Politeness(),
        **{name: value for name, value in manners.items() if value is not None},
    )
    if scope not in {"host", "domain", "prefix", "any"}:
        raise _wrong("--scope", scope, "is not known", "use host, domain, prefix or any")
    named = _selectors(css, xpath, selectors)
    return CrawlParameters(
        urls=tuple(map(_address, urls)),
        depth=depth,
        selectors=named,
        item=item,
        # A field that is named on the command line is in every item.
        infer_item=not named or item is not None,
        structured=structured,
        scope=Scope(within=scope, allow=tuple(allow), deny=tuple(deny), sitemaps=sitemaps),  # type: ignore[arg-type]
        limits=Limits(max_pages=max_pages, max_seconds=max_seconds),
        politeness=politeness,
        fetching=Fetching(
            allow_private=allow_private,
            user_agent=user_agent,
            contact=contact,
            headers=dict(_header(line) for line in headers),
            proxy=proxy,
        ),
        sinks=tuple(output.spec for output in outputs),
        workers=workers,
    )


def _address(url: str) -> str:
    """Add the scheme that people leave out: `http` for an address on this machine, which seldom has
    a certificate, else `https`."""
    if "://" in url:
        return url
    host = url.partition("/")[0].rpartition(":")[0] or url.partition("/")[0]
    local = host == "localhost" or host.replace(".", "").isdigit() or host.startswith("[")
    return f"http://{url}" if local else f"https://{url}"


def _selectors(css: Sequence[str], xpath: Sequence[str], file: Path | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if file is not None:
        try:
            found.update(msgspec.json.decode(file.read_bytes(), type=dict[str, Any]))
        except msgspec.DecodeError as error:
            raise _wrong("--selectors", str(file), f"is no JSON object: {error}", "") from error
    for line in css:
        name, expression = _named("--css", line)
        found[name] = expression
    for line in xpath:
        name, expression = _named("--xpath", line)
        found[name] = {"xpath": expression}
    return found


def _named(option: str, line: str) -> tuple[str, str]:
    name, equals, expression = line.partition("=")
    if not equals or not name.strip() or not expression.strip():
        raise _wrong(option, line, "is not name=selector", "such as title=h2.title")
    return name.strip(), expression.strip()


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise _wrong("--header", line, "is not 'Name: value'", "such as 'Accept-Language: de'")
    return name.strip(), value.strip()


def _wrong(option: str, value: str, message: str, remedy: str) -> InvalidRequest:
    return InvalidRequest([FieldProblem(field=option, message=message, remedy=remedy, value=value)])
