"""The identity of a master: its name, its settings, its clocks, and its leadership."""

from collections.abc import Mapping

import msgspec

from crawlfleet.model.settings import Settings
from crawlfleet.ports.store import Lead, Leadership, Store
from crawlfleet.ports.system import System


class ThisMaster:
    """The master that this process is, among those that share its store."""

    def __init__(
        self,
        *,
        store: Store,
        system: System,
        settings: Settings,
        name: str,
        origins: Mapping[str, str],
        task_types: Mapping[str, type[msgspec.Struct]],
    ) -> None:
        """`origins` names the source of each setting's value, by the setting's dotted name."""
        self._store = store
        self._system = system
        self.name = name
        self.settings = settings
        self.origins = origins
        self.task_types = task_types
        """The parameters of each task type that the master knows."""
        self.lead: Lead | None = None
        """The leadership that this master holds; `None` while it does not lead."""

    def now(self) -> float:
        """The master's clock, which only goes forward."""
        return self._system.now()

    def wall(self) -> float:
        """The clock of the master's machine, by which keys and sessions expire."""
        return self._system.wall()

    @property
    def leads(self) -> bool:
        """Return whether this master leads: it dispatches tasks and runs the timers."""
        return self.lead is not None

    async def leadership(self) -> Leadership:
        """Return the leading master: this one, or the one that the store names."""
        if self.lead is not None:
            return Leadership(epoch=self.lead.epoch, leader=self.name)
        return await self._store.leadership()
