"""System calls that Python does not offer; every function raises `OSError` naming the call."""

import ctypes
import errno
import os
import platform
import signal
import struct
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

IS_ARM: Final = platform.machine() == "aarch64"
_PIVOT_ROOT: Final = 41 if IS_ARM else 155
_OPEN_TREE: Final = 428
_MOVE_MOUNT: Final = 429
_MOUNT_SETATTR: Final = 442

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_NAME: Final = 15
PR_SET_SECCOMP: Final = 22
PR_CAPBSET_DROP: Final = 24
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_CAPABILITIES_V3: Final = 0x2008_0522
LAST_CAPABILITY: Final = 63

CLONE_NEWNS: Final = 0x0002_0000
CLONE_NEWCGROUP: Final = 0x0200_0000
CLONE_NEWUTS: Final = 0x0400_0000
CLONE_NEWIPC: Final = 0x0800_0000
CLONE_NEWUSER: Final = 0x1000_0000
CLONE_NEWPID: Final = 0x2000_0000
CLONE_NEWNET: Final = 0x4000_0000

MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 1 << 18
MNT_DETACH: Final = 2

ATTR_READ_ONLY: Final = 0x01
ATTR_NO_SUID: Final = 0x02
ATTR_NO_DEV: Final = 0x04
ATTR_NO_EXEC: Final = 0x08
_ATTR_IDMAP: Final = 0x0010_0000
_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 1
_OPEN_TREE_CLOEXEC: Final = os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def prctl(option: int, argument: int = 0, name: str = "prctl") -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0), name)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    prctl(PR_SET_CHILD_SUBREAPER, 1, "subreaper")


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, "pdeathsig")


def set_name(name: str) -> None:
    """Set the name of this process in process lists, at most 15 letters."""
    _check(_libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0), "name")


def forbid_new_privileges() -> None:
    """Ignore set-uid bits from now on: no program gains rights."""
    prctl(PR_SET_NO_NEW_PRIVS, 1, "no_new_privs")


def hide_memory() -> None:
    """Forbid other processes of the same user to read this one."""
    prctl(PR_SET_DUMPABLE, 0, "dumpable")


def show_memory() -> None:
    """Undo `hide_memory`: this process owns its files in `/proc` again."""
    prctl(PR_SET_DUMPABLE, 1, "dumpable")


def drop_capabilities() -> None:
    """Give up all capabilities, for this process and its children."""
    for number in range(LAST_CAPABILITY + 1):
        # A refusal is fine: then the capability cannot be gained either.
        dropped = _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0)
        if dropped < 0 and ctypes.get_errno() == errno.EINVAL:
            break  # this kernel knows no more
    _libc.prctl(PR_CAP_AMBIENT, ctypes.c_ulong(PR_CAP_AMBIENT_CLEAR_ALL), 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITIES_V3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def enter(namespace: int, kind: int) -> None:
    """Join a namespace of this kind by its descriptor."""
    _check(_libc.setns(namespace, kind), "setns")


def mount(kind: str, target: str, flags: int, options: str = "") -> None:
    """Mount a new file system of this kind."""
    done = _libc.mount(
        kind.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()
    )
    _check(done, f"mount {kind} on {target}")


def make_private(target: str) -> None:
    """Keep future mounts below `target` within this namespace."""
    done = _libc.mount(b"none", target.encode(), None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)
    _check(done, f"make {target} private")


def bind(path: str, target: str, attributes: int, *, user_namespace: int | None = None) -> None:
    """Mount `path` and everything mounted below it at `target`. With a user namespace, the mount
    shows owners as that namespace maps them."""
    tree = _check(
        _libc.syscall(
            _OPEN_TREE,
            _AT_FDCWD,
            path.encode(),
            _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE,
        ),
        f"open_tree {path}",
    )
    try:
        set_attributes("", attributes, fd=tree, recursive=True)
        if user_namespace is not None:
            _set_attributes(tree, "", _ATTR_IDMAP, user_namespace, recursive=False)
        moved = _libc.syscall(
            _MOVE_MOUNT, tree, b"", _AT_FDCWD, target.encode(), _MOVE_MOUNT_F_EMPTY_PATH
        )
        _check(moved, f"move_mount {target}")
    finally:
        os.close(tree)


def set_attributes(
    path: str, attributes: int, *, fd: int = _AT_FDCWD, recursive: bool = False
) -> None:
    """Add attributes to the mount at `path`, or at `fd` when the path is empty."""
    _set_attributes(fd, path, attributes, 0, recursive=recursive)


def _set_attributes(
    fd: int, path: str, attributes: int, user_namespace: int, *, recursive: bool
) -> None:
    wanted = struct.pack("=QQQQ", attributes, 0, 0, user_namespace)
    flags = (0 if path else _AT_EMPTY_PATH) | (_AT_RECURSIVE if recursive else 0)
    done = _libc.syscall(_MOUNT_SETATTR, fd, path.encode(), flags, wanted, len(wanted))
    _check(done, f"mount_setattr {path}")


def pivot_root(folder: str) -> None:
    """Make a mounted folder the root, and unmount the old root."""
    os.chdir(folder)
    _check(_libc.syscall(_PIVOT_ROOT, b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", MNT_DETACH), "umount2")
    os.chdir("/")


def syscall(number: int, *arguments: object, name: str) -> int:
    """Make any other system call."""
    return _check(_libc.syscall(number, *arguments), name)


def install_filter(program: bytes) -> None:
    """Install a seccomp filter for this process and its children."""
    code = _Program(len(program) // 8, program)
    done = _libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(code), 0, 0)
    _check(done, "seccomp")


def _check(result: int, name: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return int(result)
