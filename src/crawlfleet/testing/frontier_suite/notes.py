"""Tests of the notes of executions: their sum matches the committed steps."""

from pathlib import Path
from typing import Any

from crawlfleet.model.crawl.notes import NOTES, NoteTotals, Spent
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.testing.frontier_suite.harness import (
    NOW,
    A,
    B,
    FrontierHarness,
    commit,
    in_turn,
    lease,
    link,
    links,
    on_frontier,
    visit,
)


def noted(items: int, **fields: Any) -> dict[str, Any]:
    """Return the notes of an execution that has found this many items."""
    spent = {"requests": items + 1, "bytes": 100 * items, "retries": 1, "rejected": {"links": 2}}
    return {"items": items, "pages": 1, "urls": 1, "spent": spent, **fields}


def totals(items: int, executions: int) -> NoteTotals:
    """Return the sum of the notes of this many executions."""
    spent = Spent(
        requests=items + executions,
        bytes=100 * items,
        retries=executions,
        rejected={"links": 2 * executions},
    )
    return NoteTotals(items=items, spent=spent)


class NoteTests(FrontierHarness):
    @on_frontier()
    async def test_notes_of_all_executions_are_told_together(self, frontier: Frontier) -> None:
        await frontier.add([*links("abc"), link("x", B)], NOW)
        assert (await frontier.counts()).totals == NoteTotals(spent=Spent())
        given = await lease(frontier)
        await commit(frontier, given[A], visit("a"), receipts={f"{NOTES}@exec-1": noted(3)})
        assert (await frontier.counts()).totals == totals(3, 1)
        await commit(frontier, given[B], visit("x", B), receipts={f"{NOTES}@exec-2": noted(40)})
        assert (await frontier.counts()).totals == totals(43, 2)
        # Each speaks of all that its execution has done: it is not added to what it said before.
        newer = {f"{NOTES}@exec-1": noted(5), "sink": noted(9), f"{NOTES}er@exec-1": noted(9)}
        await commit(frontier, given[A], visit("b"), receipts=newer)
        counts = await frontier.counts()
        assert (counts.totals, counts.pages) == (totals(45, 2), 3)

    @on_frontier()
    async def test_notes_of_a_refused_step_are_not_told(self, frontier: Frontier) -> None:
        await frontier.add(links("ab"), NOW)
        old = (await lease(frontier))[A]
        await commit(frontier, old, visit("a"), receipts={NOTES: noted(3)})
        await frontier.forget("worker-1")
        await lease(frontier)
        assert await commit(frontier, old, visit("b"), receipts={NOTES: noted(8)}) == [A]
        counts = await frontier.counts()
        assert (counts.totals, counts.pages) == (totals(3, 1), 1)

    @on_frontier()
    async def test_what_was_spent_is_unknown_when_one_did_not_note_it(
        self, frontier: Frontier
    ) -> None:
        await frontier.add(links("ab"), NOW)
        one = (await lease(frontier))[A]
        older = {f"{NOTES}@exec-1": {"items": 2, "urls": 1}, f"{NOTES}@exec-3": "no notes"}
        await commit(frontier, one, visit("a"), receipts=older)
        await commit(frontier, one, visit("b"), receipts={f"{NOTES}@exec-2": noted(3)})
        assert (await frontier.counts()).totals == NoteTotals(items=5, spent=None)

    def test_notes_outlive_the_process_and_each_round_has_its_own(self, tmp_path: Path) -> None:
        async def before(frontier: Frontier) -> None:
            await frontier.add(links("ab"), NOW)
            one = (await lease(frontier))[A]
            await commit(frontier, one, visit("a"), visit("b"), receipts={NOTES: noted(3)})

        async def after(frontier: Frontier) -> None:
            assert (await frontier.counts()).totals == totals(3, 1)
            await frontier.begin_round(2)
            assert (await frontier.counts()).totals == NoteTotals(spent=Spent())
            one = (await lease(frontier))[A]
            await commit(frontier, one, visit("a"), receipts={NOTES: noted(7, round=2)})
            assert (await frontier.counts()).totals == totals(7, 1)

        in_turn(self, tmp_path, before, after)
