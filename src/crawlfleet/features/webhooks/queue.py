"""The queue of waiting deliveries, by receiver and in order: only the first about each subject may
be sent."""

from bisect import insort
from collections import Counter
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from crawlfleet.features.webhooks.model import Delivery
from crawlfleet.features.webhooks.rules.delivery import receiver_of


class QueuedDelivery(NamedTuple):
    """A waiting delivery without its body. Entries sort by the number of their event."""

    seq: int
    id: str
    subject: str
    due_at: float
    is_passing: bool = False
    """Set when the delivery can be dropped once there is a newer one about the same subject."""


class ReceiverQueue:
    """Deliveries that wait for one receiver: a line for each subject, the first of which is due
    next."""

    def __init__(self) -> None:
        self._lines: dict[str, list[QueuedDelivery]] = {}
        self._due: list[tuple[float, int, str]] = []
        """Due time, event number and subject of the first delivery of each line; entries may be
        stale."""
        self._out: dict[str, QueuedDelivery] = {}
        """Deliveries that are being sent now, by subject."""
        self.failures = 0
        """Number of failures since the last success."""
        self.rests_until = 0.0

    def put(self, waiting: QueuedDelivery) -> None:
        line = self._lines.setdefault(waiting.subject, [])
        insort(line, waiting)
        if line[0] is waiting:
            self._announce(waiting.subject)

    def take(self, now: float) -> QueuedDelivery | None:
        """Return a delivery that may be sent now, or `None`. The rest of its line waits until it is
        `back`."""
        while self._due:
            due_at, seq, subject = self._due[0]
            line = self._lines.get(subject)
            if (
                line is None
                or subject in self._out
                or (line[0].due_at, line[0].seq)
                != (
                    due_at,
                    seq,
                )
            ):
                heappop(self._due)
                continue
            if max(due_at, self.rests_until) > now:
                return None
            heappop(self._due)
            self._out[subject] = line[0]
            return line[0]
        return None

    def back(self, taken: QueuedDelivery, again_at: float | None) -> None:
        """Return a taken delivery: remove it as settled, or queue it again for `again_at`."""
        line = self._lines[taken.subject]
        line.remove(taken)
        if again_at is not None:
            insort(line, taken._replace(due_at=again_at))
        self._out.pop(taken.subject, None)
        if line:
            self._announce(taken.subject)
        else:
            del self._lines[taken.subject]

    def is_overtaken(self, waiting: QueuedDelivery) -> bool:
        """Return true if a delivery can be dropped, since a newer one about its subject waits
        behind it."""
        line = self._lines.get(waiting.subject)
        return waiting.is_passing and line is not None and line[-1].seq > waiting.seq

    def overtaken(self, subject: str) -> list[str]:
        """Return the ids of the superseded deliveries of a subject that are not being sent now."""
        line, out = self._lines.get(subject, []), self._out.get(subject)
        return [each.id for each in line if each is not out and self.is_overtaken(each)]

    def drop(self, subject: str, id: str) -> bool:
        """Remove a delivery from its line; false if it is not there, or is being sent now."""
        line, out = self._lines.get(subject, []), self._out.get(subject)
        left = [each for each in line if each.id != id or each is out]
        if len(left) == len(line):
            return False
        # Something newer is always left.
        self._lines[subject] = left
        self._announce(subject)
        return True

    def has_line(self, subject: str) -> bool:
        """Return true if a delivery about the subject waits, or is being sent."""
        return subject in self._lines

    def next_due(self) -> float | None:
        """Return the earliest time at which a delivery may be sent; `None` if none waits."""
        return max(self._due[0][0], self.rests_until) if self._due else None

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def _announce(self, subject: str) -> None:
        if subject not in self._out:
            first = self._lines[subject][0]
            heappush(self._due, (first.due_at, first.seq, subject))


