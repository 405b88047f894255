"""Runs a test that is a coroutine on a fresh store."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from crawlfleet.ports.store import Change, Refusal, RefusalKind, Store

DEADLINE_S = 60.0


class Harness:
    """Base of test classes; a backend's class makes its store here."""

    def make_store(self, folder: Path) -> Store:
        """A new store that is not open yet."""
        raise NotImplementedError


H = TypeVar("H", bound=Harness)


def on_store(test: Callable[[H, Store], Awaitable[None]]) -> Callable[[H, Path], None]:
    """Make a test of `async def test_…(self, store)`."""

    def run(self: H, tmp_path: Path) -> None:
        async def scenario() -> None:
            store = self.make_store(tmp_path)
            async with asyncio.timeout(DEADLINE_S):
                await store.open()
                try:
                    await test(self, store)
                finally:
                    await store.close()

        asyncio.run(scenario())

    run.__name__ = run.__qualname__ = test.__name__
    run.__doc__ = test.__doc__
    return run


async def commit_one(store: Store, change: Change) -> Refusal | None:
    """Commit a single change, and return its refusal or `None`."""
    (refusal,) = (await store.commit([change])).refusals
    return refusal


async def must(store: Store, *changes: Change) -> None:
    """Commit changes that have to fit."""
    assert (await store.commit(changes)).refusals == (None,) * len(changes)


def is_refused(refusal: Refusal | None, kind: RefusalKind, subject: str) -> bool:
    return refusal is not None and (refusal.kind, refusal.subject) == (kind, subject)


async def take_lead(store: Store, leader: str) -> int:
    """Become the leader, when there is no other; return the epoch."""
    lead = await store.lead(leader)
    assert lead is not None
    return lead.epoch
