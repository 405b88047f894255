"""Types of numbers in settings."""

from typing import Annotated

from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0)]
Delay = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(gt=0, le=1)]
Days = Annotated[float, Meta(ge=0)]
Megabytes = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
