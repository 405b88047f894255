"""Time zones by name, from the rules that the machine has, or those that are installed with us."""

import difflib
from datetime import tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """The names that there are. Takes some 10 ms, once."""
    return frozenset(available_timezones())


def zone_named(name: str) -> tzinfo | None:
    """The zone of a name, such as `Europe/Berlin`, if there is one."""
    return ZoneInfo(name) if name in zone_names() else None


def name_near(name: str) -> str:
    """A name that was perhaps meant; empty when none is close."""
    by_text = {each.lower(): each for each in sorted(zone_names())}
    wanted = name.lower().replace(" ", "_")
    if wanted in by_text:
        return by_text[wanted]
    cities = {each.rpartition("/")[2]: each for each in by_text}
    if wanted in cities:
        return by_text[cities[wanted]]
    found = difflib.get_close_matches(wanted[:64], by_text, n=1)
    return by_text[found[0]] if found else ""
