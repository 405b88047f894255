"""From a fork of the nursery to a cell: put the layers on, begin the work, watch over it.

Two processes are left: the *warden*, which watches, and the work. Whatever cannot be put on ends
the attempt before the work begins: a cell never runs with less than it was ordered with.
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
from crawlfleet.sandbox.cell.supervisor import Warden, size_of_all
from crawlfleet.sandbox.kernel import landlock, seccomp, syscalls
from crawlfleet.sandbox.spec import CellSpec, Word, decode_spec, encode

MOST_SPEC_BYTES: Final = 1 << 20
READY: Final = b"ready"
EXIT_FAILED: Final = 125
EXIT_CANNOT_RUN: Final = 127


def become(agent: socket.socket, pipes: Sequence[int], *, own: int | None) -> NoReturn:
    """Does not return: this process is the cell's from now on. `own` is a user namespace in which
    what is root's is the cell's."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.setsid()
        os.umask(0o022)  # the agent's own is stricter: what is made here is for another user
        spec = decode_spec(agent.recv(MOST_SPEC_BYTES))
        for group in spec.groups:
            Path(group).write_text("0")
        filesystem.leave(spec)
        # Who makes a namespace of processes stays outside; its next child is the first within.
        has_to_fork = Layer.PID_NAMESPACE in spec.layers and not filesystem.is_first()
        if not has_to_fork or os.fork() == 0:
            _begin(spec, agent, pipes, own)
    except BaseException as error:
        with contextlib.suppress(OSError):
            agent.send(encode(Word(failed=_told(error))))
    finally:
        os._exit(EXIT_FAILED)


def _begin(spec: CellSpec, agent: socket.socket, pipes: Sequence[int], own: int | None) -> None:
    """The warden's life."""
    syscalls.set_name("warden")
    syscalls.adopt_orphans()
    # From within it cannot be seen what number the machine knows a process by; outside it can.
    outside = int(Path("/proc/self").readlink().name)
    if Layer.MOUNT_NAMESPACE in spec.layers:
        filesystem.build(spec, spec.base, own)
    listening = filesystem.set_up_network(spec)
    filesystem.become_nobody(spec)
    if Layer.NO_NEW_PRIVILEGES in spec.layers:
        syscalls.drop_capabilities()
        syscalls.forbid_new_privileges()
    syscalls.hide_memory()
    held = size_of_all(spec)
    works, told = os.pipe()
    work = os.fork()
    if work == 0:
        for fd in (works, agent, own, listening):
            if fd is not None:
                os.close(fd if isinstance(fd, int) else fd.detach())
        _work(spec, pipes, told)
    os.close(told)
    _let_go_of(pipes)
    trouble = _first_words(works)
    if trouble is not None:
        agent.send(encode(Word(failed=trouble)))
        return
    pidfd = os.pidfd_open(os.getpid())
    handed = [pidfd] if listening is None else [pidfd, listening.fileno()]
    socket.send_fds(agent, [encode(Word(begun=outside))], handed)
    os.close(pidfd)
    if listening is not None:
        listening.close()
    Warden(agent, work, spec, held=held).watch()


def _first_words(works: int) -> str | None:
    """What went wrong before the work began; `None` when it began."""
    said = b""
    while data := os.read(works, 4096):
        said += data
    os.close(works)
    if said == READY:
        return None
    return said.decode(errors="replace") or "the process died before the work began"


def _work(spec: CellSpec, pipes: Sequence[int], told: int) -> NoReturn:
    try:
        os.setsid()
        for number, fd in enumerate(pipes):
            os.dup2(fd, number)
        for fd in pipes:
            os.close(fd)
        os.set_inheritable(told, False)
        os.environ.clear()
        os.environ.update(spec.variables)
        os.chdir(spec.folder or spec.scratch)
        syscalls.set_name("cell")
        syscalls.end_with_parent()
        syscalls.show_memory()
        _restrict(spec)
        os.write(told, READY)
        os.close(told)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(told, _told(error).encode())
        os._exit(EXIT_FAILED)
    try:
        _run(spec)
    except BaseException:
        traceback.print_exc()
    os._exit(EXIT_FAILED)


def _restrict(spec: CellSpec) -> None:
    """The layers that hold one process and all that it starts; the filter is the last."""
    with contextlib.suppress(OSError):
        # When the cell has used up its memory, this goes before the warden does.
        Path("/proc/self/oom_score_adj").write_text("500")
    own_network = Layer.NET_NAMESPACE in spec.layers
    has_internet = True
    if Layer.LANDLOCK in spec.layers:
        # Better none than one without a guard.
        has_internet = own_network or landlock.holds_ports()
        landlock.restrict(
            readable=spec.readable,
            writable=spec.writable,
            devices=filesystem.DEVICES,
            ports=None if own_network else [spec.proxy_port] if spec.proxy_port else [],
        )
    _limit(spec)
    if Layer.SECCOMP in spec.layers:
        syscalls.install_filter(seccomp.program(own_world=own_network, internet=has_internet))


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


def _let_go_of(pipes: Sequence[int]) -> None:
    """So that their ends are seen when the work ends, not when the warden does."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    for fd in (nothing, *pipes):
        os.close(fd)


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__
