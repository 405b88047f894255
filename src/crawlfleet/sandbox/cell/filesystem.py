"""The root file system, namespaces and loopback network of a cell.

The root has only what the specification lists, read-only except for the scratch folder. A worker
that is root makes the mounts in the machine's user namespace, so that nothing in the cell can
change them; a plain user makes a user namespace first.
"""

import contextlib
import fcntl
import os
import socket
import stat
import struct
from pathlib import Path
from typing import Final

from crawlfleet.model.isolation import Layer
from crawlfleet.sandbox.kernel import syscalls
from crawlfleet.sandbox.spec import Bind, CellSpec

_FLAGS: Final = {
    Layer.MOUNT_NAMESPACE: syscalls.CLONE_NEWNS,
    Layer.PID_NAMESPACE: syscalls.CLONE_NEWPID,
    Layer.NET_NAMESPACE: syscalls.CLONE_NEWNET,
    Layer.IPC_NAMESPACE: syscalls.CLONE_NEWIPC,
    Layer.UTS_NAMESPACE: syscalls.CLONE_NEWUTS,
}
_READ_ONLY: Final = syscalls.ATTR_READ_ONLY | syscalls.ATTR_NO_SUID | syscalls.ATTR_NO_DEV
_CHANGEABLE: Final = syscalls.ATTR_NO_SUID | syscalls.ATTR_NO_DEV
_PLAIN: Final = syscalls.MS_NOSUID | syscalls.MS_NODEV
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_LINKS: Final = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
}
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 (the cell's own)
TEMPORARY: Final = "/tmp"  # noqa: S108 (the cell's own)
_PAGE_BYTES: Final = 4096
_SKELETON_BYTES: Final = 1 << 20
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def is_pid_one() -> bool:
    """Return whether this process is already PID 1 of a namespace."""
    return os.getpid() == 1


def enter_namespaces(spec: CellSpec) -> None:
    """Make the namespaces of the cell; processes forked from now on are in them."""
    flags = sum(flag for layer, flag in _FLAGS.items() if layer in spec.layers)
    if is_pid_one():
        flags &= ~syscalls.CLONE_NEWPID
    if flags:
        flags |= syscalls.CLONE_NEWCGROUP
    if not _is_root(spec) and Layer.USER_NAMESPACE in spec.layers:
        uid, gid = os.getuid(), os.getgid()
        syscalls.unshare(flags | syscalls.CLONE_NEWUSER)
        _map_users(uid, gid)
    elif flags:
        syscalls.unshare(flags)


def build_root(spec: CellSpec, base: str, own: int | None) -> None:
    """Mount the new root over the folder `base` and move there. `own` is a user namespace that
    maps root to the user of the cell."""
    syscalls.make_private("/")
    mode = _PLAIN | syscalls.MS_NOEXEC
    syscalls.mount("tmpfs", base, _PLAIN, f"size={_SKELETON_BYTES},mode=755")
    temporary = base + TEMPORARY
    _make_folder(temporary)
    _mount_scratch(spec, temporary)
    binds = sorted(spec.binds, key=lambda each: each.path)
    inner = [bind for bind in binds if any(_is_in(bind.path, each) for each in spec.hidden)]
    for bind in binds:
        if bind not in inner:
            _mount_bind(bind, base, own)
    veils = [path for each in spec.hidden if _hide(path := base + each)]
    for bind in inner:
        _mount_bind(bind, base, own)
    for path in veils:
        syscalls.set_attributes(path, _READ_ONLY)
    for device in DEVICES:
        target = _make_mount_point(base, device)
        syscalls.bind(device, target, syscalls.ATTR_NO_SUID | syscalls.ATTR_NO_EXEC)
    shared = base + SHARED_MEMORY
    _make_folder(shared)
    size = spec.disk_bytes or 0
    syscalls.mount("tmpfs", shared, mode, f"size={size},mode=1777,nr_inodes={_inodes(size)}")
    for link, target_of_link in (_LINKS | spec.links).items():
        _make_folder(_parent(base + link))
        os.symlink(target_of_link, base + link)
    _make_folder(base + "/proc")
    syscalls.mount("proc", base + "/proc", mode)
    scratch = base + spec.scratch
    os.mkdir(scratch, 0o700)
    if spec.uid is not None:
        os.chown(scratch, spec.uid, spec.uid)
    syscalls.set_attributes(base, _READ_ONLY)
    syscalls.pivot_root(base)


def set_up_network(spec: CellSpec) -> socket.socket | None:
    """Set the host name, bring up loopback, and return the listening socket of the proxy; `None`
    when the cell has no network of its own, or no proxy."""
    if Layer.UTS_NAMESPACE in spec.layers:
        socket.sethostname("cell")
    if Layer.NET_NAMESPACE not in spec.layers:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asked = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(asking, _SIOCGIFFLAGS, asked))
        fcntl.ioctl(asking, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
    if not spec.proxy_port:
        return None
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.bind(("127.0.0.1", spec.proxy_port))
    listening.listen(128)
    return listening


def drop_root(spec: CellSpec) -> None:
    """Become the user of the cell, alone in its user namespace; without one, change nothing."""
    if spec.uid is not None:
        os.setgroups([])
        os.setresgid(spec.uid, spec.uid, spec.uid)
        os.setresuid(spec.uid, spec.uid, spec.uid)
        if Layer.USER_NAMESPACE in spec.layers:
            # Only the owner of a process may write its user maps, and a process that has changed
            # its user does not own its files in `/proc`.
            syscalls.show_memory()
            syscalls.unshare(syscalls.CLONE_NEWUSER)
            _map_users(spec.uid, spec.uid)


def _is_root(spec: CellSpec) -> bool:
    """Return whether this process has the rights of the machine's root."""
    return spec.uid is not None


def _map_users(uid: int, gid: int) -> None:
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _mount_scratch(spec: CellSpec, target: str) -> None:
    size = spec.disk_bytes or 0
    syscalls.mount("tmpfs", target, _PLAIN, f"size={size},mode=1777,nr_inodes={_inodes(size)}")


def _inodes(size: int) -> int:
    """Return one inode for each page, so that tiny files cannot use up the machine's memory."""
    return size // _PAGE_BYTES + 64


def _make_mount_point(base: str, path: str) -> str:
    """Make an empty file or folder in the new root, to mount something there."""
    target = base + path
    if stat.S_ISDIR(os.stat(path).st_mode):
        _make_folder(target)
    else:
        _make_folder(_parent(target))
        with contextlib.suppress(FileExistsError):
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    return target


def _make_folder(path: str) -> None:
    """Make a folder and its parents. `Path` would be too slow for dozens of them in each cell."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_folder(_parent(path))
        os.mkdir(path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _mount_bind(bind: Bind, base: str, own: int | None) -> None:
    target = _make_mount_point(base, bind.path)
    attributes = _CHANGEABLE if bind.write else _READ_ONLY
    if bind.own and own is not None:
        # Some file systems cannot show other owners; reading may work all the same.
        with contextlib.suppress(OSError):
            syscalls.bind(bind.path, target, attributes, user_namespace=own)
            return
    syscalls.bind(bind.path, target, attributes)


def _hide(path: str) -> bool:
    """Cover a path, if it exists, and return whether it is a folder: mounts can follow in it."""
    if Path(path).is_dir():
        syscalls.mount(
            "tmpfs", path, _PLAIN | syscalls.MS_NOEXEC, f"size={_SKELETON_BYTES},mode=755"
        )
        return True
    if Path(path).exists():
        syscalls.bind("/dev/null", path, syscalls.ATTR_NO_SUID | syscalls.ATTR_NO_EXEC)
    return False


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
