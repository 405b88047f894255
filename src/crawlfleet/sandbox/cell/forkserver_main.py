"""The program of the fork server: `python -m crawlfleet.sandbox.cell.forkserver_main PID_ONE
MODULE…`.

The fork server has imported the executors and holds nothing else: no settings, no keys, no orders
of other cells. So a cell starts in the time of a fork, and finds nothing in its memory. Each
message on stdin asks for one cell. It names the user that the cell becomes (a number, or `-` for
the same user) and carries four file descriptors: the socket to the agent, and the pipes for stdin,
stdout and stderr. The fork server ends with the agent. With `pid-one` it forks each cell into a
new PID namespace; otherwise the cell makes that namespace itself, with one fork more.
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

FDS_PER_CELL = 4
PID_ONE = "pid-one"


def serve(orders: socket.socket, own_pid_namespace: int | None) -> None:
    """Fork cells until the agent closes its end.

    With `own_pid_namespace`, a descriptor of the fork server's namespace, each cell is forked into
    a new one.
    """
    user_namespaces: dict[bytes, int | None] = {}
    while True:
        data, fds, _, _ = socket.recv_fds(orders, 16, FDS_PER_CELL)
        if not data:
            return
        if data not in user_namespaces:
            user_namespaces[data] = user_namespace_for(int(data)) if data.isdigit() else None
        if len(fds) == FDS_PER_CELL and _fork(own_pid_namespace) == 0:
            own = user_namespaces.pop(data)
            for other in user_namespaces.values():
                if other is not None:
                    os.close(other)
            orders.close()
            if own_pid_namespace is not None:
                os.close(own_pid_namespace)  # a cell must not reach the machine's processes by it
            setup.run_cell(socket.socket(fileno=fds[0]), fds[1:], own=own)
        for fd in fds:
            os.close(fd)


def _fork(own_pid_namespace: int | None) -> int:
    if own_pid_namespace is None:
        return os.fork()
    with contextlib.suppress(OSError):  # then the cell tries it itself, and reports the error
        syscalls.unshare(syscalls.CLONE_NEWPID)
    try:
        pid = os.fork()
    except BaseException:
        syscalls.enter(own_pid_namespace, syscalls.CLONE_NEWPID)
        raise
    if pid:
        syscalls.enter(own_pid_namespace, syscalls.CLONE_NEWPID)
    return pid


def main() -> None:
    orders = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nothing, fd)
    os.close(nothing)
    # Supervisors become children of this process when their parent has ended; nobody waits for
    # them, so the kernel reaps them.
    syscalls.adopt_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pid_one, *modules = sys.argv[1:]
    for module in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    plugins.remember(plugins.EXECUTORS)
    seccomp.program(own_namespaces=True, internet=True)  # cached for most cells
    gc.collect()
    gc.freeze()
    own_pid_namespace = None
    if pid_one == PID_ONE:
        own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    serve(orders, own_pid_namespace)


def user_namespace_for(uid: int) -> int | None:
    """Return a user namespace that maps root to `uid`; `None` where the kernel allows none."""
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
