"""The names of the files that a master keeps, and the marks of crawlfleet's own SQLite files."""

from typing import Final

STORE_NAME: Final = "crawlfleet.db"
PAUSES_NAME: Final = "pauses.jsonl"
"""File of the paused hosts."""
OUTPUT_NAME: Final = "output"
"""Folder of the output of crawls, beside the store."""
FRONTIER_MARK: Final = 0x63726177
"""SQLite's `application_id` of the files that crawls keep their frontiers in."""
OWN_TABLES: Final = (
    frozenset({"crawler_tasks", "crawler_nodes"}),
    frozenset({"crawler_locks"}),
    frozenset({"place", "taken", "waiting", "writers"}),
)
"""Sets of tables that identify our files: a master's store, locks, and the notes about a frontier
on another server."""


def is_own(application_id: int, tables: frozenset[str]) -> bool:
    """Return whether a SQLite file with this mark and these tables belongs to crawlfleet."""
    return application_id == FRONTIER_MARK or any(own <= tables for own in OWN_TABLES)
