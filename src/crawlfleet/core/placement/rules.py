"""Rules of placement: strategies, filters and ageing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from crawlfleet.core.placement.filters import UserFilter
from crawlfleet.core.placement.strategies import BUILT_IN, Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRules:
    """Settings of placement; plug-ins add to `strategies` and `filters` by name."""

    default_strategy: str = "least_loaded"
    strategies: Mapping[str, Strategy] = field(default_factory=lambda: BUILT_IN)
    filters: Mapping[str, UserFilter] = field(default_factory=dict)
    ageing_s: float = 600.0
    """Seconds of waiting that are worth one step of priority; zero or less means no ageing."""


def default_rules(
    *,
    default_strategy: str = "least_loaded",
    strategies: Mapping[str, Strategy] | None = None,
    filters: Mapping[str, UserFilter] | None = None,
    ageing_s: float = 600.0,
) -> PlacementRules:
    """Return the built-in strategies together with those of plug-ins; a plug-in may replace one."""
    return PlacementRules(
        default_strategy=default_strategy,
        strategies={**BUILT_IN, **(strategies or {})},
        filters=dict(filters or {}),
        ageing_s=ageing_s,
    )
