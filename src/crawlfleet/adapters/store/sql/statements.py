"""The statements that both SQL stores use, written in SQLAlchemy and compiled once.

What the databases say differently is asked of a `Dialect`; what only one of them has is in the
module of that one, `sqlite/statements.py` and `postgres/statements.py`.
"""

from functools import cache
from typing import Final, Generic

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Table,
    bindparam,
    delete,
    func,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    update,
)

from crawlfleet.adapters.store.sql import schema
from crawlfleet.adapters.store.sql.columns import is_met
from crawlfleet.adapters.store.sql.dialect import Core as Core
from crawlfleet.adapters.store.sql.dialect import Dialect, T, limited
from crawlfleet.adapters.store.sql.dialect import Rows as Rows
from crawlfleet.adapters.store.sql.dialect import Values as Values
from crawlfleet.adapters.store.sql.queries import Queries
from crawlfleet.adapters.store.sql.schema import (
    among,
    audit,
    claims,
    cursors,
    events,
    execution_logs,
    executions,
    leadership,
    node_samples,
    nodes,
    sessions,
    tasks,
)
from crawlfleet.model.task import TERMINAL, TaskStatus
from crawlfleet.ports.store import TaskFilter

FILTERS: Final = (
    "parent_id",
    "workflow_id",
    "assigned_node",
    "status",
    "project_id",
    "task_type",
    "cluster_id",
    "error_class",
    "reason",
)
"""Names of the filters of tasks, the most selective index first; the last four have none."""


def filters_of(filter: TaskFilter) -> tuple[tuple[str, ...], Values]:
    """Return which of `FILTERS` a filter uses, and their values except the states."""
    values = {name: getattr(filter, name) for name in FILTERS if name != "status"}
    values = {name: value for name, value in values.items() if value is not None}
    if filter.error_class is not None:
        # How every error's JSON begins, in the column.
        values["error_class"] = f'{{"error_class":"{filter.error_class}"'
    given = tuple(
        name for name in FILTERS if name in values or (name == "status" and filter.status)
    )
    return given, values


