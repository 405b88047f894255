"""What waits to be sent, by receiver and in order: only the first about each thing may go."""

from bisect import insort
from collections import Counter
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from crawlfleet.features.webhooks.model import Delivery
from crawlfleet.features.webhooks.rules.delivery import receiver_of


class QueuedDelivery(NamedTuple):
    """A delivery that waits, without what it says. They sort by the number of their event."""

    seq: int
    id: str
    subject: str
    due_at: float
    is_passing: bool = False
    """Whether it need not be sent once there is something newer."""


class ReceiverQueue:
    """What waits for one receiver: a line for each subject, of which the first is due some time."""

    def __init__(self) -> None:
        self._lines: dict[str, list[QueuedDelivery]] = {}
        self._due: list[tuple[float, int, str]] = []
        """When the first of a line is due, its number and the subject; some have been overtaken."""
        self._out: dict[str, QueuedDelivery] = {}
        """By subject, what is under way."""
        self.failures = 0
        """Since the last success."""
        self.rests_until = 0.0

    def put(self, waiting: QueuedDelivery) -> None:
        line = self._lines.setdefault(waiting.subject, [])
        insort(line, waiting)
        if line[0] is waiting:
            self._announce(waiting.subject)

    def take(self, now: float) -> QueuedDelivery | None:
        """Something that may go now; the rest of its line waits until it is `back`."""
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
        """What was taken is settled, or has to go again at that moment."""
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
        """Whether it need not be sent, since something newer stands behind it."""
        line = self._lines.get(waiting.subject)
        return waiting.is_passing and line is not None and line[-1].seq > waiting.seq

    def overtaken(self, subject: str) -> list[str]:
        """The ids of what need not be sent any more, and is not under way."""
        line, out = self._lines.get(subject, []), self._out.get(subject)
        return [each.id for each in line if each is not out and self.is_overtaken(each)]

    def drop(self, subject: str, id: str) -> bool:
        """Take something from its line; not what is under way, which will be `back`."""
        line, out = self._lines.get(subject, []), self._out.get(subject)
        left = [each for each in line if each.id != id or each is out]
        if len(left) == len(line):
            return False
        # Something newer is always left.
        self._lines[subject] = left
        self._announce(subject)
        return True

    def has_line(self, subject: str) -> bool:
        """Whether something about it waits, or is under way."""
        return subject in self._lines

    def next_due(self) -> float | None:
        """When something may go, at the earliest."""
        return max(self._due[0][0], self.rests_until) if self._due else None

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def _announce(self, subject: str) -> None:
        if subject not in self._out:
            first = self._lines[subject][0]
            heappush(self._due, (first.due_at, first.seq, subject))


class DeliveryQueue:
    """The shelves of all receivers. A delivery is on its shelf once, however often it is put."""

    def __init__(self) -> None:
        self._shelves: dict[str, ReceiverQueue] = {}
        self._ids: set[str] = set()
        self._waiting: Counter[str] = Counter()
        """By webhook."""
        self._at: Counter[str] = Counter()
        """By receiver."""
        self._agenda: list[tuple[float, str]] = []
        """When something may go to a receiver; some are out of date."""
        self._announced: dict[str, float] = {}
        """By receiver, the one of them that is not."""

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
        """The ids of those that need not be sent any more, now that there is this one."""
        if not delivery.url:
            return []
        return self.shelf(receiver_of(delivery)).overtaken(delivery.subject)

    def drop(self, delivery: Delivery) -> None:
        """One that was overtaken is settled."""
        receiver = receiver_of(delivery)
        shelf = self._shelves.get(receiver)
        if shelf is not None and shelf.drop(delivery.subject, delivery.id):
            self._ids.discard(delivery.id)
            self._waiting[delivery.webhook_id] -= 1
            self._at[receiver] -= 1
            self.mark_due(receiver)

    def find(self, receiver: str) -> ReceiverQueue | None:
        """The shelf of a receiver for which something waits, or did."""
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
        """How many wait for a webhook."""
        return self._waiting[webhook_id]

    def waiting_at(self, receiver: str) -> int:
        """How many wait for one receiver."""
        return self._at[receiver]

    def is_waited_for(self, delivery: Delivery) -> bool:
        """Whether something older about the same thing waits, which a newer may replace."""
        shelf = self._shelves.get(receiver_of(delivery))
        return shelf is not None and shelf.has_line(delivery.subject)

    def mark_due(self, receiver: str) -> None:
        """Have a receiver come up when something may go to it; not one that comes up before."""
        shelf = self._shelves.get(receiver)
        due = None if shelf is None else shelf.next_due()
        if due is not None and due < self._announced.get(receiver, inf):
            self._announced[receiver] = due
            heappush(self._agenda, (due, receiver))

    def mark_all_due(self) -> None:
        """Have each receiver come up to which something may go some time."""
        for receiver in self._shelves:
            self.mark_due(receiver)

    def next_due(self) -> float | None:
        """When the next receiver comes up."""
        while self._agenda:
            due, receiver = self._agenda[0]
            if self._announced.get(receiver) == due:
                return due
            heappop(self._agenda)
        return None

    def take_receiver(self, now: float) -> str | None:
        """One that has come up; it does not again before it is announced."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, receiver = heappop(self._agenda)
        del self._announced[receiver]
        return receiver


def webhook_of(receiver: str) -> str:
    """The id of the webhook that a receiver belongs to."""
    return receiver.partition(" ")[0]
