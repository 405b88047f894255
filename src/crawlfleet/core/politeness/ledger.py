"""Ledger of the fleet: decides which engine may send requests to a host, domain or address, and
when.

A key with a delay belongs to one engine at a time, for a window of some seconds in which that
engine keeps the delay by itself; the next window begins a delay after the last start in it. A key
without a delay gives parts of its concurrency to several engines at once. The window of an engine
that is alone is extended before it ends, so it never waits. Waiting engines take turns in the order
of their requests. All keys of a request are granted together or not at all, so that no two engines
each hold a key that the other one waits for. A window that is not returned ends by itself: requests
under way count for as long as one can take, unless the engine is known to be gone.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from crawlfleet.model.crawl.politeness_entry import LedgerEntry, LedgerHold, LedgerTurn, User
from crawlfleet.model.wire.politeness import (
    KeyUse,
    LedgerReply,
    LedgerRequest,
    Refused,
    Return,
    Window,
    WindowRequest,
)

ALONE_S: Final = 10.0
"""Length of a window of an engine that is alone; the longest of all windows."""
SHARED_S: Final = 2.0
"""Length of the shortest window, in seconds."""
AHEAD_S: Final = 5.0
"""Seconds ahead up to which a window is granted."""
QUEUED_S: Final = 5.0
"""Seconds after its last request when a waiting engine loses its turn."""
LOOK_AGAIN_S: Final = 0.5
MAX_PAUSE_S: Final = 86_400.0


Living = Callable[[str], bool]
"""Function that returns whether an engine (by name) may still have requests under way."""


class _Offer(NamedTuple):
    """Window and permits that a key can give."""

    start: float
    end: float
    permits: int


class _No(NamedTuple):
    again_at: float
    why: str
    is_pause: bool = False


def keys_of(ask: LedgerRequest) -> set[str]:
    """Return all keys in a message."""
    keys = {terms.key for want in ask.wants for terms in want.keys}
    return keys | {each.key for each in ask.returns} | {each.key for each in ask.pauses}


def exchange(
    entries: Mapping[str, LedgerEntry],
    ask: LedgerRequest,
    *,
    name: str,
    now: float,
    born: float,
    living: Living,
) -> tuple[dict[str, LedgerEntry], LedgerReply]:
    """Return the new entries of the keys in a message, and the reply.

    A ledger does not know the windows that were granted before it was created, at `born`. So a key
    that is new to it is blocked until such a window must be over, and for its delay after that.
    """
    fresh = LedgerEntry(last_at=born + AHEAD_S + ALONE_S)
    book = {key: entries.get(key, fresh) for key in keys_of(ask)}
    for pause in ask.pauses:
        book[pause.key] = paused(book[pause.key], pause.for_s, pause.why, now)
    for each in ask.returns:
        book[each.key] = returned(book[each.key], each, name, now)
    windows: dict[str, Window] = {}
    refusals = []
    for want in ask.wants:
        answer = _grant(book, want, name, now, ask.longest_s, living)
        if isinstance(answer, Refused):
            refusals.append(answer)
        else:
            windows |= answer
    return book, LedgerReply(windows=tuple(windows.values()), refusals=tuple(refusals))


def paused(entry: LedgerEntry, for_s: float, why: str, now: float) -> LedgerEntry:
    """Return the entry, paused for this time unless it is already paused for longer."""
    until = now + min(max(for_s, 0.0), MAX_PAUSE_S)
    if until <= entry.paused_until:
        return entry
    return msgspec.structs.replace(entry, paused_until=until, pause=why)


def returned(entry: LedgerEntry, back: Return, name: str, now: float) -> LedgerEntry:
    """Return the entry after an engine has returned its window, with the part that it used."""
    if back.started_ago_s is not None:
        entry = _started(entry, now - back.started_ago_s)
    holds = []
    for hold in entry.holds:
        if hold.name != name:
            holds.append(hold)
        elif back.in_flight:
            holds.append(
                msgspec.structs.replace(
                    hold, until=min(hold.until, now), permits=back.in_flight, is_returned=True
                )
            )
    return msgspec.structs.replace(entry, holds=tuple(holds))


def use(key: str, entry: LedgerEntry, now: float) -> KeyUse:
    """Return the public view of a key."""
    return KeyUse(
        key=key,
        delay_s=entry.delay_s,
        concurrency=entry.concurrency,
        used_by=tuple(hold.name for hold in entry.holds if hold.lingers_until > now),
        waiting=tuple(
            dict.fromkeys(turn.name for turn in entry.queue if turn.asked_at > now - QUEUED_S)
        ),
        next_in_s=max(entry.next_at - now, 0.0),
        paused_for_s=max(entry.paused_until - now, 0.0),
        pause=entry.pause if entry.paused_until > now else "",
    )


def _started(entry: LedgerEntry, at: float) -> LedgerEntry:
    return msgspec.structs.replace(
        entry,
        last_at=max(entry.last_at, at),
        next_at=max(entry.next_at, at + entry.delay_s),
    )


def _grant(
    book: dict[str, LedgerEntry],
    want: WindowRequest,
    name: str,
    now: float,
    longest_s: float,
    living: Living,
) -> dict[str, Window] | Refused:
    """Return windows for all keys of a request, or the refusal; `book` is changed either way."""
    offers: dict[str, _Offer] = {}
    refused: Refused | None = None
    for terms in want.keys:
        user = User(name, now, terms.delay_s, terms.concurrency)
        entry = book[terms.key] = _tidied(book[terms.key], user, now, living)
        offer = _offer(entry, name, want.host, now, terms.most)
        if isinstance(offer, _No):
            # Of several, the one that lasts longest says when to come back.
            again_in_s = max(offer.again_at - now, 0.05)
            if refused is None or again_in_s > refused.again_in_s:
                refused = Refused(
                    host=want.host,
                    key=terms.key,
                    again_in_s=again_in_s,
                    why=offer.why,
                    is_pause=offer.is_pause,
                )
        else:
            offers[terms.key] = offer
    start = max((offer.start for offer in offers.values()), default=now)
    end = min((offer.end for offer in offers.values()), default=now)
    if refused is None and end - max(start, now) < LOOK_AGAIN_S / 2:
        late = next(key for key, offer in offers.items() if offer.end == end)
        refused = Refused(
            host=want.host, key=late, again_in_s=LOOK_AGAIN_S, why="it is another's turn"
        )
    if refused is not None:
        for terms in want.keys:
            book[terms.key] = _queued(book[terms.key], name, want.host, now)
        return refused
    windows = {}
    for key, offer in offers.items():
        book[key], until = _held(book[key], name, want.host, end, offer.permits, longest_s)
        windows[key] = Window(
            key=key,
            start_in_s=max(offer.start - now, 0.0),
            end_in_s=until - now,
            delay_s=book[key].delay_s,
            permits=offer.permits,
        )
    return windows


def _tidied(entry: LedgerEntry, user: User, now: float, living: Living) -> LedgerEntry:
    """Return the entry without windows and turns that are over, and with the requesting engine
    among its users. An engine that is gone counts until its window ends, plus one delay: after that
    the others have all of the key."""
    users = [each for each in entry.users if each.until > now and each.name != user.name]
    entry = msgspec.structs.replace(entry, users=(*users, user))
    kept = []
    for hold in entry.holds:
        if hold.until > now:
            kept.append(hold)
            continue
        if not hold.is_returned:
            # It may have used the last moment of its window.
            entry = _started(entry, hold.until)
        if hold.lingers_until > now and living(hold.name):
            kept.append(msgspec.structs.replace(hold, is_returned=True))
    queue = tuple(turn for turn in entry.queue if turn.asked_at > now - QUEUED_S)
    # A delay that grew since counts from the last start, too.
    next_at = max(entry.next_at, entry.last_at + entry.delay_s)
    involved = {hold.name for hold in kept} | {turn.name for turn in queue}
    users = [each for each in users if each.name in involved or living(each.name)]
    return msgspec.structs.replace(
        entry, users=(*users, user), holds=tuple(kept), queue=queue, next_at=next_at
    )


def _offer(entry: LedgerEntry, name: str, host: str, now: float, most: int) -> _Offer | _No:
    """Return the window that a key can give now to an engine that can use `most` permits, or a
    `_No`."""
    if entry.paused_until > now:
        return _No(entry.paused_until, entry.pause, is_pause=True)
    mine = next((hold for hold in entry.holds if hold.name == name and hold.until > now), None)
    others = [hold for hold in entry.holds if hold.name != name]
    delay_s = entry.delay_s
    active = [hold for hold in others if hold.until > now]
    if delay_s > 0.0 and active:
        last = max(active, key=lambda hold: hold.until)
        return _No(min(last.until, now + SHARED_S), f"{last.name} asks it now")
    free = entry.concurrency - sum(hold.permits for hold in others)
    if free <= 0:
        # By the window's end at the latest something is known; where it is over, any moment.
        soonest = min((hold.until for hold in active), default=now)
        again_at = max(min(soonest, now + SHARED_S), now + LOOK_AGAIN_S)
        return _No(again_at, f"{others[0].name} has requests under way")
    start = max(now, entry.next_at)
    first = next((turn for turn in entry.queue if turn.name != name), None)
    if mine is not None and first is not None:
        # No longer than that: others wait.
        return _Offer(start, mine.until, min(mine.permits, free, most or free))
    mine_too = next((turn for turn in entry.queue if _is(turn, name, host)), None)
    if first is not None and (mine_too is None or _place(first) < _place(mine_too)):
        return _No(now + LOOK_AGAIN_S, f"{first.name} is before it")
    if start - now > AHEAD_S:
        return _No(start - AHEAD_S / 2, "it was asked a moment ago")
    length_s = max(SHARED_S, ALONE_S / len(entry.users))
    permits = min(free, most or free)
    if delay_s == 0.0 and len(entry.users) > 1 and not most:
        fair = max(1, entry.concurrency // len(entry.users))
        # As many as it has may be under way: only it can say that it has use for fewer.
        permits = min(free, max(fair, mine.permits if mine else 0))
    return _Offer(start, start + length_s, permits)


def _is(turn: LedgerTurn, name: str, host: str) -> bool:
    return turn.name == name and turn.host == host


def _queued(entry: LedgerEntry, name: str, host: str, now: float) -> LedgerEntry:
    since = next((turn.since for turn in entry.queue if _is(turn, name, host)), now)
    others = (turn for turn in entry.queue if not _is(turn, name, host))
    queue = sorted((*others, LedgerTurn(since, name, host, now)), key=_place)
    return msgspec.structs.replace(entry, queue=tuple(queue))


def _place(turn: LedgerTurn) -> tuple[float, str, str]:
    return turn.since, turn.name, turn.host


def _held(
    entry: LedgerEntry, name: str, host: str, end: float, permits: int, longest_s: float
) -> tuple[LedgerEntry, float]:
    """Return the entry with the window added, and the window's end: not before that of a window the
    engine already has."""
    mine = next((hold.until for hold in entry.holds if hold.name == name), 0.0)
    until = max(mine, end)
    hold = LedgerHold(name, until, permits, until + longest_s)
    others = tuple(each for each in entry.holds if each.name != name)
    queue = tuple(turn for turn in entry.queue if not _is(turn, name, host))
    return msgspec.structs.replace(entry, holds=(*others, hold), queue=queue), until
