"""The statements about measured runs."""

from typing import Final, Generic

from sqlalchemy import BigInteger, bindparam, delete, func, literal_column, select

from crawlfleet.adapters.store.sql.dialect import Dialect, T, limited
from crawlfleet.adapters.store.sql.quality_schema import measured_runs
from crawlfleet.model.quality import Decision

HELD: Final = f"'{Decision.HELD}'"


class QualityStatements(Generic[T]):
    """All of them in one dialect."""

    def __init__(self, dialect: Dialect[T]) -> None:
        finish, runs = dialect.finish, measured_runs.c
        of_series = (
            select(measured_runs).where(runs.series == bindparam("series")).order_by(runs.id.desc())
        )
        self.runs = finish(limited(of_series))
        self.runs_before = finish(
            limited(of_series.where(runs.id < bindparam("after", type_=runs.id.type)))
        )
        self.of_tasks = finish(
            select(measured_runs).where(dialect.among_given(runs.task_id, "ids")).order_by(runs.id)
        )
        self.decisions = finish(
            select(runs.task_id, runs.decision)
            .where(dialect.among_given(runs.task_id, "ids"))
            .order_by(runs.id)
        )
        self.series = finish(
            limited(
                select(runs.series, func.max(runs.id))
                .where(runs.series > bindparam("first", type_=runs.series.type))
                .where(runs.series < bindparam("last", type_=runs.series.type))
                .group_by(runs.series)
                .order_by(runs.series)
            )
        )
        old = limited(
            select(runs.id)
            .where(runs.at < bindparam("before"))
            .where(runs.decision != literal_column(HELD))
            .order_by(runs.at, runs.id)
        ).subquery()
        self.old_runs = finish(select(dialect.collect(old.c.id)))
        place = func.row_number().over(partition_by=runs.series, order_by=runs.id.desc())
        places = select(runs.id, runs.decision, place.label("place")).subquery()
        surplus = limited(
            select(places.c.id)
            .where(places.c.place > bindparam("keep", type_=BigInteger()))
            .where(places.c.decision != literal_column(HELD))
            .order_by(places.c.id)
        ).subquery()
        self.surplus_runs = finish(select(dialect.collect(surplus.c.id)))
        self.remove_runs = finish(delete(measured_runs).where(dialect.among_given(runs.id, "ids")))
