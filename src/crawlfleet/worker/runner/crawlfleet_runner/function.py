"""A function of the bundle, by the path of its module and its name."""

import asyncio
import importlib
import inspect
import logging
import sys
import types
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from .job import Work, leave, told
from .protocol import Failed, LogLines


class Function(Work):
    """Implements `Work`."""

    def run(self) -> tuple[Any, dict[str, float]]:
        module, _, name = self.parameters["function"].partition(":")
        if not module or not name:
            raise Failed("parameters.function: write it as `package.module:function`", "invalid")
        sys.path.insert(0, str(Path.cwd()))
        sys.modules["crawlfleet_task"] = self._offered()
        logging.basicConfig(level=logging.INFO, handlers=[LogLines(self.wire)])
        try:
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ModuleNotFoundError, AttributeError) as error:
            raise Failed(f"parameters.function: {error}", "invalid", told(error)) from error
        value = found(*self.parameters.get("args") or (), **self.parameters.get("kwargs") or {})
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        self.items.finish()
        return value, {"items": float(self.items.count)} if self.items.count else {}

    def cancel(self) -> None:
        """Nothing else stops a function that does not listen."""
        super().cancel()
        self.wire.say("stopped")
        leave()

    def _offered(self) -> types.ModuleType:
        """Make the module from which the function may import: `from crawlfleet_task import item,
        log, progress`."""

        def progress(done: float, total: float | None = None) -> None:
            self.wire.say("progress", done=done, total=total)

        offered = types.ModuleType("crawlfleet_task", "What a function may say while it runs.")
        vars(offered).update(log=self.wire.log, item=self.items.put, progress=progress)
        return offered


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value
