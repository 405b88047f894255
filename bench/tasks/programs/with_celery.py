"""Celery on Redis. `celery --app=with_celery worker …` finds the app here."""

import os
from typing import Any

import redis
import work
from celery import Celery

URL = os.environ["BENCH_REDIS"]
QUEUE = "celery"

app = Celery("bench", broker=URL)
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    # Celery's guide on optimizing: for many short tasks a large multiplier, such as 64 or 128;
    # stock is 4.
    worker_prefetch_multiplier=int(os.environ["BENCH_PREFETCH"]),
    worker_disable_rate_limits=True,
    broker_connection_retry_on_startup=True,
)
TASKS = {name: app.task(name=name)(getattr(work, name)) for name in ("nothing", "mark", "write")}


class System:
    def __init__(self) -> None:
        self._redis = redis.Redis.from_url(URL)

    def submit(self, name: str, arguments: dict[str, Any]) -> None:
        TASKS[name].apply_async(kwargs=arguments)

    def submit_many(self, name: str, many: list[dict[str, Any]]) -> None:
        """One by one: there is no bulk call; one producer kept for all is the best there is."""
        with app.producer_or_acquire() as producer:
            for arguments in many:
                TASKS[name].apply_async(kwargs=arguments, producer=producer)

    def left(self) -> int:
        """Queued, and taken but not acknowledged."""
        return self._redis.llen(QUEUE) + self._redis.hlen("unacked")

    def close(self) -> None:
        app.close()
