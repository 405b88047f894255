"""Parameters of tasks that run user code: Scrapy spiders and commands."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(max_length=10_000)]
VariableName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class ScrapyParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A spider of a Scrapy project, as `scrapy crawl` runs it."""

    spider: Annotated[str, Meta(min_length=1, max_length=200, examples=["quotes"])]
    """The name of the spider."""
    arguments: dict[str, Text] = {}
    """Arguments of the spider (`scrapy crawl -a`)."""
    settings: dict[str, Any] = {}
    """Settings over those of the project (`scrapy crawl -s`)."""
    settings_module: Annotated[str, Meta(max_length=200, examples=["quotes.settings"])] = ""
    """The module of the project's settings, where the bundle has no `scrapy.cfg`."""
    distributed: bool = False
    """Keep the queue of requests at the master, so that the crawl continues when its worker dies
    and the fleet's politeness ledger applies. Otherwise an attempt starts from the beginning, and
    politeness is up to the spider."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    """Number of workers that share the crawl, each a task of its own; more than one implies
    `distributed`."""
    split_hosts: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """Maximum number of parts that the requests of each host are split into, so that several
    workers can request from it at once, within its limits; when not set, one worker at a time
    requests from a host."""

    @property
    def is_shared(self) -> bool:
        """Return whether the master keeps the queue of requests."""
        return self.distributed or self.workers > 1


class CommandParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program and its arguments; no shell looks at them."""

    argv: Annotated[
        list[Text],
        Meta(min_length=1, max_length=1_000, examples=[["python", "report.py", "--all"]]),
    ]
    """The program and its arguments."""
    environment: dict[VariableName, Text] = {}
    """Environment variables, in addition to the few that every command gets."""