class DeliveryQueue:
    """The queues of all receivers. Each delivery is queued once, however often it is `put`."""

    def __init__(self) -> None:
        self._shelves: dict[str, ReceiverQueue] = {}
        self._ids: set[str] = set()
        self._waiting: Counter[str] = Counter()
        """Number of waiting deliveries by webhook id."""
        self._at: Counter[str] = Counter()
        """Number of waiting deliveries by receiver."""
        self._agenda: list[tuple[float, str]] = []
        """Heap of receivers by the time of their next delivery; entries may be stale."""
        self._announced: dict[str, float] = {}
        """Time of the entry in `_agenda` that is valid, by receiver."""

    def put(self, delivery: Delivery) -> None:
        if delivery.id in self._ids:
            return
        self._ids.add(delivery.id)
        receiver = receiver_of(delivery)
        self._waiting[delivery.webhook_id] += 1
        self._at[receiver] += 1
        self.shelf(receiver).put(
            QueuedDelivery(
                delivery.seq, delivery.id, delivery.subject, delivery.due_at, delivery.is_passing
            )
        )
        self.mark_due(receiver)

    def overtaken_by(self, delivery: Delivery) -> list[str]:
        """Return the ids of waiting deliveries that this one supersedes."""
        if not delivery.url:
            return []
        return self.shelf(receiver_of(delivery)).overtaken(delivery.subject)

    def drop(self, delivery: Delivery) -> None:
        """Remove a superseded delivery."""
        receiver = receiver_of(delivery)
        shelf = self._shelves.get(receiver)
        if shelf is not None and shelf.drop(delivery.subject, delivery.id):
            self._ids.discard(delivery.id)
            self._waiting[delivery.webhook_id] -= 1
            self._at[receiver] -= 1
            self.mark_due(receiver)

    def find(self, receiver: str) -> ReceiverQueue | None:
        """Return the queue of a receiver; `None` if nothing was queued for it."""
        return self._shelves.get(receiver)

    def shelf(self, receiver: str) -> ReceiverQueue:
        shelf = self._shelves.get(receiver)
        if shelf is None:
            shelf = self._shelves[receiver] = ReceiverQueue()
        return shelf

    def back(self, receiver: str, taken: QueuedDelivery, again_at: float | None) -> None:
        """As `ReceiverQueue.back`."""
        shelf = self._shelves[receiver]
        shelf.back(taken, again_at)
        if again_at is None:
            self._ids.discard(taken.id)
            self._waiting[webhook_of(receiver)] -= 1
            self._at[receiver] -= 1
            if not self._at[receiver]:
                del self._at[receiver]
            if not shelf and webhook_of(receiver) != receiver:
                # Call-backs may go to a new place with each task.
                del self._shelves[receiver]
        self.mark_due(receiver)

    def waiting(self, webhook_id: str) -> int:
        """Return the number of deliveries that wait for a webhook."""
        return self._waiting[webhook_id]

    def waiting_at(self, receiver: str) -> int:
        """Return the number of deliveries that wait for a receiver."""
        return self._at[receiver]

    def is_waited_for(self, delivery: Delivery) -> bool:
        """Return true if an older delivery about the same subject waits, which this one may
        replace."""
        shelf = self._shelves.get(receiver_of(delivery))
        return shelf is not None and shelf.has_line(delivery.subject)

    def mark_due(self, receiver: str) -> None:
        """Schedule a receiver for the time of its next delivery, unless it is scheduled for an
        earlier one."""
        shelf = self._shelves.get(receiver)
        due = None if shelf is None else shelf.next_due()
        if due is not None and due < self._announced.get(receiver, inf):
            self._announced[receiver] = due
            heappush(self._agenda, (due, receiver))

    def mark_all_due(self) -> None:
        """Schedule every receiver that has waiting deliveries."""
        for receiver in self._shelves:
            self.mark_due(receiver)

    def next_due(self) -> float | None:
        """Return the time at which the next receiver is scheduled; `None` if none is."""
        while self._agenda:
            due, receiver = self._agenda[0]
            if self._announced.get(receiver) == due:
                return due
            heappop(self._agenda)
        return None

    def take_receiver(self, now: float) -> str | None:
        """Return a receiver whose time has come, or `None`. It is then no longer scheduled."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, receiver = heappop(self._agenda)
        del self._announced[receiver]
        return receiver


def webhook_of(receiver: str) -> str:
    """The id of the webhook that a receiver belongs to."""
    return receiver.partition(" ")[0]
