"""Explanations why a task can or cannot run: results of placement as values."""

from typing import Final

import msgspec

from crawlfleet.model.translatable import Phrase, Said

SIZE: Final = "size"
"""Code of a cause: the total capacity of the node is smaller than the task needs."""


class Reason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Reason why a node cannot take a task, with the filter that rejected it."""

    filter: str
    message: str
    code: str = ""
    """Stable code for the message; empty for filters of a plug-in."""
    values: dict[str, Said] = {}
    """Values in the message, such as `needs` and `has`."""
    because: tuple[Phrase, ...] = ()
    """Problems of the node, where its health is the reason."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One reason that keeps a number of nodes from a task."""

    code: str
    """Name of the filter, or `size` where the node's total capacity is too small."""
    nodes: int
    """Number of nodes. Each node counts for one cause only; lasting causes come first."""
    lasting: bool
    """True if the cause stays until somebody changes the node or the task; other causes pass by
    themselves."""


class NodeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of placement for one node; without reasons the node could take the task now."""

    node_id: str
    name: str
    reasons: tuple[Reason, ...] = ()


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of placement for a task: nodes that fit, and the reasons against the others."""

    summary: str
    """One sentence for people."""
    feasible: bool
    nodes: int
    feasible_nodes: int
    rejected: dict[str, int]
    """Number of nodes that each filter rejects; a node counts for the first filter that rejects
    it."""
    causes: tuple[Cause, ...] = ()
    """Causes that prevent placement: lasting causes first, then by number of nodes."""
    details: tuple[NodeVerdict, ...]
    """Results for about a hundred nodes at most, the closest to fitting first."""
