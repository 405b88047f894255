"""crawlfleet over HTTP, by its own client."""

import asyncio
import os
from typing import Any

import uvloop

from crawlfleet.client import Client

ENDED = ("completed", "failed", "timeout", "cancelled")


class System:
    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._client = Client(os.environ["BENCH_URL"], os.environ["BENCH_KEY"], patience_s=0)

    def submit(self, name: str, arguments: dict[str, Any]) -> None:
        self._runner.run(self._client.submit("python", _parameters(name, arguments)))

    def submit_many(self, name: str, many: list[dict[str, Any]]) -> None:
        """1,000 with each call of `submit_batch`."""
        self._runner.run(self._submit_many(name, many))

    async def _submit_many(self, name: str, many: list[dict[str, Any]]) -> None:
        for start in range(0, len(many), 1000):
            reply = await self._client.submit_batch(
                {"task_type": "python", "parameters": _parameters(name, arguments)}
                for arguments in many[start : start + 1000]
            )
            refused = [item.error for item in reply.items if item.error]
            if refused:
                raise RuntimeError(f"{len(refused)} tasks were refused, the first: {refused[0]}")

    def left(self) -> int:
        """Tasks whose end is not recorded."""
        counts = self._runner.run(self._client.status()).totals.tasks
        failed = counts.get("failed", 0) + counts.get("timeout", 0)
        if failed:
            raise RuntimeError(f"{failed} tasks failed")
        return sum(counts.values()) - sum(counts.get(state, 0) for state in ENDED)

    def close(self) -> None:
        self._runner.run(self._client.__aexit__(None, None, None))
        self._runner.close()


def _parameters(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"function": f"work:{name}_async", "kwargs": arguments}
