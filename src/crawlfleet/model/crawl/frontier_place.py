"""What the master writes down about a frontier that is on another server."""

from enum import StrEnum

import msgspec

from crawlfleet.model.crawl.frontier import FrontierRules


class PlaceState(StrEnum):
    """How far it has got."""

    BEGINNING = "beginning"
    """Nobody has been told of it, so that it can be begun again."""
    BEGUN = "begun"
    LOST = "lost"
    """The server has lost it, wholly or in part; it is to be restored under another epoch."""
    STORED = "stored"
    """Nobody works for the crawl any more: the server has nothing of it, the checkpoint all."""


class FrontierPlace(msgspec.Struct, frozen=True, kw_only=True):
    """One crawl on a server."""

    server: str
    """Its address without secrets, for people."""
    epoch: str
    """Made by the master: nobody else ever begins a frontier."""
    state: PlaceState
    rules: FrontierRules
    partitions: int | None = None
    """How many it was begun with: the checkpoint knows everything by them, so that they stay when
    it is restored, whatever the setting says by then. `None` before it was begun."""
    why: str = ""
    """How it was lost."""
