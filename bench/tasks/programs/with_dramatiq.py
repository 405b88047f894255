"""Dramatiq on Redis. `dramatiq with_dramatiq …` finds the actors here."""

import os
from typing import Any

import dramatiq
import work
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(url=os.environ["BENCH_REDIS"])
dramatiq.set_broker(broker)
ACTORS = {
    name: dramatiq.actor(getattr(work, name), actor_name=name)
    for name in ("nothing", "mark", "write")
}


class System:
    def submit(self, name: str, arguments: dict[str, Any]) -> None:
        ACTORS[name].send(**arguments)

    def submit_many(self, name: str, many: list[dict[str, Any]]) -> None:
        """One by one: there is no bulk call (`group` sends its messages in the same way)."""
        send = ACTORS[name].send
        for arguments in many:
            send(**arguments)

    def left(self) -> int:
        """Messages are kept in this hash until they are acknowledged."""
        return broker.client.hlen("dramatiq:default.msgs")

    def close(self) -> None:
        broker.close()
