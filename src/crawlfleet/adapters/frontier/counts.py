"""The totals of a frontier, as they are written beside its rows."""

import msgspec


class RunningTotals(msgspec.Struct, kw_only=True):
    """Running totals, written with each commit."""

    known: int = 0
    done: int = 0
    pages: int = 0
    dropped: int = 0
    lost: float = 0.0
    """Number of new URLs that Bloom filters are expected to have taken for known ones."""
    outcomes: dict[str, int] = {}
    depths: dict[int, int] = {}

    def copy(self) -> "RunningTotals":
        return msgspec.structs.replace(self, outcomes=dict(self.outcomes), depths=dict(self.depths))
