"""Every statement of the SQLite store, written in SQLAlchemy and compiled once to SQL text.

Rows are written many at a time by one statement, and versions are read as one JSON object: the
driver gives up the interpreter lock for each step of a statement and must win it back, so that
on a busy machine the number of steps, not of rows, decides how long a transaction takes.
(128 rows while another thread computes: 234 ms one by one, 20 ms in one statement.)
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Delete,
    Select,
    Table,
    TableValuedAlias,
    Update,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.elements import UnaryExpression
from sqlalchemy.sql.operators import custom_op

from crawlfleet.backends.sql import schema
from crawlfleet.backends.sql.schema import (
    among,
    claims,
    cursors,
    events,
    executions,
    leadership,
    tasks,
)
from crawlfleet.model.task import TERMINAL, TaskStatus

NAMED: Final = sqlite.dialect(paramstyle="named")
POSITIONAL: Final = sqlite.dialect(paramstyle="qmark")

LARGEST_CHUNK: Final = 128
"""Rows in one statement at most: 128 tasks are 4,096 values; more per statement gains nothing."""


def _text(statement: Select[Any] | sqlite.Insert | Update | Delete) -> str:
    """The SQL of a statement, with its parameters by name (`:ids`)."""
    return str(statement.compile(dialect=NAMED))


def _limited(statement: Select[Any]) -> Select[Any]:
    return statement.limit(bindparam("limit")).offset(literal_column("0"))


def chunk_sizes(count: int) -> Iterator[int]:
    """Powers of two that add up to `count`, so that few different statements serve every count."""
    while count:
        size = min(LARGEST_CHUNK, 1 << (count.bit_length() - 1))
        yield size
        count -= size


@cache
def upsert(table: Table, rows: int = 1) -> str:
    """Insert or replace `rows` rows, whose values follow one another in column order.

    Whether each of them may be written has been decided before.
    """
    insert = sqlite.insert(table)
    values = {c.key: insert.excluded[c.key] for c in table.columns if not c.primary_key}
    statement = insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=values)
    row = f"({', '.join('?' * len(table.columns))})"
    head, found, tail = str(statement.compile(dialect=POSITIONAL)).partition(row)
    assert found, f"no row of values in the statement for {table.name}"
    return head + ", ".join([row] * rows) + tail


def _given(name: str) -> TableValuedAlias:
    """The values of the JSON array that is passed as `name`."""
    return func.json_each(bindparam(name)).table_valued("value")


def _among_ids(column: Column[Any]) -> ColumnElement[bool]:
    return column.in_(select(_given("ids").c.value))


@cache
def versions(table: Table) -> str:
    """id → version of those rows among `:ids` that exist, as one JSON object."""
    version_of = func.json_group_object(table.c.id, table.c.version)
    return _text(select(version_of).where(_among_ids(table.c.id)))


@cache
def by_ids(table: Table) -> str:
    return _text(select(table).where(_among_ids(table.c.id)))


@cache
def in_order(table: Table) -> str:
    return _text(select(table).order_by(table.c.id))


def _claims_named() -> Select[Any]:
    pairs = _given("names")
    scope, key = (
        func.json_extract(pairs.c.value, literal_column(f"'$[{i}]'"), type_=claims.c.scope.type)
        for i in (0, 1)
    )
    return select(claims).join_from(
        pairs, claims, (claims.c.scope == scope) & (claims.c.key == key)
    )


CLAIMS_NAMED: Final = _text(_claims_named())
"""The claims that exist among the pairs of scope and key in `:names`."""

NODES_IN: Final = _text(
    select(schema.nodes)
    .where(schema.nodes.c.status.in_(select(_given("states").c.value)))
    .order_by(schema.nodes.c.id)
)
LIVE_SESSIONS: Final = _text(
    select(schema.sessions)
    .where(schema.sessions.c.ended_at.is_(None))
    .order_by(schema.sessions.c.id)
)
OPEN_SESSIONS: Final = _text(
    select(schema.sessions.c.id)
    .where(schema.sessions.c.ended_at.is_(None))
    .where(schema.sessions.c.id.in_(select(_given("ids").c.value)))
)
"""The ids among `:ids` of sessions that have not ended."""
LIVE_EXECUTIONS: Final = _text(select(executions).where(schema.HOLDING).order_by(executions.c.id))
ATTEMPTS: Final = _text(
    select(executions)
    .where(executions.c.task_id == bindparam("task_id"))
    .order_by(executions.c.token, executions.c.id)
)
UNFINISHED_IDS: Final = _text(
    select(func.json_group_array(tasks.c.id)).where(
        among(tasks.c.status, set(TaskStatus) - TERMINAL)
    )
)

FILTERS: Final = ("workflow_id", "assigned_node", "status", "project_id", "task_type")
"""The columns that tasks can be found by, the most selective index first."""


def _unindexed(column: Column[Any]) -> ColumnElement[Any]:
    """The same value, but SQLite will not choose an index by it (`+column`)."""
    return UnaryExpression(column, operator=custom_op("+"), type_=column.type)


@cache
def find_tasks(given: tuple[str, ...], dead: bool | None, after: bool, newest_first: bool) -> str:
    """Up to `:limit` tasks that match `given` (a part of `FILTERS`, in that order).

    Without statistics SQLite guesses which index is best, so it is left one to choose from.
    """
    statement = select(tasks)
    indexed = not dead
    for name in given:
        column = tasks.c[name] if indexed else _unindexed(tasks.c[name])
        indexed = False
        statement = statement.where(column == bindparam(name))
    if dead is not None:
        reason = tasks.c.dead_reason
        statement = statement.where(reason.is_not(None) if dead else reason.is_(None))
    if after:
        bound = bindparam("after", type_=tasks.c.id.type)
        statement = statement.where(tasks.c.id < bound if newest_first else tasks.c.id > bound)
    order = tasks.c.id.desc() if newest_first else tasks.c.id
    return _text(_limited(statement.order_by(order)))


@cache
def count_tasks(of_project: bool) -> str:
    statement = select(tasks.c.status, func.count()).group_by(tasks.c.status)
    if of_project:
        statement = statement.where(_unindexed(tasks.c.project_id) == bindparam("project_id"))
    return _text(statement)


@cache
def find_events(of_subject: bool) -> str:
    statement = select(events).where(events.c.seq > bindparam("after"))
    if of_subject:
        statement = statement.where(events.c.subject == bindparam("subject"))
    return _text(_limited(statement.order_by(events.c.seq)))


CURSOR: Final = _text(select(cursors.c.seq).where(cursors.c.consumer == bindparam("consumer")))


def _move_cursor() -> sqlite.Insert:
    insert = sqlite.insert(cursors).values(
        consumer=bindparam("consumer"), seq=bindparam("seq", type_=cursors.c.seq.type)
    )
    further = func.max(cursors.c.seq, insert.excluded.seq)
    return insert.on_conflict_do_update(index_elements=[cursors.c.consumer], set_={"seq": further})


MOVE_CURSOR: Final = _text(_move_cursor())

LEADERSHIP: Final = _text(select(leadership.c.epoch, leadership.c.removed_seq))
START_LEADERSHIP: Final = _text(
    sqlite.insert(leadership)
    .inline()
    .values(id=literal_column("1"), epoch=literal_column("0"), leader=literal_column("''"))
    .values(removed_seq=literal_column("0"))
    .on_conflict_do_nothing()
)
LEAD: Final = _text(
    update(leadership).values(epoch=bindparam("epoch_now"), leader=bindparam("leader_now"))
)
LAST_SEQ: Final = _text(select(func.max(events.c.seq)))
KEEP_SEQ: Final = _text(update(leadership).values(removed_seq=bindparam("last_seq")))

ENDED_IDS: Final = _text(
    select(func.json_group_array(literal_column("id"))).select_from(
        _limited(
            select(tasks.c.id)
            .where(tasks.c.completed_at < bindparam("before"))
            .where(among(_unindexed(tasks.c.status), TERMINAL))
            .order_by(tasks.c.completed_at, tasks.c.id)
        ).subquery()
    )
)
REMOVE_TASKS: Final = _text(delete(tasks).where(_among_ids(tasks.c.id)))
REMOVE_ATTEMPTS: Final = _text(delete(executions).where(_among_ids(executions.c.task_id)))
REMOVE_ENDLESS_CLAIMS: Final = _text(
    delete(claims)
    .where(_among_ids(claims.c.holder))
    .where(_unindexed(claims.c.expires_at) == bindparam("never"))
)
REMOVE_CLAIMS: Final = _text(
    delete(claims).where(
        tuple_(claims.c.scope, claims.c.key).in_(
            _limited(
                select(claims.c.scope, claims.c.key)
                .where(claims.c.expires_at <= bindparam("before"))
                .order_by(claims.c.expires_at, claims.c.scope, claims.c.key)
            )
        )
    )
)


def _remove_events() -> Delete:
    old = _limited(select(events.c.seq, events.c.at).order_by(events.c.seq)).subquery()
    return delete(events).where(
        events.c.seq.in_(select(old.c.seq).where(old.c.at < bindparam("before")))
    )


REMOVE_EVENTS: Final = _text(_remove_events())
