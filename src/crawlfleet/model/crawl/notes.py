"""What an execution notes of its part of a crawl, committed with the pages that it speaks of.

The notes lie among the receipts of a frontier, one for each execution that works, or has worked,
for the crawl; those of a crawl that is in one process have no execution in their name. Each speaks
of all that its execution has done, and replaces the one before in the same step as the pages that
are new in it. So all of them together are what the crawl has come to, whoever was killed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

NOTES: Final = "*crawl"
"""How the names of notes begin; no sink has such a name."""


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What it took to fetch pages, as far as it was committed with them."""

    requests: int = 0
    """All that were answered or came to nothing: of pages, redirects, robots.txt, and again."""
    bytes: int = 0
    """That came over the wire."""
    retries: int = 0
    """Visits that ended with the URL being put back, to be visited again."""
    rejected: dict[str, int] = {}
    """Links that do not belong to the crawl, by rule, each time that one was met."""


class ExecutionNotes(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of all lives of an execution, and in no table of the frontier."""

    items: int = 0
    """Of this round, as are `pages`, `urls` and `spent`."""
    pages: int = 0
    """Those that count towards `max_pages`."""
    urls: int = 0
    """Finished with."""
    failed: int = 0
    """Those of them that gave an error instead of a page."""
    read: int = 0
    """Pages in which items were looked for, in this round."""
    empty: tuple[str, ...] | None = None
    """The fields that no item has had a value for; `None` before anything was read."""
    widened: tuple[str, ...] = ()
    round: int = 1
    task_id: str = ""
    """Whose execution noted this, where several work for a crawl."""
    spent: Spent | None = None
    """`None` where it was not noted, as earlier versions do not."""


class NoteTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What the notes of all executions of a crawl come to."""

    items: int = 0
    spent: Spent | None = None
    """`None` when one of them did not note it."""


def notes_in(receipts: Mapping[str, Any]) -> dict[str, ExecutionNotes]:
    """The notes among the receipts of a frontier, by their names. What cannot be read is left out:
    it comes from nodes."""
    found = {}
    for name, receipt in receipts.items():
        if name.partition("@")[0] == NOTES:
            try:
                found[name] = msgspec.convert(receipt, ExecutionNotes)
            except msgspec.ValidationError:
                continue
    return found


def totals_of(notes: Iterable[ExecutionNotes], round: int) -> NoteTotals:
    """What was done in a round by all together."""
    noted = [each for each in notes if each.round == round]
    return NoteTotals(items=sum(each.items for each in noted), spent=spent_by(noted))


def spent_by(notes: Iterable[ExecutionNotes]) -> Spent | None:
    """What those have spent together; `None` when one that has visited something did not note
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
