"""`sleep`: does nothing for a while; for trying out a fleet and for measuring what it costs."""

import asyncio
from typing import Annotated, ClassVar

import msgspec

from crawlfleet.ports.execution import Context


class SleepParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seconds: Annotated[float, msgspec.Meta(ge=0, examples=[1.5])]
    """Seconds to sleep."""


class Sleep:
    Parameters: ClassVar[type[msgspec.Struct]] = SleepParameters

    async def run(self, parameters: SleepParameters, context: Context) -> dict[str, float]:
        await asyncio.sleep(parameters.seconds)
        return {"seconds": parameters.seconds}
