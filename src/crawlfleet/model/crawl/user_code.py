"""What tasks say that run code which people handed over."""

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
    """Whether its requests wait at the master, so that the crawl goes on where it was when its
    worker dies, and for the fleet's ledger; else it begins anew, and sees to its own politeness."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    """So many at once, each a task of its own; with more than one it is `distributed`."""
    split_hosts: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """Into how many parts the requests of each host are split, so that several workers can ask it
    at once, within its limits; without it a host is asked by one worker at a time."""

    @property
    def is_shared(self) -> bool:
        """Whether its requests wait at the master."""
        return self.distributed or self.workers > 1


class CommandParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program and its arguments; no shell looks at them."""

    argv: Annotated[
        list[Text],
        Meta(min_length=1, max_length=1_000, examples=[["python", "report.py", "--all"]]),
    ]
    """The program and its arguments."""
    environment: dict[VariableName, Text] = {}
    """Variables beside the few that every command gets."""
