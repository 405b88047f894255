"""The statements about schedules and what became of them."""

from typing import Generic

from sqlalchemy import bindparam, delete, literal_column, select

from crawlfleet.adapters.store.sql.dialect import Dialect, T, limited
from crawlfleet.adapters.store.sql.schema import firings, schedules


class ScheduleStatements(Generic[T]):
    """All of them in one dialect."""

    def __init__(self, dialect: Dialect[T]) -> None:
        finish = dialect.finish
        self.all = finish(
            select(schedules).where(schedules.c.removed_at.is_(None)).order_by(schedules.c.id)
        )
        of_schedule = select(firings).where(firings.c.schedule_id == bindparam("schedule_id"))
        before = firings.c.id < bindparam("after", type_=firings.c.id.type)
        newest_first = firings.c.id.desc()
        self.firings = finish(limited(of_schedule.order_by(newest_first)))
        self.firings_before = finish(limited(of_schedule.where(before).order_by(newest_first)))
        # One that waits will be written again when it starts.
        past = (firings.c.at < bindparam("before")) & (
            firings.c.outcome != literal_column("'queued'")
        )
        old = limited(
            select(firings.c.id).where(past).order_by(firings.c.at, firings.c.id)
        ).subquery()
        self.old_firings = finish(select(dialect.collect(old.c.id)))
        self.remove_firings = finish(
            delete(firings).where(dialect.among_given(firings.c.id, "ids"))
        )
        gone = limited(
            select(schedules.c.id)
            .where(schedules.c.removed_at < bindparam("before"))
            .order_by(schedules.c.removed_at, schedules.c.id)
        ).subquery()
        self.removed_schedules = finish(select(dialect.collect(gone.c.id)))
        self.remove_schedules = finish(
            delete(schedules).where(dialect.among_given(schedules.c.id, "ids"))
        )
        self.remove_firings_of = finish(
            delete(firings).where(dialect.among_given(firings.c.schedule_id, "ids"))
        )
