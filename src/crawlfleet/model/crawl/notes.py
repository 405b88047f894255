"""Notes of an execution about its part of a crawl, committed with the pages that they describe.

The notes are stored among the receipts of a frontier, one for each execution that works, or has
worked, for the crawl; a crawl in a single process has a note without an execution in its name. Each
note covers all work of its execution and replaces the previous note in the same step as the pages
that are new in it. So the sum of all notes is the result of the crawl, even if executions were
killed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

NOTES: Final = "*crawl"
"""Prefix of the names of notes; no sink has such a name."""


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of the fetched pages, as far as it was committed with them."""

    requests: int = 0
    """Requests for pages, redirects, robots.txt and retries, answered or not."""
    bytes: int = 0
    """Bytes received."""
    retries: int = 0
    """Visits after which the URL was queued again."""
    rejected: dict[str, int] = {}
    """Links that do not belong to the crawl, by rule, counted each time one was found."""


class ExecutionNotes(msgspec.Struct, frozen=True, kw_only=True):
    """Figures over all attempts of an execution that no table of the frontier has."""

    items: int = 0
    """Items of this round, as are `pages`, `urls` and `spent`."""
    pages: int = 0
    """Pages that count towards `max_pages`."""
    urls: int = 0
    """Visited URLs."""
    failed: int = 0
    """Visited URLs that gave an error instead of a page."""
    read: int = 0
    """Pages of this round in which items were looked for."""
    empty: tuple[str, ...] | None = None
    """Fields that had no value in any item; `None` before any page was read."""
    widened: tuple[str, ...] = ()
    round: int = 1
    task_id: str = ""
    """Task of the execution, where several tasks share a crawl."""
    spent: Spent | None = None
    """Cost; `None` in notes of earlier versions."""


class NoteTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sum of the notes of all executions of a crawl."""

    items: int = 0
    spent: Spent | None = None
    """Cost; `None` when one of the executions did not note it."""


def notes_in(receipts: Mapping[str, Any]) -> dict[str, ExecutionNotes]:
    """Return the notes among the receipts of a frontier by name. Invalid ones, which come from
    nodes, are left out."""
    found = {}
    for name, receipt in receipts.items():
        if name.partition("@")[0] == NOTES:
            try:
                found[name] = msgspec.convert(receipt, ExecutionNotes)
            except msgspec.ValidationError:
                continue
    return found


def totals_of(notes: Iterable[ExecutionNotes], round: int) -> NoteTotals:
    """Return the sum of the notes of one round."""
    noted = [each for each in notes if each.round == round]
    return NoteTotals(items=sum(each.items for each in noted), spent=spent_by(noted))


def spent_by(notes: Iterable[ExecutionNotes]) -> Spent | None:
    """Return the sum of the costs; `None` when an execution that has visited a URL did not note
    it."""
    told = [each.spent for each in notes if each.spent is not None or each.urls]
    spent = Spent()
    for each in told:
        if each is None:
            return None
        spent = added(spent, each)
    return spent


def added(one: Spent, other: Spent) -> Spent:
    """Both together."""
    return Spent(
        requests=one.requests + other.requests,
        bytes=one.bytes + other.bytes,
        retries=one.retries + other.retries,
        rejected=dict(Counter(one.rejected) + Counter(other.rejected)),
    )
