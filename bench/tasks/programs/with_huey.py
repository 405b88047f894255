"""Huey on Redis. `huey_consumer with_huey.huey …` finds the instance here."""

import os
from typing import Any

import work
from huey import RedisHuey

huey = RedisHuey("bench", url=os.environ["BENCH_REDIS"], results=False)
TASKS = {name: huey.task(name=name)(getattr(work, name)) for name in ("nothing", "mark", "write")}


class System:
    def submit(self, name: str, arguments: dict[str, Any]) -> None:
        TASKS[name](**arguments)

    def submit_many(self, name: str, many: list[dict[str, Any]]) -> None:
        """One by one: there is no bulk call (`map` enqueues in the same way)."""
        task = TASKS[name]
        for arguments in many:
            task(**arguments)

    def left(self) -> int:
        """Queued only: what a worker has taken is known to nobody else."""
        return huey.pending_count()

    def close(self) -> None:
        huey.storage.close()
