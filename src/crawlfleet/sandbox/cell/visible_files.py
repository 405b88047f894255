"""Which of the machine's files a cell sees: programs, libraries and installed packages; of `/etc`
only what libraries ask for; nothing of anybody's home, data or settings."""

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
"""Of `/proc` without a namespace of processes: what says nothing about anybody."""


def links_of(folders: Iterable[str] = _SYSTEM) -> dict[str, str]:
    """Those folders of the system that are links, and where to."""
    return {each: str(Path(each).readlink()) for each in folders if Path(each).is_symlink()}


def system() -> tuple[str, ...]:
    """What of the system itself is seen."""
    places = [each for each in _SYSTEM if not Path(each).is_symlink()]
    places += [f"/etc/{name}" for name in _ETC]
    return tuple(each for each in places if Path(each).exists())


def packages(environ: Mapping[str, str], *, by_others: bool) -> tuple[str, ...]:
    """Where Python and its packages are; `by_others`: only what any user may read."""
    told = environ.get("PYTHONPATH", "").split(os.pathsep)
    prefixes = (sys.prefix, sys.base_prefix, sys.exec_prefix, *site.PREFIXES)
    # The folder that a program lies in, or was started from, is in the path; nobody chose that.
    chance = {"", str(Path.cwd()), str(Path(sys.argv[0]).parent)} - set(told)
    path = [each for each in sys.path if each not in chance]
    found = {str(Path(each).resolve()): None for each in (*prefixes, *told, *path) if each}
    return tuple(each for each in found if each != "/" and _may_read(each, by_others=by_others))


def binds(
    seen: Iterable[str],
    readable: Iterable[str],
    writable: Iterable[str],
    *,
    own: bool,
    hidden: Iterable[str],
) -> tuple[Bind, ...]:
    """What is mounted into a cell's root, each thing once. `own`: what is in `readable` can be
    read although it is root's. Of `seen` what is hidden is left out."""
    kept: dict[str, Bind] = {}
    dark = tuple(hidden)
    for path in sorted(set(seen)):
        if not any(is_in(path, other) for other in (*kept, *dark)):
            kept[path] = Bind(path)
    for path in sorted(set(readable)):
        if not Path(path).is_absolute() or not Path(path).exists():
            continue
        is_there = any(is_in(path, other) for other in kept)
        if not is_there or (own and not _may_read(path, by_others=True)):
            kept[path] = Bind(path, own and Path(path).stat().st_uid == 0)
    for path in writable:
        # Never shown as the cell's own: what it made there would be root's outside.
        kept[path] = Bind(path, write=True)
    return tuple(kept.values())


def carved(paths: Iterable[str], hidden: Iterable[str]) -> Iterator[str]:
    """The paths without what is hidden, for rules that cannot take anything away again."""
    dark = tuple(hidden)
    for path in paths:
        if any(is_in(path, each) for each in dark):
            continue
        if any(is_in(each, path) for each in dark) and Path(path).is_dir():
            yield from carved((str(each) for each in Path(path).iterdir()), dark)
        else:
            yield path


def is_in(path: str, folder: str) -> bool:
    """Whether it is that folder, or below it."""
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
