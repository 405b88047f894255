"""The part of the event log that is in the master's copy: its own commits, and others it read.

Events are numbered without gaps, so an event that is not its own was written by another master.
"""


class LogPosition:
    """All events up to `through` are in the copy, and some of this master's own beyond it."""

    def __init__(self) -> None:
        self.through = 0
        self.newest = 0
        """Highest number of an event that this master knows of."""
        self._own: list[tuple[int, int]] = []
        """Spans of own events beyond a gap: the number before the first, and that of the last."""

    def begin(self, seq: int) -> None:
        """Start from a copy loaded when this was the newest event; later ones may be missing."""
        self.through = seq
        self.newest = max(self.newest, seq)
        self._join()

    def hear(self, seq: int) -> None:
        """Note that another master has written events up to this one."""
        self.newest = max(self.newest, seq)

    def reach(self, seq: int) -> None:
        """Note that all events up to this one are in the copy."""
        self.through = max(self.through, seq)
        self.newest = max(self.newest, seq)
        self._join()

    def add_own(self, after: int, upto: int) -> None:
        """Note events that this master wrote itself, and has in the copy."""
        self.newest = max(self.newest, upto)
        if after <= self.through:
            self.through = max(self.through, upto)
            if self._own:
                self._join()
        elif self._own and self._own[-1][1] == after:
            self._own[-1] = (self._own[-1][0], upto)
        else:
            self._own.append((after, upto))

    def is_own(self, seq: int) -> bool:
        """Return whether this master wrote the event, of those beyond `through`."""
        return any(after < seq <= upto for after, upto in self._own)

    def _join(self) -> None:
        while self._own and self._own[0][0] <= self.through:
            self.through = max(self.through, self._own.pop(0)[1])
