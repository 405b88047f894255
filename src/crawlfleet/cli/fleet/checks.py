"""Checks by `doctor` of this machine; each says what it found and what to do."""

import os
import platform
import resource
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from crawlfleet import config, plugins
from crawlfleet.cli.fleet.ports import taken
from crawlfleet.core.isolation import at_level, level_of
from crawlfleet.errors import PluginError, SandboxFailed
from crawlfleet.model.isolation import Layer, Level

OLDEST_PYTHON: Final = (3, 11)
OLDEST_SQLITE: Final = (3, 35)
"""The first with `RETURNING`."""
FEW_FILES: Final = 1024
ENOUGH_FILES: Final = 4096
LITTLE_DISK: Final = 100e6
SCARCE_DISK: Final = 1e9
SLOW_SYNC_S: Final = 0.05
BUILT: Final = 1_750_000_000.0
"""An instant shortly before this program was written (June 2025)."""
GROUPS: Final = (plugins.EXECUTORS, plugins.STRATEGIES, plugins.FILTERS, plugins.STORES)


class DoctorVerdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class DoctorCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one check."""

    name: str
    verdict: DoctorVerdict
    message: str
    remedy: str = ""


def ok(name: str, message: str) -> DoctorCheck:
    """Return a check with the verdict that all is well."""
    return DoctorCheck(name=name, verdict=DoctorVerdict.OK, message=message)


def warning(name: str, message: str, remedy: str) -> DoctorCheck:
    """Return a check with the verdict that the fleet works, but not as well as it could."""
    return DoctorCheck(name=name, verdict=DoctorVerdict.WARNING, message=message, remedy=remedy)


def problem(name: str, message: str, remedy: str) -> DoctorCheck:
    """Return a check with the verdict that the fleet will not work like this."""
    return DoctorCheck(name=name, verdict=DoctorVerdict.PROBLEM, message=message, remedy=remedy)


def machine() -> Iterator[DoctorCheck]:
    """Check this machine for any fleet on it."""
    yield python()
    yield from packages()
    yield event_loop()
    yield open_files()
    yield sqlite()
    yield sandbox()


def python() -> DoctorCheck:
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return problem("python", version, "install Python 3.11 or newer")
    return ok("python", version)


def packages() -> Iterator[DoctorCheck]:
    """Check that every installed plug-in can be imported."""
    for group in GROUPS:
        name = f"plug-ins: {group.rpartition('.')[2]}"
        try:
            loaded = plugins.load(group)
        except PluginError as error:
            yield problem(name, str(error), "repair or remove the package that offers it")
        else:
            yield ok(name, ", ".join(loaded) or "none")


def event_loop() -> DoctorCheck:
    if find_spec("uvloop") is None:
        return warning("event loop", "uvloop is missing", "pip install uvloop, for more speed")
    return ok("event loop", "uvloop")


def sandbox() -> DoctorCheck:
    """Check which sandbox layers work here; each is tried."""
    from crawlfleet.sandbox import probe

    try:
        found = probe.detect()
    except SandboxFailed as error:
        return problem("sandbox", str(error), "run `python -m crawlfleet.sandbox.probe`")
    level = level_of(frozenset(found.layers))
    offer, _ = at_level(level, found)
    shown = f"{level}: {', '.join(offer.layers)}"
    if probe.runs_as_root(offer):
        why = found.missing.get(Layer.OTHER_USER, "missing")
        return problem(
            "sandbox",
            f"{shown}; you are root, and cannot become another user ({why}): a worker with a "
            "sandbox does not start so, and runs no bundles",
            "run it as a plain user, or give it CAP_SETUID, CAP_SETGID and CAP_CHOWN",
        )
    higher = next((each for each in Level if each > level), None)
    if level >= Level.L3 or higher is None:
        return ok("sandbox", shown)
    _, lacking = at_level(Level.L2 if level < Level.L2 else Level.L4, found)
    why = "; ".join(f"{each} ({found.missing.get(each, '')})" for each in lacking)
    return warning("sandbox", shown, f"for more, the machine lacks {why}")


def open_files() -> DoctorCheck:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = sys.maxsize if soft == resource.RLIM_INFINITY else soft
    shown = "no limit" if limit == sys.maxsize else f"{limit} (at most {hard})"
    remedy = f"raise it with `ulimit -n {ENOUGH_FILES * 16}`; each connection needs one"
    if limit < FEW_FILES:
        return problem("open files", shown, remedy)
    return (
        ok("open files", shown) if limit >= ENOUGH_FILES else warning("open files", shown, remedy)
    )


def sqlite() -> DoctorCheck:
    """The library's version, and how durable the store asks it to be.

    The second is read from the store's own code: a setting of a connection cannot be seen from
    another one.
    """
    from crawlfleet.adapters.store.sqlite.store import WRITER_PRAGMAS

    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return problem("sqlite", version, "install a Python with SQLite 3.35 or newer")
    asked = [pragma for pragma in WRITER_PRAGMAS if pragma.startswith("synchronous")]
    return ok("sqlite", ", ".join([version, *(f"the store sets {pragma}" for pragma in asked)]))


def clock(store: Path | None) -> DoctorCheck:
    """Check that the clock is not before this program was written, nor before the store's last
    write."""
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    remedy = "set the clock, and let NTP keep it"
    if now < BUILT:
        return problem("clock", f"{shown} is in the past", remedy)
    if store is not None and store.exists() and store.stat().st_mtime > now + 60:
        return problem("clock", f"{shown} is before the last write to {store}", remedy)
    return ok("clock", shown)


def folder(path: Path) -> Iterator[DoctorCheck]:
    """Check that the data folder is writable, and its free space and speed."""
    nearest = next(parent for parent in (path, *path.parents) if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        remedy = "choose another with --data or data_dir, or change its owner"
        yield problem("data folder", f"{nearest} cannot be written to", remedy)
        return
    yield ok("data folder", str(path) if nearest == path else f"{path} (will be made)")
    yield _space(nearest)
    yield _durability(nearest)


def _space(path: Path) -> DoctorCheck:
    free = shutil.disk_usage(path).free
    shown = f"{free / 1e9:.1f} GB free"
    remedy = "make room, or choose another data folder"
    if free < LITTLE_DISK:
        return problem("disk space", shown, remedy)
    return warning("disk space", shown, remedy) if free < SCARCE_DISK else ok("disk space", shown)


def _durability(path: Path) -> DoctorCheck:
    """Measure a write that survives a power cut: no commit is faster."""
    with tempfile.TemporaryFile(dir=path) as file:
        begun = time.perf_counter()
        file.write(b"\0" * 4096)
        file.flush()
        os.fsync(file.fileno())
        took = time.perf_counter() - begun
    shown = f"{took * 1000:.1f} ms for a durable write"
    if took > SLOW_SYNC_S:
        return warning("disk speed", shown, "put the data folder on a faster, local disk")
    return ok("disk speed", shown)


def port(host: str, number: int) -> DoctorCheck:
    """Check that a master can listen on the port of the settings. Called only when no master
    runs."""
    name = f"port {number}"
    if trouble := taken(host, number):
        remedy = f"{trouble.remedy}; if it is a fleet, give --url and --key"
        return problem(name, trouble.why, remedy)
    return ok(name, f"free on {host}")


def store(file: Path) -> DoctorCheck:
    """Check that the store's file is a sound database; changes nothing."""
    if not file.exists():
        return ok("store", f"{file} (will be made)")
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
            [(tables,)] = database.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except sqlite3.Error as error:
        remedy = "restore it from a copy, or begin anew with `crawlfleet reset`"
        return problem("store", f"{file} cannot be opened: {error}", remedy)
    return ok("store", f"{file}, {tables} tables and indexes")


def configured(loaded: config.Loaded) -> DoctorCheck:
    """Report which settings are not defaults, and their origins."""
    changed = [f"{n} from {o}" for n, o in loaded.origins.items() if o != config.DEFAULT]
    return ok("settings", ", ".join(changed) or "all are defaults")
