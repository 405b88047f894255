"""Chooses the sink for a place, and gives it the settings of the crawl that it needs."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Final
from urllib.parse import quote

import msgspec

from crawlfleet import plugins
from crawlfleet.core.tasks import credentials, sink_rules
from crawlfleet.core.tasks.sink_rules import SinkRefusal
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.crawl.extraction import FIRST_LINK, PAGE_URL, ExtractionPlan
from crawlfleet.model.crawl.parameters import CrawlParameters, NodeSink, SinkSpec
from crawlfleet.ports.sink import Sink

ENDINGS: Final = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".warc": "warc"}
COMPRESSED: Final = {".gz": "gzip", ".zst": "zstd"}
KIND: Final = "kind"
CSV: Final = "csv"
NAMING_KINDS: Final = ("jsonl", CSV)
"""Formats in which the kind of an item stands among its fields."""
STRUCTURED_FIELDS: Final = ("json_ld", "open_graph", "microdata")
TOLD: Final = ("table", "host", "port")
"""Parameters of a URL that distinguish places and are no secrets."""
SCHEMES: Final = {"sqlite": "table", "postgresql": "table", "postgres": "table"}


def open_sink(spec: SinkSpec, plan: ExtractionPlan) -> Sink:
    """Open the sink for a place and a crawl with that plan. Raises `InvalidRequest` when no sink
    fits the place, or the sink does not fit the crawl."""
    spec = planned(completed(spec), plan)
    sink: Sink = plugins.load_one(plugins.SINKS, spec.format or "")(spec)
    return sink


def sink_problems(parameters: CrawlParameters) -> Iterator[FieldProblem]:
    """Why no node would write to the sinks of a task."""
    for number, spec in enumerate(parameters.sinks):
        if (refusal := sink_rules.problem_of(spec)) is not None:
            yield _refused(f"sinks[{number}].url", refusal, spec)


def on_node(
    spec: SinkSpec, *, folder: str, allow_private: bool, secrets: Mapping[str, str]
) -> NodeSink:
    """The sink of a task as a node may write it: its files below the folder, its password in its
    place. Raises `InvalidRequest`."""
    refusal = sink_rules.problem_of(spec)
    address, url = None, spec.url
    if refusal is None:
        scheme = sink_rules.scheme_of(url)
        if scheme in (None, sink_rules.SQLITE):
            path = sink_rules.sqlite_path(url) if scheme else url.removeprefix("file://")
            below = path if isinstance(path, SinkRefusal) else sink_rules.path_below(folder, path)
            if isinstance(below, SinkRefusal):
                refusal = below
            elif scheme:
                _, question, query = url.partition("?")
                url = f"sqlite:///{quote(f'{folder}/{below}')}{question}{query}"
            else:
                url = f"{folder}/{below}"
        else:
            filled = credentials.filled_url(url, secrets)
            if scheme in sink_rules.POSTGRES:
                found = sink_rules.postgres_address(filled)
                refusal = found if isinstance(found, SinkRefusal) else None
                address = None if isinstance(found, SinkRefusal) else found
            else:
                url = filled
    if refusal is not None:
        raise InvalidRequest([_refused("sinks[].url", refusal, spec)])
    fields = {name: getattr(spec, name) for name in SinkSpec.__struct_fields__}
    return NodeSink(
        **{**fields, "url": url}, folder=folder, allow_private=allow_private, address=address
    )


def name_of(spec: SinkSpec) -> str:
    """Return the name of a sink in receipts and summaries: its place without possible secrets."""
    scheme, separator, rest = spec.url.partition("://")
    if not separator or scheme == "file":
        return spec.url
    authority, slash, path = rest.partition("/")
    place, question, query = path.partition("?")
    told = "&".join(each for each in query.split("&") if each.partition("=")[0] in TOLD)
    host = authority.rpartition("@")[2]
    return f"{scheme}://{host}{slash}{place}{question if told else ''}{told}"


def planned(spec: SinkSpec, plan: ExtractionPlan) -> SinkSpec:
    """Return the specification, completed from the fields of the crawl."""
    kinds = spec.kinds or bool(plan.flat) + len(plan.groups) + bool(plan.page) + plan.structured > 1
    if plan.flat and spec.format == CSV and not spec.columns:
        raise _wrong(
            "selectors",
            "do not say what one item is, so that the columns of a CSV file are not known",
            "set `item` to the selector of one item, or `infer_item` to false where each page is "
            "one; or name the `columns` of the sink",
            spec.url,
        )
    columns = spec.columns or columns_of(plan)
    if kinds and KIND in columns_of(plan) and spec.format in NAMING_KINDS:
        raise _wrong(
            f"selectors.{KIND}",
            "is what the kind of each item is called, since the crawl has several kinds",
            "name the field otherwise",
            KIND,
        )
    return msgspec.structs.replace(spec, kinds=kinds, columns=columns)


def columns_of(plan: ExtractionPlan) -> tuple[str, ...]:
    """Every field that an item of the crawl can have, each once."""
    if not plan:
        return ()
    fields = [PAGE_URL, *(field.name for group in plan.groups for field in group.fields)]
    fields += [field.name for field in plan.page]
    if plan.flat:
        fields += [*(field.name for field in plan.flat), FIRST_LINK]
    if plan.structured:
        fields += STRUCTURED_FIELDS
    return tuple(dict.fromkeys(fields))


def completed(spec: SinkSpec) -> SinkSpec:
    """Return the specification, completed from the name of the place."""
    scheme, separator, _ = spec.url.partition("://")
    if separator and scheme != "file":
        return msgspec.structs.replace(spec, format=spec.format or SCHEMES.get(scheme, scheme))
    path = PurePath(spec.url.removeprefix("file://"))
    compress, suffix = spec.compress, path.suffix.lower()
    if suffix in COMPRESSED:
        compress = compress or COMPRESSED[suffix]  # type: ignore[assignment]
        suffix = PurePath(path.stem).suffix.lower()
    format = spec.format or ENDINGS.get(suffix)
    if format is None:
        raise _wrong(
            "output",
            f"does not tell its format by its ending {suffix or 'none'!r}",
            f"end it in one of {', '.join(ENDINGS)}, or name a format",
            spec.url,
        )
    return msgspec.structs.replace(spec, url=str(path), format=format, compress=compress)


def _refused(field: str, refusal: SinkRefusal, spec: SinkSpec) -> FieldProblem:
    return FieldProblem(
        field=field, message=refusal.message, remedy=refusal.remedy, value=name_of(spec)[:200]
    )


def _wrong(field: str, message: str, remedy: str, value: str) -> InvalidRequest:
    return InvalidRequest([FieldProblem(field=field, message=message, remedy=remedy, value=value)])
