"""The program that cells are forked from: `python -m crawlfleet.sandbox.cell.forkserver_main FIRST
MODULE…`.

It has imported what the executors need and knows nothing else: no settings, no keys, no other
cell's orders. So a cell begins in the time of a fork, and finds nothing in its memory. It is told
by a message on its stdin, which says whom the cell becomes (a number, or `-` for nobody else), with
four file descriptors: the way to the agent, and the pipes that become stdin, stdout and stderr. It
ends with the agent. FIRST is `first` if each is to be the first process of a new namespace, which
saves it a fork; else it sees to that itself.
"""

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
from pathlib import Path

from crawlfleet import plugins
from crawlfleet.sandbox.cell import setup
from crawlfleet.sandbox.kernel import seccomp, syscalls

FDS_OF_A_CELL = 4
FIRST = "first"


def serve(orders: socket.socket, home: int | None) -> None:
    """Fork cells until the agent is gone; with a `home`, the namespace of processes that this is
    in, each in one of its own."""
    views: dict[bytes, int | None] = {}
    while True:
        data, fds, _, _ = socket.recv_fds(orders, 16, FDS_OF_A_CELL)
        if not data:
            return
        if data not in views:
            views[data] = mapped_to(int(data)) if data.isdigit() else None
        if len(fds) == FDS_OF_A_CELL and _fork(home) == 0:
            own = views.pop(data)
            for view in views.values():
                if view is not None:
                    os.close(view)
            orders.close()
            if home is not None:
                os.close(home)  # nothing of a cell's may lead back to the machine's processes
            setup.become(socket.socket(fileno=fds[0]), fds[1:], own=own)
        for fd in fds:
            os.close(fd)


def _fork(home: int | None) -> int:
    if home is None:
        return os.fork()
    with contextlib.suppress(OSError):  # then the cell tries it itself, and says why not
        syscalls.unshare(syscalls.CLONE_NEWPID)
    try:
        pid = os.fork()
    except BaseException:
        syscalls.enter(home, syscalls.CLONE_NEWPID)
        raise
    if pid:
        syscalls.enter(home, syscalls.CLONE_NEWPID)
    return pid


def main() -> None:
    orders = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nothing, fd)
    os.close(nothing)
    # Those that watch over cells come here when what forked them is gone; nobody asks for them.
    syscalls.adopt_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    first, *modules = sys.argv[1:]
    for module in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    plugins.remember(plugins.EXECUTORS)
    seccomp.program(own_world=True, internet=True)  # kept, for most cells
    gc.collect()
    gc.freeze()
    home = None
    if first == FIRST:
        home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    serve(orders, home)


def mapped_to(uid: int) -> int | None:
    """A user namespace in which root is that user; `None` where there can be none."""
    ready, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            syscalls.unshare(syscalls.CLONE_NEWUSER)
            os.write(go, b"1")
            signal.pause()
        os._exit(0)
    os.close(go)
    try:
        if not os.read(ready, 1):
            return None
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{pid}/{kind}").write_text(f"0 {uid} 1")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
