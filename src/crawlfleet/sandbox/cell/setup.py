"""Turns a fork of the fork server into a cell: puts the layers on, starts the work, supervises it.

A cell has two processes at first: the *supervisor* and the work. When a layer cannot be put on, the
cell ends before the work begins: it never runs with less isolation than ordered.
"""

import contextlib
import importlib
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from crawlfleet.model.isolation import Layer
from crawlfleet.sandbox.cell import filesystem
from crawlfleet.sandbox.cell.supervisor import Supervisor, size_of_all
from crawlfleet.sandbox.kernel import landlock, seccomp, syscalls
from crawlfleet.sandbox.spec import CellSpec, CellStatus, decode_spec, encode

MAX_SPEC_BYTES: Final = 1 << 20
READY: Final = b"ready"
EXIT_FAILED: Final = 125
EXIT_CANNOT_RUN: Final = 127


def run_cell(agent: socket.socket, pipes: Sequence[int], *, own: int | None) -> NoReturn:
    """Make this process a cell, and never return. `own` is a user namespace that maps root to the
    user of the cell."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.setsid()
        os.umask(0o022)  # the agent's is stricter, and files made here are for another user
        spec = decode_spec(agent.recv(MAX_SPEC_BYTES))
        for group in spec.groups:
            Path(group).write_text("0")
        filesystem.enter_namespaces(spec)
        # A process stays outside the PID namespace that it makes; its next child is PID 1 inside.
        has_to_fork = Layer.PID_NAMESPACE in spec.layers and not filesystem.is_pid_one()
        if not has_to_fork or os.fork() == 0:
            _supervise(spec, agent, pipes, own)
    except BaseException as error:
        with contextlib.suppress(OSError):
            agent.send(encode(CellStatus(failed=_message(error))))
    finally:
        os._exit(EXIT_FAILED)


def _supervise(spec: CellSpec, agent: socket.socket, pipes: Sequence[int], own: int | None) -> None:
    """Run as the supervisor: build the cell, start the work, and watch it."""
    syscalls.set_name("supervisor")
    syscalls.adopt_orphans()
    # Inside a PID namespace the machine's number of this process cannot be read; `/proc` of the
    # machine still shows it here.
    outside = int(Path("/proc/self").readlink().name)
    if Layer.MOUNT_NAMESPACE in spec.layers:
        filesystem.build_root(spec, spec.base, own)
    listening = filesystem.set_up_network(spec)
    filesystem.drop_root(spec)
    if Layer.NO_NEW_PRIVILEGES in spec.layers:
        syscalls.drop_capabilities()
        syscalls.forbid_new_privileges()
    syscalls.hide_memory()
    held = size_of_all(spec)
    status_read, status_write = os.pipe()
    work = os.fork()
    if work == 0:
        for fd in (status_read, agent, own, listening):
            if fd is not None:
                os.close(fd if isinstance(fd, int) else fd.detach())
        _work(spec, pipes, status_write)
    os.close(status_write)
    _close_pipes(pipes)
    trouble = _setup_error(status_read)
    if trouble is not None:
        agent.send(encode(CellStatus(failed=trouble)))
        return
    pidfd = os.pidfd_open(os.getpid())
    handed = [pidfd] if listening is None else [pidfd, listening.fileno()]
    socket.send_fds(agent, [encode(CellStatus(begun=outside))], handed)
    os.close(pidfd)
    if listening is not None:
        listening.close()
    Supervisor(agent, work, spec, held=held).watch()


def _setup_error(status_read: int) -> str | None:
    """Return the error that stopped the work from beginning; `None` when it began."""
    said = b""
    while data := os.read(status_read, 4096):
        said += data
    os.close(status_read)
    if said == READY:
        return None
    return said.decode(errors="replace") or "the process died before the work began"


def _work(spec: CellSpec, pipes: Sequence[int], status_write: int) -> NoReturn:
    try:
        os.setsid()
        for number, fd in enumerate(pipes):
            os.dup2(fd, number)
        for fd in pipes:
            os.close(fd)
        os.set_inheritable(status_write, False)
        os.environ.clear()
        os.environ.update(spec.variables)
        os.chdir(spec.folder or spec.scratch)
        syscalls.set_name("cell")
        syscalls.end_with_parent()
        syscalls.show_memory()
        _restrict(spec)
        os.write(status_write, READY)
        os.close(status_write)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(status_write, _message(error).encode())
        os._exit(EXIT_FAILED)
    try:
        _run(spec)
    except BaseException:
        traceback.print_exc()
    os._exit(EXIT_FAILED)


def _restrict(spec: CellSpec) -> None:
    """Put on the layers that bind a process and its children; the seccomp filter comes last."""
    with contextlib.suppress(OSError):
        # When the cell has used up its memory, the kernel kills the work before the supervisor.
        Path("/proc/self/oom_score_adj").write_text("500")
    own_network = Layer.NET_NAMESPACE in spec.layers
    has_internet = True
    if Layer.LANDLOCK in spec.layers:
        # No network is better than one without a guard.
        has_internet = own_network or landlock.restricts_ports()
        landlock.restrict(
            readable=spec.readable,
            writable=spec.writable,
            devices=filesystem.DEVICES,
            ports=None if own_network else [spec.proxy_port] if spec.proxy_port else [],
        )
    _limit(spec)
    if Layer.SECCOMP in spec.layers:
        syscalls.install_filter(seccomp.program(own_namespaces=own_network, internet=has_internet))


def _limit(spec: CellSpec) -> None:
    for name, wanted in spec.rlimits.items():
        kind = getattr(resource, name)
        _, most = resource.getrlimit(kind)
        limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(kind, (limit, limit))


def _run(spec: CellSpec) -> None:
    if not spec.module:
        try:
            os.execvpe(spec.command[0], spec.command, dict(os.environ))  # noqa: S606 (no shell)
        except OSError as error:
            sys.stderr.write(f"cannot run {spec.command[0]!r}: {error.strerror}\n")
            sys.stderr.flush()
            os._exit(EXIT_CANNOT_RUN)
    sys.argv = [spec.module, str(os.getppid())]
    importlib.import_module(spec.module).main()
    os._exit(0)


def _close_pipes(pipes: Sequence[int]) -> None:
    """Close the supervisor's copies, so that the agent sees the ends of the pipes when the work
    ends."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    for fd in (nothing, *pipes):
        os.close(fd)


def _message(error: BaseException) -> str:
    return str(error) or type(error).__name__
