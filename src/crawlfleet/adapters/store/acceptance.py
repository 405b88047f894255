"""Decides which changes fit: the one place where versions, claims and epochs are compared.

Every store uses it, so that no two of them can differ. A store fills a `Present` with its rows and
claims that a batch names, then offers the changes one after another.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from crawlfleet.model.node import Node, Session
from crawlfleet.model.project import DEFAULT_CLUSTER, DEFAULT_PROJECT, Cluster, Project
from crawlfleet.model.task import Execution, Task
from crawlfleet.ports.store import Change, Claim, Refusal, RefusalKind

CLAIMS_PER_TASK: Final = 2
"""A task may hold an idempotency and a dedup key: how many expired claims go with a removed one."""

Written = Sequence[tuple[type[Any], Sequence[Any]]]


def rows_by_kind(change: Change) -> Written:
    """The rows of a change by kind, which is the class of the row.

    Nearly all changes are about a task and its execution alone: they cost one look at the rest.
    """
    hot = (Task, change.tasks), (Execution, change.executions)
    if not (change.rows or change.nodes or change.sessions):
        return hot
    others: dict[type[Any], list[Any]] = {}
    for row in change.rows:
        others.setdefault(type(row), []).append(row)
    return [*others.items(), (Node, change.nodes), (Session, change.sessions), *hot]


def default_rows(now: float) -> Change:
    """The project and the cluster that exist in every store from the start."""
    project = Project(id=DEFAULT_PROJECT, name=DEFAULT_PROJECT, created_at=now, updated_at=now)
    cluster = Cluster(
        id=DEFAULT_CLUSTER,
        project_id=DEFAULT_PROJECT,
        name=DEFAULT_CLUSTER,
        created_at=now,
        updated_at=now,
    )
    return Change(rows=(project, cluster))


class Present:
    """The versions and claims at one point of a batch; a row that is not there has version 0."""

    __slots__ = ("claims", "epoch", "open_sessions", "versions")

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self.versions: defaultdict[type[Any], dict[str, int]] = defaultdict(dict)
        """Versions of rows by kind (the class of the row), then by id."""
        self.claims: dict[tuple[str, str], Claim] = {}
        """Claims by scope and key."""
        self.open_sessions: dict[str, bool] = {}
        """The node sessions that have not ended; one that is not there has."""

    def accept(self, change: Change, parts: Written | None = None) -> Refusal | None:
        """Make `change` part of the present, or say what stands in its way and do nothing.

        `parts` are its rows by kind, where they are known.
        """
        if change.epoch is not None and change.epoch != self.epoch:
            return Refusal(kind=RefusalKind.EPOCH, subject=str(self.epoch))
        if change.under is not None and not self.open_sessions.get(change.under):
            return Refusal(kind=RefusalKind.SESSION, subject=change.under)
        undo: list[tuple[dict[Any, Any], Any, Any]] = []
        for kind, rows in rows_by_kind(change) if parts is None else parts:
            known = self.versions[kind]
            for row in rows:
                id, version = row.id, row.version
                before = known.get(id, 0)
                if before != version - 1:
                    _take_back(undo)
                    return Refusal(kind=RefusalKind.VERSION, subject=id)
                undo.append((known, id, before))
                known[id] = version
        for claim in change.claims:
            name = claim.scope, claim.key
            held = self.claims.get(name)
            if held and held.holder != claim.holder and held.expires_at > claim.at:
                _take_back(undo)
                return Refusal(kind=RefusalKind.CLAIM, subject=claim.scope, claim=held)
            undo.append((self.claims, name, held))
            self.claims[name] = claim
        for session in change.sessions:
            self.open_sessions[session.id] = session.ended_at is None
        return None


def _take_back(undo: list[tuple[dict[Any, Any], Any, Any]]) -> None:
    while undo:
        known, name, before = undo.pop()
        if before:
            known[name] = before
        else:
            del known[name]
