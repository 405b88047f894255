"""Opens the sandbox of a worker: looks what the machine has, and holds it to a level."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from crawlfleet.errors import ConfigError
from crawlfleet.model.isolation import Isolation, Layer
from crawlfleet.sandbox import probe
from crawlfleet.sandbox.folder import Premises
from crawlfleet.sandbox.kernel import landlock
from crawlfleet.sandbox.launcher import LocalSandbox
from crawlfleet.sandbox.network.proxy import Judge
from crawlfleet.telemetry import Component, logger

log = logger(Component.WORKER)

Choose = Callable[[str, Isolation], tuple[Isolation, tuple[Layer, ...]]]
"""What a machine offers at a level, or at its best one; and the layers that it lacks for that."""


async def open_sandbox(
    level: str,
    *,
    choose: Choose,
    judge: Judge,
    folder: Path,
    hidden: tuple[str, ...],
    spares: int = 0,
) -> LocalSandbox | None:
    """`None` when the level is `off`. Raises `ConfigError` when the machine cannot hold foreign
    code as the settings say."""
    if level == "off":
        return None
    found = await asyncio.to_thread(probe.look)
    offer, lacking = choose(level, found)
    if lacking:
        why = "; ".join(f"{each} ({found.missing.get(each, 'missing')})" for each in lacking)
        raise ConfigError(
            f"worker.sandbox.level = {level!r}: this machine lacks {why}; choose a lower level, "
            "or `auto` for the best that it has"
        )
    if runs_as_root(offer):
        why = found.missing.get(Layer.OTHER_USER, "missing")
        raise ConfigError(
            f"worker.sandbox.level = {level!r}: foreign code would run as root here, since this "
            f"worker is root and cannot become another user ({why}); run it as a plain user, or "
            "give it CAP_SETUID, CAP_SETGID and CAP_CHOWN"
        )
    if not _has_way_out(offer):
        log.warning("cells have no network: Landlock holds connections from Linux 6.7 on only")
    log.info("foreign code is held", isolation=str(offer.level), layers=" ".join(offer.layers))
    return LocalSandbox(
        isolation=offer, place=Premises(folder), judge=judge, hidden=hidden, spares=spares
    )


def runs_as_root(offer: Isolation) -> bool:
    """Whether foreign code would have root's rights here: then no worker takes any."""
    return os.geteuid() == 0 and not {Layer.OTHER_USER, Layer.MOUNT_NAMESPACE} & {*offer.layers}


def _has_way_out(offer: Isolation) -> bool:
    """Whether cells can be let out to the proxy and nowhere else; L0 does not hold them at all."""
    held_by_files = Layer.LANDLOCK in offer.layers and Layer.NET_NAMESPACE not in offer.layers
    return not held_by_files or landlock.holds_ports()
