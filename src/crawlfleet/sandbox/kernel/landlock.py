"""Landlock rules: the files, ports and processes that a cell may touch.

Landlock refuses everything that is not listed. It needs no rights, and works where the cell sees
the files of the machine. Newer kernels also restrict TCP ports and signals.
"""

import os
import stat
import struct
from collections.abc import Iterable
from typing import Final

from crawlfleet.sandbox.kernel import syscalls

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PATH, _PORT = 1, 2
_EXECUTE, _WRITE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_MAKE_CHARACTER, _MAKE_BLOCK = 1 << 6, 1 << 11
_BY_VERSION: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_OF_FILES: Final = _EXECUTE | _WRITE | _READ_FILE | _TRUNCATE | _IOCTL
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_VERSION_OF_PORTS: Final = 4
_VERSION_OF_SCOPES: Final = 6


def restricts_ports() -> bool:
    """Return whether Landlock of this kernel can restrict TCP ports."""
    return version() >= _VERSION_OF_PORTS


def version() -> int:
    """Return the version of Landlock in this kernel; raises `OSError` when it has none."""
    return syscalls.syscall(_CREATE, None, 0, 1, name="landlock")


def restrict(
    *,
    readable: Iterable[str],
    writable: Iterable[str],
    devices: Iterable[str],
    ports: Iterable[int] | None,
) -> None:
    """Restrict this process and all its children to what is listed, for good.

    `ports` are the TCP ports that it may connect to; `None` does not restrict them, and neither
    does a kernel without `restricts_ports`.
    """
    newest = version()
    files = max(rights for since, rights in _BY_VERSION.items() if since <= newest)
    net = 0
    if ports is not None and newest >= _VERSION_OF_PORTS:
        net = _BIND_TCP | _CONNECT_TCP
    scopes = _ABSTRACT_SOCKETS | _SIGNALS if newest >= _VERSION_OF_SCOPES else 0
    attributes = struct.pack("=QQQ", files, net, scopes)
    size = 24 if newest >= _VERSION_OF_SCOPES else 16 if newest >= _VERSION_OF_PORTS else 8
    rules = syscalls.syscall(_CREATE, attributes[:size], size, 0, name="landlock_create_ruleset")
    try:
        for path in readable:
            _allow(rules, path, files & (_EXECUTE | _READ_FILE | _READ_DIR))
        for path in writable:
            _allow(rules, path, files & ~(_MAKE_CHARACTER | _MAKE_BLOCK | _IOCTL))
        for path in devices:
            _allow(rules, path, files & (_READ_FILE | _WRITE | _IOCTL))
        for port in ports or () if net else ():
            rule = struct.pack("=QQ", _CONNECT_TCP, port)
            syscalls.syscall(_ADD, rules, _PORT, rule, 0, name="landlock_add_rule")
        syscalls.syscall(_RESTRICT, rules, 0, name="landlock_restrict_self")
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a missing path needs no rule
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_FILES
        if rights:
            rule = struct.pack("=Qi", rights, fd)
            syscalls.syscall(_ADD, rules, _PATH, rule, 0, name=f"landlock_add_rule {path}")
    finally:
        os.close(fd)
