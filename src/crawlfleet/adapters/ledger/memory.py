"""The ledger of a fleet with one master: in its memory, with pauses in a file.

Windows need not be written down: after a restart nothing is granted until all that was granted
before must be over, counted from the last time that the file was touched. Pauses last for up to a
day, and are durable before they count.
"""

import asyncio
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from crawlfleet.errors import LedgerUnavailable
from crawlfleet.model.crawl.politeness_entry import LedgerEntry
from crawlfleet.ports.ledger import LedgerPage
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
LASTING_S: Final = 5.0
"""A shorter pause is over before a new book grants anything."""
TOUCH_EVERY_S: Final = 1.0
MOST: Final = 100_000
"""Entries after which those that are over are removed."""


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """A pause as it is written down; by the wall clock."""

    key: str
    until: float
    why: str


class MemoryBook:
    """Implements `crawlfleet.ports.ledger.LedgerBook`; without a path nothing is written down."""

    is_shared = False

    def __init__(
        self,
        *,
        path: Path | None = None,
        is_alone: bool = True,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Open a book by `clock`, which must never be set. Unless it `is_alone`, other masters may
        have granted windows just before this one opened it.
        """
        self._is_alone = is_alone
        self._touched_at = -math.inf
        self._path = path
        self._clock = clock
        self._wall = wall
        self._born = -math.inf
        self._entries: dict[str, LedgerEntry] = {}
        self._tidy_at = MOST
        self._is_open = False

    async def open(self) -> None:
        if not self._is_open:
            self._born = -math.inf if self._is_alone else self._clock()
            self._entries = {}
            if self._path is not None:
                try:
                    await asyncio.to_thread(self._load, self._path)
                except OSError as error:
                    raise LedgerUnavailable(f"pauses cannot be read: {error}") from error
            self._is_open = True

    async def close(self) -> None:
        self._is_open = False

    async def read(self, keys: Sequence[str]) -> LedgerPage:
        found = {key: self._entries[key] for key in keys if key in self._entries}
        return LedgerPage(now=self._clock(), born=self._born, entries=found, versions=found)

    async def write(self, page: LedgerPage, changes: Mapping[str, LedgerEntry]) -> bool:
        if not self._is_same(page, changes):
            return False
        now = self._clock()
        pauses = [
            _Line(key=key, until=self._wall() + entry.paused_until - now, why=entry.pause)
            for key, entry in changes.items()
            if entry.paused_until > now + LASTING_S and entry.paused_until > self._known(key)
        ]
        if pauses and self._path is not None:
            try:
                await asyncio.to_thread(_append, self._path, pauses)
            except OSError as error:
                raise LedgerUnavailable(f"a pause cannot be written down: {error}") from error
            if not self._is_same(page, changes):
                return False
        self._entries.update(changes)
        self._touch(now)
        if len(self._entries) > self._tidy_at:
            self._entries = {k: each for k, each in self._entries.items() if each.over_at > now}
            self._tidy_at = max(MOST, 2 * len(self._entries))
        return True

    async def browse(self, limit: int) -> LedgerPage:
        now = self._clock()
        living = ((key, entry) for key, entry in self._entries.items() if entry.over_at > now)
        return LedgerPage(now=now, born=self._born, entries=dict(islice(living, limit)))

    def _touch(self, now: float) -> None:
        """Leave behind when something was granted last."""
        if self._path is not None and now >= self._touched_at + TOUCH_EVERY_S:
            self._touched_at = now
            with suppress(OSError):
                os.utime(self._path, (self._wall(), self._wall() + TOUCH_EVERY_S))

    def _known(self, key: str) -> float:
        entry = self._entries.get(key)
        return 0.0 if entry is None else entry.paused_until

    def _is_same(self, page: LedgerPage, changes: Mapping[str, LedgerEntry]) -> bool:
        return self._is_open and all(
            self._entries.get(key) is page.versions.get(key) for key in changes
        )

    def _load(self, path: Path) -> None:
        """Take over the pauses that last, and write them down anew without the others."""
        now, wall = self._clock(), self._wall()
        if path.exists() and self._is_alone:
            self._born = now - max(wall - path.stat().st_mtime, 0.0)
        kept: dict[str, _Line] = {}
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                pause = msgspec.json.decode(line, type=_Line)
            except msgspec.DecodeError:
                continue  # the last one may be cut off: nobody was told that it counts
            if pause.until > max(wall, kept[pause.key].until if pause.key in kept else 0.0):
                kept[pause.key] = pause
        for key, pause in kept.items():
            self._entries[key] = LedgerEntry(paused_until=now + pause.until - wall, pause=pause.why)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        _append(fresh, [*kept.values()])
        # Its time is that of the last grant; nothing was granted by being opened.
        born = max(wall - (now - self._born), 0.0)
        os.utime(fresh, (born, born))
        fresh.replace(path)
        if kept:
            log.info("hosts are still left alone", hosts=len(kept))


def _append(path: Path, pauses: Sequence[_Line]) -> None:
    with path.open("ab") as file:
        file.write(b"".join(msgspec.json.encode(pause) + b"\n" for pause in pauses))
        file.flush()
        os.fsync(file.fileno())
