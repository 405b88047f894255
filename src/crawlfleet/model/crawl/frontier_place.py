"""The master's record of a frontier that is on another server."""

from enum import StrEnum

import msgspec

from crawlfleet.model.crawl.frontier import FrontierRules


class PlaceState(StrEnum):
    """State of a frontier on a server."""

    BEGINNING = "beginning"
    """No worker has received the location yet, so the frontier can be created again."""
    BEGUN = "begun"
    LOST = "lost"
    """The server has lost data; the frontier must be restored under another epoch."""
    STORED = "stored"
    """No worker is left: the frontier was removed from the server and is only in the checkpoint."""


class FrontierPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The frontier of one crawl on a server."""

    server: str
    """Address of the server without secrets, for people."""
    epoch: str
    """Epoch of the frontier, made by the master, which alone creates frontiers."""
    state: PlaceState
    rules: FrontierRules
    partitions: int | None = None
    """Number of partitions at creation; `None` before that. The checkpoint depends on it, so a
    restored frontier keeps it, whatever the present setting is."""
    why: str = ""
    """Reason of the loss."""
