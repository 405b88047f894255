"""Many tasks at once: from a file of JSON lines or as copies, sent in portions.

A line that cannot be read is refused like a task that the master refuses: the others are sent.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from rich.console import Group, RenderableType

from crawlfleet.cli.shell.command import CommandContext
from crawlfleet.cli.shell.errors import say
from crawlfleet.cli.shell.output import cell, message_console, state, table
from crawlfleet.errors import MasterUnable, MasterUnreachable
from crawlfleet.views.problems import Problem
from crawlfleet.views.tasks import BatchItem, BatchReply

PORTION: Final = 10_000
PORTION_BYTES: Final = 8_000_000
"""Half of the limit that a master has by default."""
SHOWN: Final = 20


class BatchEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A task to submit, or the reason why it cannot be."""

    request: dict[str, Any]
    size: int
    problem: str = ""


def copies(draft: dict[str, Any], count: int) -> Iterator[BatchEntry]:
    """Yield the task `count` times; an idempotency key gets a number for each copy."""
    size = len(msgspec.json.encode(draft))
    for number in range(1, count + 1):
        yield BatchEntry(request=_numbered(draft, number), size=size)


def read_lines(lines: Iterable[bytes], draft: dict[str, Any]) -> Iterator[BatchEntry]:
    """Yield a task for each line that is not empty; `draft` supplies the fields that a line
    omits."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            own = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problem = f"line {number} is not a JSON object: {error}"
            yield BatchEntry(request={}, size=len(line), problem=problem)
        else:
            yield BatchEntry(request={**_numbered(draft, number), **own}, size=len(line))


async def send(
    desk: CommandContext, entries: Iterable[BatchEntry], total: int | None
) -> BatchReply:
    """Submit all, with a progress bar; an outcome for each, in order."""
    from rich.progress import Progress

    items: list[BatchItem] = []
    deduplicated = 0
    console = message_console()
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        bar = progress.add_task("submitting", total=total)
        for portion in portions(entries):
            good = [entry.request for entry in portion if not entry.problem]
            reply = await _submit(desk, good, len(items))
            deduplicated += reply.deduplicated
            outcomes = iter(reply.items)
            items += [_unread(e.problem) if e.problem else next(outcomes) for e in portion]
            progress.update(bar, completed=len(items))
    return BatchReply(items=items, deduplicated=deduplicated)


def portions(entries: Iterable[BatchEntry]) -> Iterator[list[BatchEntry]]:
    """The entries in lists that a master takes at once."""
    portion: list[BatchEntry] = []
    size = 0
    for entry in entries:
        if portion and (len(portion) == PORTION or size + entry.size > PORTION_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(entry)
        size += entry.size
    if portion:
        yield portion


def complain(reply: BatchReply) -> int:
    """Report the rejected tasks on standard error, and return their number."""
    refused = [
        (number, item.error) for number, item in enumerate(reply.items, start=1) if item.error
    ]
    for number, problem in refused[:SHOWN]:
        remedies = "; ".join(error.remedy for error in problem.errors)
        say(f"task {number}: {problem.detail}", remedies)
    if len(refused) > SHOWN:
        say(f"and {len(refused) - SHOWN} more")
    return len(refused)


def draw(reply: BatchReply) -> RenderableType:
    """Draw the counts of the batch, and the accepted tasks if they are few."""
    accepted = [item for item in reply.items if item.id is not None]
    parts = [f"{len(accepted)} accepted"]
    if reply.deduplicated:
        parts.append(f"{reply.deduplicated} of them were there already")
    if refused := len(reply.items) - len(accepted):
        parts.append(f"{refused} refused")
    summary = cell(f"{len(reply.items)} tasks: {', '.join(parts)}")
    if not 0 < len(accepted) <= SHOWN:
        return summary
    rows = ([cell(item.id), state(item.status or "")] for item in accepted)
    return Group(table(("id", "status"), rows), summary)


async def _submit(desk: CommandContext, requests: list[dict[str, Any]], sent: int) -> BatchReply:
    if not requests:
        return BatchReply(items=[], deduplicated=0)
    try:
        return await desk.fleet.submit_batch(requests)
    except MasterUnreachable as error:
        kind = MasterUnable if isinstance(error, MasterUnable) else MasterUnreachable
        raise kind(
            f"{error}, after {sent} tasks; with the same --idempotency-key as before it is safe "
            "to submit all of them again"
        ) from error


def _numbered(draft: dict[str, Any], number: int) -> dict[str, Any]:
    key = draft.get("idempotency_key")
    return {**draft, "idempotency_key": f"{key}-{number}"} if key else draft


def _unread(problem: str) -> BatchItem:
    return BatchItem(
        error=Problem(
            type="urn:crawlfleet:problem:malformed-json",
            title="Bad Request",
            status=400,
            detail=problem,
        )
    )
