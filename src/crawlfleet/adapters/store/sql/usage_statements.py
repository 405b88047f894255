"""The statements about what projects have used."""

from typing import Generic

from sqlalchemy import bindparam, delete, func, select, tuple_

from crawlfleet.adapters.store.sql.dialect import Dialect, T, limited
from crawlfleet.adapters.store.sql.usage_schema import usage


class UsageStatements(Generic[T]):
    """All of them in one dialect."""

    def __init__(self, dialect: Dialect[T]) -> None:
        finish = dialect.finish
        at = usage.c.at
        within = (at >= bindparam("since", type_=at.type)) & (
            at < bindparam("until", type_=at.type)
        )
        in_order = select(usage).where(within).order_by(at, usage.c.project_id)
        self.all = finish(in_order)
        self.of_project = finish(in_order.where(usage.c.project_id == bindparam("project_id")))
        old = limited(
            select(usage.c.project_id, at)
            .where(at < bindparam("before", type_=at.type))
            .order_by(at, usage.c.project_id)
        )
        self.count_old = finish(select(func.count()).select_from(old.subquery()))
        self.remove_old = finish(delete(usage).where(tuple_(usage.c.project_id, at).in_(old)))
