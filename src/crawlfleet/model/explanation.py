"""Why a task can or cannot run: the words of placement, as values."""

from typing import Final

import msgspec

from crawlfleet.model.translatable import Phrase, Said

SIZE: Final = "size"
"""A cause: the node is smaller than what the task asks for, at work or not."""


class Reason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a node cannot take a task: which filter said no, and its words."""

    filter: str
    message: str
    code: str = ""
    """A stable word for what the message says; empty for the words of a plug-in."""
    values: dict[str, Said] = {}
    """What the message names, such as `needs` and `has`."""
    because: tuple[Phrase, ...] = ()
    """What is wrong with the node, where its health is the reason."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps a number of nodes from a task."""

    code: str
    """The name of the filter, or `size` where the node is too small at any time."""
    nodes: int
    """Each node counts once: under what lasts, if anything does."""
    lasting: bool
    """Whether it stays until somebody changes the node or the task; others pass by themselves."""


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
    causes: tuple[Cause, ...] = ()
    """What stands in the way: first what lasts, then what passes, and of each the most nodes."""
    details: tuple[NodeVerdict, ...]
    """At most a hundred nodes or so, those that came closest first."""
