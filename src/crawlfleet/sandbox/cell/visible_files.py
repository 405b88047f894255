"""The files of the machine that a cell sees: programs, libraries, installed packages, and the part
of `/etc` that libraries read. No home folder, data or settings."""

import os
import site
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from crawlfleet.sandbox.spec import Bind

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC: Final = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "debian_version", "fonts"),
    *("group", "host.conf", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"),
    *("magic", "mime.types", "nsswitch.conf", "os-release", "passwd", "pki", "profile"),
    *("protocols", "services", "ssl/certs", "ssl/openssl.cnf", "timezone"),
)
PROC_FILES: Final = (
    *("/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat"),
    *("/proc/uptime", "/proc/version", "/proc/sys/kernel", "/proc/sys/vm", "/proc/sys/net/core"),
)
"""The readable part of `/proc` without a PID namespace: nothing about other processes."""


def links_of(folders: Iterable[str] = _SYSTEM) -> dict[str, str]:
    """Return the system folders that are symbolic links, with their targets."""
    return {each: str(Path(each).readlink()) for each in folders if Path(each).is_symlink()}


def system() -> tuple[str, ...]:
    """Return the paths of the system that a cell sees."""
    places = [each for each in _SYSTEM if not Path(each).is_symlink()]
    places += [f"/etc/{name}" for name in _ETC]
    return tuple(each for each in places if Path(each).exists())


def packages(environ: Mapping[str, str], *, by_others: bool) -> tuple[str, ...]:
    """Return the folders of Python and its packages; `by_others`: only what any user may read."""
    given = environ.get("PYTHONPATH", "").split(os.pathsep)
    prefixes = (sys.prefix, sys.base_prefix, sys.exec_prefix, *site.PREFIXES)
    # Python adds the folder of the program, or the current one, to the path; the owner of the
    # node did not choose it.
    accidental = {"", str(Path.cwd()), str(Path(sys.argv[0]).parent)} - set(given)
    path = [each for each in sys.path if each not in accidental]
    found = {str(Path(each).resolve()): None for each in (*prefixes, *given, *path) if each}
    return tuple(each for each in found if each != "/" and _may_read(each, by_others=by_others))


def binds(
    seen: Iterable[str],
    readable: Iterable[str],
    writable: Iterable[str],
    *,
    own: bool,
    hidden: Iterable[str],
) -> tuple[Bind, ...]:
    """Return the mounts of a cell's root, each path once, without hidden paths of `seen`.

    With `own` the cell can read files in `readable` although root owns them.
    """
    kept: dict[str, Bind] = {}
    veiled = tuple(hidden)
    for path in sorted(set(seen)):
        if not any(is_in(path, other) for other in (*kept, *veiled)):
            kept[path] = Bind(path)
    for path in sorted(set(readable)):
        if not Path(path).is_absolute() or not Path(path).exists():
            continue
        is_there = any(is_in(path, other) for other in kept)
        if not is_there or (own and not _may_read(path, by_others=True)):
            kept[path] = Bind(path, own and Path(path).stat().st_uid == 0)
    for path in writable:
        # Never mapped to the cell's user: files made there would belong to root outside.
        kept[path] = Bind(path, write=True)
    return tuple(kept.values())


def without_hidden(paths: Iterable[str], hidden: Iterable[str]) -> Iterator[str]:
    """Yield the paths without hidden ones, for rules that cannot exclude a path (Landlock)."""
    veiled = tuple(hidden)
    for path in paths:
        if any(is_in(path, each) for each in veiled):
            continue
        if any(is_in(each, path) for each in veiled) and Path(path).is_dir():
            yield from without_hidden((str(each) for each in Path(path).iterdir()), veiled)
        else:
            yield path


def is_in(path: str, folder: str) -> bool:
    """Return whether the path is that folder, or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _may_read(path: str, *, by_others: bool) -> bool:
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    if not by_others:
        return os.access(path, os.R_OK)
    needed = 0o005 if stat.S_ISDIR(mode) else 0o004
    return mode & needed == needed