class Statements(Generic[T]):
    """All statements in one dialect. Names of parameters are in the comments where they matter."""

    def __init__(self, dialect: Dialect[T]) -> None:
        self._dialect = dialect
        self.listed = dialect.listed
        self.queries = Queries(dialect)
        self.by_ids = cache(self._by_ids)
        self.in_order = cache(self._in_order)
        self.find_tasks = cache(self._find_tasks)
        self.task_states = dialect.finish(
            select(tasks.c.id, tasks.c.status).where(dialect.among_given(tasks.c.id, "ids"))
        )
        self.task_owners = dialect.finish(
            select(tasks.c.id, tasks.c.project_id).where(dialect.among_given(tasks.c.id, "ids"))
        )
        self.count_tasks = cache(self._count_tasks)
        self.find_events = cache(self._find_events)
        self.find_logs = cache(self._find_logs)
        self.find_audit = cache(self._find_audit)
        finish = dialect.finish
        self.nodes_in = finish(
            select(schema.nodes)
            .where(dialect.among_given(schema.nodes.c.status, "states"))
            .order_by(schema.nodes.c.id)
        )
        self.live_sessions = finish(
            select(sessions).where(sessions.c.ended_at.is_(None)).order_by(sessions.c.id)
        )
        self.live_executions = finish(
            select(executions).where(schema.HOLDING).order_by(executions.c.id)
        )
        self.live_attempts = finish(
            select(executions)
            .where(dialect.among_given(executions.c.task_id, "ids"))
            .where(schema.HOLDING)
            .order_by(executions.c.id)
        )
        self.attempts = finish(
            select(executions)
            .where(executions.c.task_id == bindparam("task_id"))
            .order_by(executions.c.token, executions.c.id)
        )
        self.unfinished_ids = finish(
            select(dialect.collect(tasks.c.id)).where(
                among(tasks.c.status, set(TaskStatus) - TERMINAL)
            )
        )
        self.shards = finish(
            select(
                tasks.c.id,
                tasks.c.shard,
                tasks.c.status,
                tasks.c.execution_id,
                tasks.c.assigned_node,
                executions.c.metrics,
            )
            .select_from(tasks.outerjoin(executions, executions.c.id == tasks.c.execution_id))
            .where(tasks.c.parent_id == bindparam("parent_id"))
            .order_by(tasks.c.shard, tasks.c.id)
        )
        unfinished = among(tasks.c.status, set(TaskStatus) - TERMINAL)
        self.count_unfinished = finish(
            select(tasks.c.status, func.count())
            .where(unfinished)
            .where(tasks.c.cluster_id == bindparam("cluster_id"))
            .group_by(tasks.c.status)
        )
        self.count_by_project = finish(
            select(tasks.c.project_id, tasks.c.status, func.count()).group_by(
                tasks.c.status, tasks.c.project_id
            )
        )
        self.claim = finish(
            select(claims)
            .where(claims.c.scope == bindparam("scope"))
            .where(claims.c.key == bindparam("key"))
        )
        self.cursor = finish(select(cursors.c.seq).where(cursors.c.consumer == bindparam("name")))
        self._leadership()
        self._removals()
        self._history()

    def _by_ids(self, table: Table) -> T:
        return self._dialect.finish(
            select(table).where(self._dialect.among_given(table.c.id, "ids"))
        )

    def _in_order(self, table: Table) -> T:
        return self._dialect.finish(select(table).order_by(table.c.id))

    def _find_tasks(
        self,
        given: tuple[str, ...],
        dead: bool | None,
        after: bool,
        newest_first: bool,
        with_results: bool,
    ) -> T:
        """Up to `limit` tasks that match `given` (a part of `FILTERS`, in that order).

        Without statistics SQLite guesses which index is best, so it is left one to choose from.
        """
        statement = select(
            *(
                each if with_results or each is not tasks.c.result else null().label("result")
                for each in tasks.c
            )
        )
        indexed = not dead
        for name in given:
            statement = statement.where(self._is_given(name, indexed))
            indexed = False
        if dead is not None:
            reason = tasks.c.dead_reason
            statement = statement.where(reason.is_not(None) if dead else reason.is_(None))
        if after:
            bound = bindparam("after", type_=tasks.c.id.type)
            statement = statement.where(tasks.c.id < bound if newest_first else tasks.c.id > bound)
        order = tasks.c.id.desc() if newest_first else tasks.c.id
        return self._dialect.finish(limited(statement.order_by(order)))

    def _is_given(self, name: str, indexed: bool) -> ColumnElement[bool]:
        """Return the condition that a task matches the parameter of that name."""
        given = bindparam(name, type_=tasks.c.id.type)
        if name == "error_class":
            start = literal_column("1", BigInteger())
            return func.substr(tasks.c.error, start, func.length(given)) == given
        if name == "reason":
            return func.replace(tasks.c.dead_reason, given, literal_column("''")) != (
                tasks.c.dead_reason
            )
        column = tasks.c[name] if indexed else self._dialect.unindexed(tasks.c[name])
        return column == bindparam(name)

    def _count_tasks(self, of_project: bool) -> T:
        statement = select(tasks.c.status, func.count()).group_by(tasks.c.status)
        if of_project:
            project = self._dialect.unindexed(tasks.c.project_id)
            statement = statement.where(project == bindparam("project_id"))
        return self._dialect.finish(statement)

    def _find_events(self, of_subject: bool) -> T:
        statement = select(events).where(events.c.seq > bindparam("after"))
        if of_subject:
            statement = statement.where(events.c.subject == bindparam("subject"))
        return self._dialect.finish(limited(statement.order_by(events.c.seq)))

    def _find_logs(self, of_levels: bool) -> T:
        logs = execution_logs.c
        statement = select(execution_logs).where(logs.execution_id == bindparam("execution_id"))
        statement = statement.where(logs.seq > bindparam("after"))
        if of_levels:
            statement = statement.where(self._dialect.among_given(logs.level, "levels"))
        return self._dialect.finish(limited(statement.order_by(logs.seq)))

    def _history(self) -> None:
        finish, logs, samples = self._dialect.finish, execution_logs.c, node_samples.c
        self.forget_lines = finish(
            delete(execution_logs)
            .where(logs.execution_id == bindparam("execution_id"))
            .where(logs.seq >= bindparam("first"))
            .where(logs.seq <= bindparam("last"))
        )
        self.remove_logs = finish(
            delete(execution_logs)
            .where(
                tuple_(logs.execution_id, logs.seq).in_(
                    limited(
                        select(logs.execution_id, logs.seq)
                        .where(logs.at < bindparam("before"))
                        .order_by(logs.at)
                    )
                )
            )
            .returning(logs.seq)
        )
        self.oldest_log = finish(select(func.min(logs.at)).where(logs.at >= bindparam("since")))
        size = self._dialect.size_of
        no_fields = literal_column("0", BigInteger())
        self.log_size = finish(
            select(
                func.count(),
                func.sum(size(logs.message) + func.coalesce(size(logs.fields), no_fields)),
            )
            .where(logs.at >= bindparam("since"))
            .where(logs.at < bindparam("until"))
        )
        at = (samples.at >= bindparam("since")) & (samples.at < bindparam("until"))
        of_node = (samples.node_id == bindparam("node_id")) & (
            samples.resolution == bindparam("resolution")
        )
        self.find_samples = finish(
            limited(select(node_samples).where(of_node & at).order_by(samples.at))
        )
        self.remove_samples = finish(delete(node_samples).where(of_node & at))

    def _find_audit(self, given: frozenset[str]) -> T:
        """Select up to `limit` entries, newest first; `given` names the parameters that
        restrict.
        """
        columns, actor = audit.c, bindparam("actor", type_=audit.c.actor.type)
        conditions = {
            "actor": (columns.actor == actor) | (columns.actor_id == actor),
            "action": columns.action == bindparam("action"),
            "subject": self._dialect.holds(columns.subjects, "subject"),
            "since": columns.at >= bindparam("since"),
            "until": columns.at < bindparam("until"),
            "after": columns.id < bindparam("after", type_=columns.id.type),
        }
        statement = select(audit).where(*(conditions[name] for name in sorted(given)))
        return self._dialect.finish(limited(statement.order_by(columns.id.desc())))

    def _leadership(self) -> None:
        dialect, finish = self._dialect, self._dialect.finish
        first = {"id": "1", "epoch": "0", "leader": "''", "removed_seq": "0"}
        self.start_leadership = finish(
            dialect.insert(leadership)
            .inline()
            .values({name: literal_column(value) for name, value in first.items()})
            .on_conflict_do_nothing()
        )
        self.leadership = finish(
            select(leadership.c.epoch, dialect.larger(leadership.c.removed_seq, newest_event()))
        )
        self.leader = finish(select(leadership.c.epoch, leadership.c.leader))
        self.lead = finish(
            update(leadership)
            .values(epoch=leadership.c.epoch + literal_column("1"), leader=bindparam("name"))
            .returning(leadership.c.epoch)
        )
        self.keep_seq = finish(
            update(leadership).values(
                removed_seq=dialect.larger(
                    leadership.c.removed_seq, bindparam("last_seq", type_=events.c.seq.type)
                )
            )
        )
        insert = dialect.insert(cursors).values(
            consumer=bindparam("name"), seq=bindparam("seq", type_=cursors.c.seq.type)
        )
        further = dialect.larger(cursors.c.seq, insert.excluded.seq)
        self.move_cursor = finish(
            insert.on_conflict_do_update(index_elements=[cursors.c.consumer], set_={"seq": further})
        )

    def _removals(self) -> None:
        dialect, finish = self._dialect, self._dialect.finish
        self.remove_cursor = finish(delete(cursors).where(cursors.c.consumer == bindparam("name")))
        parents = tasks.alias("parents")
        is_needed = (
            select(parents.c.id)
            .where(parents.c.id == tasks.c.parent_id)
            .where(parents.c.completed_at.is_(None))
            .exists()
        )
        ended = limited(
            select(tasks.c.id)
            .where(tasks.c.completed_at < bindparam("before"))
            .where(among(dialect.unindexed(tasks.c.status), TERMINAL))
            .where(dialect.unindexed(tasks.c.parent_id).is_(None) | ~is_needed)
            .where(dialect.unindexed(tasks.c.workflow_id).is_(None) | ~_is_kept())
            .order_by(tasks.c.completed_at, tasks.c.id)
        ).subquery()
        self.ended_tasks = finish(select(dialect.collect(ended.c.id)))
        self.remove_tasks = finish(
            delete(tasks)
            .where(dialect.among_given(tasks.c.id, "ids"))
            .returning(tasks.c.project_id, tasks.c.status)
        )
        self.remove_attempts = finish(
            delete(executions).where(dialect.among_given(executions.c.task_id, "ids"))
        )
        self.remove_endless_claims = finish(
            delete(claims)
            .where(dialect.among_given(claims.c.holder, "ids"))
            .where(dialect.unindexed(claims.c.expires_at) == bindparam("never"))
        )
        self.remove_claims = finish(
            delete(claims).where(
                tuple_(claims.c.scope, claims.c.key).in_(
                    limited(
                        select(claims.c.scope, claims.c.key)
                        .where(claims.c.expires_at <= bindparam("before"))
                        .order_by(claims.c.expires_at, claims.c.scope, claims.c.key)
                    )
                )
            )
        )
        over = limited(
            select(sessions.c.id)
            .where(sessions.c.ended_at < bindparam("before"))
            .order_by(sessions.c.ended_at, sessions.c.id)
        ).subquery()
        self.ended_sessions = finish(select(dialect.collect(over.c.id)))
        self.remove_sessions = finish(
            delete(sessions).where(dialect.among_given(sessions.c.id, "ids"))
        )
        removed = limited(
            select(nodes.c.id)
            .where(nodes.c.archived_at < bindparam("before"))
            .order_by(nodes.c.archived_at, nodes.c.id)
        ).subquery()
        self.archived_nodes = finish(select(dialect.collect(removed.c.id)))
        self.remove_nodes = finish(delete(nodes).where(dialect.among_given(nodes.c.id, "ids")))
        self.remove_node_samples = finish(
            delete(node_samples).where(dialect.among_given(node_samples.c.node_id, "ids"))
        )
        told = limited(
            select(audit.c.id)
            .where(audit.c.at < bindparam("before"))
            .order_by(audit.c.at, audit.c.id)
        ).subquery()
        self.old_audit = finish(select(dialect.collect(told.c.id)))
        self.remove_audit = finish(delete(audit).where(dialect.among_given(audit.c.id, "ids")))
        everything = literal_column(str(2**63 - 1), events.c.seq.type)
        carried = func.coalesce(select(func.min(cursors.c.seq)).scalar_subquery(), everything)
        first = limited(
            select(events.c.seq, events.c.at).where(events.c.seq <= carried).order_by(events.c.seq)
        ).subquery()
        old = select(first.c.seq).where(first.c.at < bindparam("before"))
        self.old_events = finish(old.with_only_columns(func.count(), func.max(first.c.seq)))
        self.remove_events = finish(delete(events).where(events.c.seq.in_(old)))


def _is_kept() -> ColumnElement[bool]:
    """Return the condition that a task is kept for a row that it names as its workflow."""
    return or_(
        *(
            select(table.c.id)
            .where(table.c.id == tasks.c.workflow_id)
            .where(is_met(table, declared.keeps_tasks))
            .exists()
            for declared, table in schema.DECLARED.items()
            if declared.keeps_tasks is not None
        )
    )


def newest_event() -> ColumnElement[int]:
    """The highest number in the event log; 0 when it is empty."""
    newest = select(func.max(events.c.seq)).scalar_subquery()
    return func.coalesce(newest, literal_column("0", events.c.seq.type))
