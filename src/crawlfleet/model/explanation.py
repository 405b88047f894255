"""Why a task can or cannot run: the words of placement, as values."""

import msgspec


class Reason(msgspec.Struct, frozen=True):
    """Why a node cannot take a task: which filter said no, and its words."""

    filter: str
    message: str


class NodeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one node has against the task; no reasons means that it could take it now."""

    node_id: str
    name: str
    reasons: tuple[Reason, ...] = ()


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and where a task could run now, and what stands in the way elsewhere."""

    summary: str
    """One sentence for people."""
    feasible: bool
    nodes: int
    feasible_nodes: int
    rejected: dict[str, int]
    """How many nodes each filter rejects; each node counts under the first that does."""
    details: tuple[NodeVerdict, ...]
    """At most a hundred nodes or so, those that came closest first."""
