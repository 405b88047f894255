"""The names of the files that a master keeps, and the marks of crawlfleet's own SQLite files."""

from typing import Final

STORE_NAME: Final = "crawlfleet.db"
PAUSES_NAME: Final = "pauses.jsonl"
"""The file of the hosts that are paused."""
OUTPUT_NAME: Final = "output"
"""The folder of what crawls found, beside the store."""
FRONTIER_MARK: Final = 0x63726177
"""SQLite's `application_id` of the files that crawls keep their frontiers in."""
OWN_TABLES: Final = (
    frozenset({"crawler_tasks", "crawler_nodes"}),
    frozenset({"crawler_locks"}),
    frozenset({"place", "taken", "waiting", "writers"}),
)
"""Tables that a file of ours has: a master's store, locks, and what is noted of a frontier that is
kept elsewhere."""


def is_own(application_id: int, tables: frozenset[str]) -> bool:
    """Whether a SQLite file with that mark and those tables is one that crawlfleet keeps."""
    return application_id == FRONTIER_MARK or any(own <= tables for own in OWN_TABLES)
