"""What waits to be sent, by webhook and in order: only the first about each thing may go."""

from bisect import insort
from heapq import heappop, heappush
from typing import NamedTuple

from crawlfleet.model.webhook import Delivery


class Waiting(NamedTuple):
    """A delivery that waits, without what it says. They sort by the number of their event."""

    seq: int
    id: str
    subject: str
    due_at: float


class Shelf:
    """What waits for one webhook: a line for each subject, of which the first is due some time."""

    def __init__(self) -> None:
        self._lines: dict[str, list[Waiting]] = {}
        self._due: list[tuple[float, int, str]] = []
        """When the first of a line is due, its number and the subject; some have been overtaken."""
        self._out: set[str] = set()
        """Subjects of which something is under way."""
        self.failures = 0
        """Since the last success."""
        self.rests_until = 0.0

    def put(self, waiting: Waiting) -> None:
        line = self._lines.setdefault(waiting.subject, [])
        insort(line, waiting)
        if line[0] is waiting:
            self._announce(waiting.subject)

    def take(self, now: float) -> Waiting | None:
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
            self._out.add(subject)
            return line[0]
        return None

    def back(self, taken: Waiting, again_at: float | None) -> None:
        """What was taken is settled, or has to go again at that moment."""
        line = self._lines[taken.subject]
        line.remove(taken)
        if again_at is not None:
            insort(line, taken._replace(due_at=again_at))
        self._out.discard(taken.subject)
        if line:
            self._announce(taken.subject)
        else:
            del self._lines[taken.subject]

    def next_due(self) -> float | None:
        """When something may go, at the earliest."""
        return max(self._due[0][0], self.rests_until) if self._due else None

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def _announce(self, subject: str) -> None:
        if subject not in self._out:
            first = self._lines[subject][0]
            heappush(self._due, (first.due_at, first.seq, subject))


class Mailroom:
    """The shelves of all webhooks. A delivery is on its shelf once, however often it is put."""

    def __init__(self) -> None:
        self._shelves: dict[str, Shelf] = {}
        self._ids: set[str] = set()

    def put(self, delivery: Delivery) -> None:
        if delivery.id in self._ids:
            return
        self._ids.add(delivery.id)
        self.shelf(delivery.webhook_id).put(
            Waiting(delivery.seq, delivery.id, delivery.subject, delivery.due_at)
        )

    def shelf(self, webhook_id: str) -> Shelf:
        shelf = self._shelves.get(webhook_id)
        if shelf is None:
            shelf = self._shelves[webhook_id] = Shelf()
        return shelf

    def back(self, webhook_id: str, taken: Waiting, again_at: float | None) -> None:
        """As `Shelf.back`."""
        if again_at is None:
            self._ids.discard(taken.id)
        self._shelves[webhook_id].back(taken, again_at)

    def waiting(self, webhook_id: str) -> int:
        """How many wait for a webhook."""
        shelf = self._shelves.get(webhook_id)
        return len(shelf) if shelf else 0

    def webhook_ids(self) -> list[str]:
        """Those for which something waits, or did."""
        return [*self._shelves]
