"""Tasks whose time has come and that have to wait all the same, by what each waits for."""

from collections.abc import Iterator
from itertools import islice


class HeldTasks:
    """First come, first served within each reason. A task waits for one thing at a time."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, None]] = {}
        self._reasons: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._reasons

    def __iter__(self) -> Iterator[str]:
        """The reasons for which something waits."""
        return iter([*self._lines])

    def put(self, reason: str, task_id: str) -> None:
        """Let a task wait; one that waits for this already keeps its place."""
        if self._reasons.get(task_id) == reason:
            return
        self.forget(task_id)
        self._reasons[task_id] = reason
        self._lines.setdefault(reason, {})[task_id] = None

    def forget(self, task_id: str) -> None:
        """The task waits no longer. May be called twice."""
        reason = self._reasons.pop(task_id, None)
        if reason is not None:
            line = self._lines[reason]
            del line[task_id]
            if not line:
                del self._lines[reason]

    def first(self, reason: str, number: int) -> list[str]:
        """The first that wait for something; they stay until they are forgotten."""
        return [*islice(self._lines.get(reason, ()), number)]

    def count(self, reason: str) -> int:
        return len(self._lines.get(reason, ()))

    def reason_of(self, task_id: str) -> str | None:
        """What a task waits for."""
        return self._reasons.get(task_id)
