"""Procrastinate on PostgreSQL; `procrastinate --app=with_procrastinate.app worker` runs it."""

import os
from typing import Any

import procrastinate
import psycopg
import work

URL = os.environ["BENCH_POSTGRES"]
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL, max_size=10))
TASKS = {
    name: app.task(name=name)(getattr(work, f"{name}_async"))
    for name in ("nothing", "mark", "write")
}


class System:
    def __init__(self) -> None:
        app.open()
        self._connection = psycopg.connect(URL, autocommit=True)
        found = self._connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone()
        if found == (None,):
            app.schema_manager.apply_schema()
        else:
            self._connection.execute("TRUNCATE procrastinate_jobs CASCADE")

    def submit(self, name: str, arguments: dict[str, Any]) -> None:
        TASKS[name].defer(**arguments)

    def submit_many(self, name: str, many: list[dict[str, Any]]) -> None:
        """1,000 with each call of `batch_defer`."""
        for start in range(0, len(many), 1000):
            TASKS[name].batch_defer(*many[start : start + 1000])

    def left(self) -> int:
        """Jobs that wait or run."""
        row = self._connection.execute(
            "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        ).fetchone()
        return row[0] if row else 0

    def close(self) -> None:
        self._connection.close()
        app.close()
