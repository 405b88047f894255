"""The world that a cell sees: a root of its own, its own processes, and a network without wires.

The root is made of what is listed and nothing else, read-only but for the scratch folder. As root
the mounts belong to the machine, so that nothing in the cell could change them; a plain user makes
them in a user namespace first.
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


def is_first() -> bool:
    """Whether this process is the first of its namespace of processes already."""
    return os.getpid() == 1


def leave(spec: CellSpec) -> None:
    """Leave the namespaces of the machine; processes forked from now on are in the new ones."""
    flags = sum(flag for layer, flag in _FLAGS.items() if layer in spec.layers)
    if is_first():
        flags &= ~syscalls.CLONE_NEWPID
    if flags:
        flags |= syscalls.CLONE_NEWCGROUP
    if not _is_mighty(spec) and Layer.USER_NAMESPACE in spec.layers:
        uid, gid = os.getuid(), os.getgid()
        syscalls.unshare(flags | syscalls.CLONE_NEWUSER)
        _map_users(uid, gid)
    elif flags:
        syscalls.unshare(flags)


def build(spec: CellSpec, base: str, own: int | None) -> None:
    """Make the new root over the folder `base`, and move there. `own` is a user namespace that
    shows what is root's as the cell's."""
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
            _show(bind, base, own)
    veils = [path for each in spec.hidden if _hide(path := base + each)]
    for bind in inner:
        _show(bind, base, own)
    for path in veils:
        syscalls.set_attributes(path, _READ_ONLY)
    for device in DEVICES:
        target = _make_place(base, device)
        syscalls.bind(device, target, syscalls.ATTR_NO_SUID | syscalls.ATTR_NO_EXEC)
    shared = base + SHARED_MEMORY
    _make_folder(shared)
    size = spec.disk_bytes or 0
    syscalls.mount("tmpfs", shared, mode, f"size={size},mode=1777,nr_inodes={_inodes(size)}")
    for link, goal in (_LINKS | spec.links).items():
        _make_folder(_parent(base + link))
        os.symlink(goal, base + link)
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


def become_nobody(spec: CellSpec) -> None:
    """Lose the rights of root, if there are any: another user, alone in its namespace."""
    if spec.uid is not None:
        os.setgroups([])
        os.setresgid(spec.uid, spec.uid, spec.uid)
        os.setresuid(spec.uid, spec.uid, spec.uid)
        if Layer.USER_NAMESPACE in spec.layers:
            # Only the owner of a process may map its users; becoming another hid it from itself.
            syscalls.show_memory()
            syscalls.unshare(syscalls.CLONE_NEWUSER)
            _map_users(spec.uid, spec.uid)


def _is_mighty(spec: CellSpec) -> bool:
    """Whether namespaces can be made with the rights of the machine's root."""
    return spec.uid is not None


def _map_users(uid: int, gid: int) -> None:
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _mount_scratch(spec: CellSpec, target: str) -> None:
    size = spec.disk_bytes or 0
    syscalls.mount("tmpfs", target, _PLAIN, f"size={size},mode=1777,nr_inodes={_inodes(size)}")


def _inodes(size: int) -> int:
    """As many files as there are pages: tiny ones must not use up the machine's memory."""
    return size // _PAGE_BYTES + 64


def _make_place(base: str, path: str) -> str:
    """Where something is to be mounted: an empty file or folder in the new root."""
    target = base + path
    if stat.S_ISDIR(os.stat(path).st_mode):
        _make_folder(target)
    else:
        _make_folder(_parent(target))
        with contextlib.suppress(FileExistsError):
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    return target


def _make_folder(path: str) -> None:
    """With those that it lies in. There are dozens for each cell: hence no `Path`."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_folder(_parent(path))
        os.mkdir(path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _show(bind: Bind, base: str, own: int | None) -> None:
    target = _make_place(base, bind.path)
    attributes = _CHANGEABLE if bind.write else _READ_ONLY
    if bind.own and own is not None:
        # Some file systems cannot show other owners; reading may work all the same.
        with contextlib.suppress(OSError):
            syscalls.bind(bind.path, target, attributes, user_namespace=own)
            return
    syscalls.bind(bind.path, target, attributes)


def _hide(path: str) -> bool:
    """Cover something, if it is there; whether it is a folder, in which things can be shown."""
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
