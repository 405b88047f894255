"""Operations of a SQL store's writer besides commits, as steps that a driver carries out.

Each is a generator: it yields a statement with its values and is sent the rows found. So the order
of the steps is written once, for the thread of SQLite and the event loop of PostgreSQL.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from crawlfleet.adapters.store.acceptance import CLAIMS_PER_TASK
from crawlfleet.adapters.store.sql.queries import owned_values
from crawlfleet.adapters.store.sql.rows import RowMap
from crawlfleet.adapters.store.sql.statements import Rows, Statements, Values
from crawlfleet.model.change import NEVER
from crawlfleet.ports.tables import Query

T = TypeVar("T")


class Put(NamedTuple):
    """Rows to insert or replace, many at a time; each key at most once."""

    mapping: RowMap[Any]
    values: list[Any]
    """Row after row."""


Steps = Generator[tuple[T, Values] | Put, Rows, int]
Operation = Callable[[Statements[T]], Steps[T]]
"""Something to do in a transaction of its own or of others; it may be begun anew."""


def start() -> Operation[Any]:
    """Make sure that there is a row for the leader."""

    def steps(statements: Statements[T]) -> Steps[T]:
        yield statements.start_leadership, {}
        return 0

    return steps


def rewrite() -> Operation[Any]:
    """Write something that changes nothing, to see whether that works."""

    def steps(statements: Statements[T]) -> Steps[T]:
        yield statements.keep_seq, {"last_seq": 0}
        return 0

    return steps


def lead(leader: str) -> Operation[Any]:
    def steps(statements: Statements[T]) -> Steps[T]:
        rows = yield statements.lead, {"name": leader}
        return int(rows[0][0])

    return steps


def move_cursor(consumer: str, seq: int) -> Operation[Any]:
    def steps(statements: Statements[T]) -> Steps[T]:
        yield statements.move_cursor, {"name": consumer, "seq": seq}
        return seq

    return steps


def remove_cursor(consumer: str) -> Operation[Any]:
    def steps(statements: Statements[T]) -> Steps[T]:
        yield statements.remove_cursor, {"name": consumer}
        return 0

    return steps


def remove_finished(before: float, limit: int) -> Operation[Any]:
    def steps(statements: Statements[T]) -> Steps[T]:
        limits = {"before": before, "limit": max(limit, 0)}
        rows = yield statements.ended_tasks, limits
        ids = statements.listed(rows[0][0])
        yield statements.remove_tasks, {"ids": ids}
        yield statements.remove_attempts, {"ids": ids}
        yield statements.remove_endless_claims, {"ids": ids, "never": NEVER}
        yield statements.remove_claims, limits | {"limit": max(limit, 0) * CLAIMS_PER_TASK}
        return len(ids)

    return steps


def remove_sessions(before: float, limit: int) -> Operation[Any]:
    def steps(statements: Statements[T]) -> Steps[T]:
        rows = yield statements.ended_sessions, {"before": before, "limit": max(limit, 0)}
        ids = statements.listed(rows[0][0])
        yield statements.remove_sessions, {"ids": ids}
        return len(ids)

    return steps


def remove_nodes(before: float, limit: int) -> Operation[Any]:
    def steps(statements: Statements[T]) -> Steps[T]:
        rows = yield statements.archived_nodes, {"before": before, "limit": max(limit, 0)}
        ids = statements.listed(rows[0][0])
        yield statements.remove_nodes, {"ids": ids}
        yield statements.remove_node_samples, {"ids": ids}
        return len(ids)

    return steps


def remove_audit(before: float, limit: int) -> Operation[Any]:
    def steps(statements: Statements[T]) -> Steps[T]:
        rows = yield statements.old_audit, {"before": before, "limit": max(limit, 0)}
        ids = statements.listed(rows[0][0])
        yield statements.remove_audit, {"ids": ids}
        return len(ids)

    return steps


def remove(query: Query[Any]) -> Operation[Any]:
    """Remove the rows of a query, with those that they own; how many of them."""

    def steps(statements: Statements[T]) -> Steps[T]:
        queries, table = statements.queries, query.table
        if table.key != ("id",):
            plan = queries.remove_keys(query)
            return len((yield plan.statement, plan.runs[0]))
        plan = queries.ids(query)
        rows = yield plan.statement, plan.runs[0]
        ids = statements.listed(rows[0][0])
        yield queries.remove(table), {"ids": ids}
        for owned in table.owns:
            for values in owned_values(owned, ids):
                yield queries.remove_owned(owned), values
        return len(ids)

    return steps


def remove_events(before: float, limit: int) -> Operation[Any]:
    """Remove old events, and keep the newest number removed, which must not be given again when
    none is left.
    """

    def steps(statements: Statements[T]) -> Steps[T]:
        limits = {"before": before, "limit": max(limit, 0)}
        ((count, newest),) = yield statements.old_events, limits
        if count:
            yield statements.remove_events, limits
            yield statements.keep_seq, {"last_seq": newest}
        return int(count)

    return steps
