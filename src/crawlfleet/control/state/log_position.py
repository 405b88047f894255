"""How much of the event log is in the master's copy: its own commits, and what others committed.

Numbers are given without gaps, so that whatever is not its own was somebody else's.
"""


class LogPosition:
    """All events up to `through` are in the copy; of those beyond, some are its own."""

    def __init__(self) -> None:
        self.through = 0
        self.newest = 0
        """The highest number that is known of."""
        self._own: list[tuple[int, int]] = []
        """Spans of its own events beyond a gap: after which number, up to which."""

    def begin(self, seq: int) -> None:
        """The copy was loaded when this was the newest event; what came later may be missing."""
        self.through = seq
        self.newest = max(self.newest, seq)
        self._join()

    def hear(self, seq: int) -> None:
        """Somebody else has written events up to this one."""
        self.newest = max(self.newest, seq)

    def reach(self, seq: int) -> None:
        """All events up to this one are in the copy."""
        self.through = max(self.through, seq)
        self.newest = max(self.newest, seq)
        self._join()

    def add_own(self, after: int, upto: int) -> None:
        """Events that this master wrote itself, and has in the copy."""
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
        """Whether this master wrote the event, beyond `through`."""
        return any(after < seq <= upto for after, upto in self._own)

    def _join(self) -> None:
        while self._own and self._own[0][0] <= self.through:
            self.through = max(self.through, self._own.pop(0)[1])
