"""Makes environments ahead of their executions: as the master asks, one at a time, beside running
work.

A node also reports its environments to the master, so that work goes where its code is ready.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from crawlfleet.errors import MasterUnreachable, Refused
from crawlfleet.event_loop import report_failure
from crawlfleet.model.bundle import MAX_TOLD, BundleFetch, BundleRef
from crawlfleet.model.wire.node_protocol import Registered
from crawlfleet.model.wire.services import BUNDLE, ServiceRequest
from crawlfleet.ports.execution import ControlLink
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.code.environments import CannotMake, Environments, NoCode

log = logger(Component.WORKER)
TOLD_AGAIN: Final = 20
"""Number of heartbeats after which all digests are sent again: another master may be listening by
then."""
Made = Callable[[], None]


class Warming:
    """Makes environments ahead of their executions during one session of a node. Without
    `environments` there is nothing to make or to report."""

    def __init__(self, environments: Environments | None) -> None:
        self._environments = environments
        self._waiting: dict[str, BundleRef] = {}
        self._work: asyncio.Task[None] | None = None
        self._told: tuple[str, ...] | None = None
        self._beats = 0

    async def news(self) -> tuple[str, ...] | UnsetType:
        """Return the digests of the environments for the next heartbeat, if they have changed or
        were not reported for a while; else `UNSET`."""
        if self._environments is None:
            return UNSET
        there = await asyncio.to_thread(self._environments.kept)
        kept = tuple(sorted(there[:MAX_TOLD]))
        self._beats += 1
        if kept == self._told and self._beats % TOLD_AGAIN:
            return UNSET
        return kept

    def said(self, told: tuple[str, ...] | UnsetType) -> None:
        """Note that the master has received these digests."""
        if told is not UNSET:
            self._told = told

    def obey(
        self, refs: Iterable[BundleRef], link: ControlLink, session: Registered, made: Made
    ) -> None:
        """Make these environments, one after another; `made` is called after each."""
        if self._environments is None:
            return
        self._waiting.update((ref.digest, ref) for ref in refs)
        if self._waiting and not self.under_way():
            work = self._make_all(self._environments, link, session, made)
            self._work = asyncio.create_task(work, name="environments ahead")
            self._work.add_done_callback(report_failure)

    def under_way(self) -> list[asyncio.Task[None]]:
        """Tasks to cancel when the session ends."""
        return [] if self._work is None or self._work.done() else [self._work]

    async def _make_all(
        self, environments: Environments, link: ControlLink, session: Registered, made: Made
    ) -> None:
        while self._waiting:
            ref = self._waiting.pop(next(iter(self._waiting)))
            fetch = partial(_fetch, ref, link, session)
            try:
                async with environments.borrowed(ref, fetch, _tell):
                    log.info("environment ready ahead of its work", bundle=str(ref))
            except (CannotMake, OSError) as error:
                log.warning("environment not made ahead", bundle=str(ref), error=str(error))
            self._told = None  # who asked is answered, even if it was there already
            made()


async def _fetch(ref: BundleRef, link: ControlLink, session: Registered) -> bytes:
    """Fetch the archive from the master that requested its environment. Raises `NoCode`."""
    payload = msgspec.Raw(msgspec.json.encode(BundleFetch(digest=ref.digest)))
    request = ServiceRequest(session_id=session.session_id, payload=payload)
    try:
        response = await link.request(session.node_id, BUNDLE, request)
    except (MasterUnreachable, Refused) as error:
        raise NoCode(str(error)) from error
    if response.refusal:
        raise NoCode(response.refusal)
    return response.data


def _tell(line: str) -> None:
    log.debug("environment", line=line)
