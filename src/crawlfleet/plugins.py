"""Everything pluggable is an entry point, the built-in parts too.

A package offers a part by a line in its `pyproject.toml`, such as
`[project.entry-points."crawlfleet.executors"]` with `name = "package.module:Class"`.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from crawlfleet.errors import PluginError

EXECUTORS: Final = "crawlfleet.executors"
STRATEGIES: Final = "crawlfleet.strategies"
FILTERS: Final = "crawlfleet.filters"
STORES: Final = "crawlfleet.stores"
LOCKS: Final = "crawlfleet.locks"
LEDGERS: Final = "crawlfleet.ledgers"
FRONTIERS: Final = "crawlfleet.frontiers"
SINKS: Final = "crawlfleet.sinks"

_remembered: dict[str, dict[str, EntryPoint]] = {}


def names(group: str) -> tuple[str, ...]:
    """Return the names offered in a group, sorted; imports nothing."""
    return tuple(sorted(_offers(group)))


def load(group: str) -> dict[str, Any]:
    """Load every part of a group, by name. Raises `PluginError` for the first broken one."""
    return {name: _load(group, offer) for name, offer in sorted(_offers(group).items())}


def load_one(group: str, name: str) -> Any:
    """Load one part of a group and import no other. Raises `PluginError` when there is none."""
    offers = _offers(group)
    if name not in offers:
        known = ", ".join(sorted(offers)) or "none"
        raise PluginError(
            f"no installed package offers {name!r} in {group} (offered: {known});"
            " install the package that does, or correct the name"
        )
    return _load(group, offers[name])


def remember(group: str) -> None:
    """Cache the offers of a group for this process and its forks: a lookup reads a file of each
    installed package."""
    with contextlib.suppress(PluginError):  # whoever wants something will be told
        _remembered[group] = _offers(group)


@contextlib.contextmanager
def remembering(*groups: str) -> Iterator[None]:
    """Cache the offers of these groups until the block ends."""
    found = entry_points()
    before = {**_remembered}
    for group in groups:
        with contextlib.suppress(PluginError):  # as above
            _remembered[group] = _sole(group, found.select(group=group))
    try:
        yield
    finally:
        _remembered.clear()
        _remembered.update(before)


def _offers(group: str) -> dict[str, EntryPoint]:
    if group in _remembered:
        return _remembered[group]
    return _sole(group, entry_points(group=group))


def _sole(group: str, found: Iterable[EntryPoint]) -> dict[str, EntryPoint]:
    offers: dict[str, EntryPoint] = {}
    for offer in found:
        other = offers.setdefault(offer.name, offer)
        if other.value != offer.value:
            raise PluginError(
                f"{group}: {offer.name!r} is offered twice, by {_origin(other)} as {other.value!r}"
                f" and by {_origin(offer)} as {offer.value!r}; uninstall or rename one of them"
            )
    return offers


def _load(group: str, offer: EntryPoint) -> Any:
    try:
        return offer.load()
    except ModuleNotFoundError as error:
        extra = _extra_with(offer, error.name or "")
        remedy = f": pip install '{offer.dist.name}[{extra}]'" if offer.dist and extra else ""
        raise PluginError(
            f"{group}: {offer.name!r} of {_origin(offer)} needs the package {error.name!r}, which "
            f"is not installed{remedy}"
        ) from error
    except Exception as error:
        raise PluginError(
            f"{group}: {offer.name!r} of {_origin(offer)} cannot be loaded from {offer.value!r}:"
            f" {type(error).__name__}: {error}"
        ) from error


def _origin(offer: EntryPoint) -> str:
    return f"{offer.dist.name} {offer.dist.version}" if offer.dist else "an unnamed package"


def _extra_with(offer: EntryPoint, module: str) -> str:
    """Return the extra of the offering package that installs a module; empty if none does."""
    for line in (offer.dist.requires if offer.dist else None) or ():
        need, _, marker = line.partition(";")
        name = re.match(r"[\w.-]+", need.strip())
        extra = re.search(r"""extra == ["']([^"']+)["']""", marker)
        same = name is not None and _plain(name[0]) == _plain(module.partition(".")[0])
        if same and extra is not None:
            return extra[1]
    return ""


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
