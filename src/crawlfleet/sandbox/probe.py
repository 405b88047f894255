"""Detects which layers of isolation this machine offers, by trying each one.

It is also a program: `python -m crawlfleet.sandbox.probe` prints the result. Each try happens in a
fork, and a process with threads cannot be forked safely, so `detect` runs the program. The version
of the kernel is not enough: containers, security modules and settings take layers away.
"""

import contextlib
import errno
import os
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from crawlfleet.errors import SandboxFailed
from crawlfleet.model.isolation import Isolation, Layer, Limits
from crawlfleet.sandbox import users
from crawlfleet.sandbox.cell import filesystem, visible_files
from crawlfleet.sandbox.kernel import landlock, seccomp, syscalls
from crawlfleet.sandbox.kernel.cgroups import Cgroups, CgroupsV1, CgroupsV2
from crawlfleet.sandbox.spec import Bind, CellSpec

WAIT_S: Final = 30.0
NAMESPACES: Final = (
    Layer.PID_NAMESPACE,
    Layer.NET_NAMESPACE,
    Layer.IPC_NAMESPACE,
    Layer.UTS_NAMESPACE,
)


def detect() -> Isolation:
    """Return what this machine offers, without a level. Raises `SandboxFailed`."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "crawlfleet.sandbox.probe"],
            capture_output=True,
            timeout=WAIT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return msgspec.json.decode(done.stdout, type=Isolation)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
        raise SandboxFailed(f"what this machine offers cannot be found out: {error}") from error


def try_all() -> Isolation:
    """Try every layer. Call it in a process without threads."""
    os.umask(0o022)
    if sys.platform != "linux":
        return Isolation(layers=(Layer.RLIMITS,), missing={Layer.WATCHDOG: "this is no Linux"})
    missing: dict[Layer, str] = {}
    for layer, check in _checks().items():
        if trouble := error_of(check):
            missing[layer] = trouble
    layers = tuple(each for each in Layer if each not in missing)
    return Isolation(layers=layers, missing=missing)


def runs_as_root(offer: Isolation) -> bool:
    """Return whether foreign code would have root's rights on this machine; then a worker refuses
    it."""
    return os.geteuid() == 0 and not {Layer.OTHER_USER, Layer.MOUNT_NAMESPACE} & {*offer.layers}


def error_of(check: Callable[[], None]) -> str:
    """Run a check in a fork and return its error; empty when it succeeded."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            check()
        except BaseException as error:
            os.write(write_end, (str(error) or type(error).__name__).encode()[:1000])
        finally:
            os._exit(0)
    os.close(write_end)
    said = b""
    while data := os.read(read_end, 4096):
        said += data
    os.close(read_end)
    _, status = os.waitpid(pid, 0)
    if status and not said:
        return f"the try ended with status {status}"
    return said.decode(errors="replace")


def _checks() -> dict[Layer, Callable[[], None]]:
    uid = None if error_of(_become_another) else users.SHARED_UID
    agent = os.getppid()  # the process that runs the program; only these two may be moved
    checks: dict[Layer, Callable[[], None]] = {
        Layer.RLIMITS: _limit,
        Layer.WATCHDOG: syscalls.adopt_orphans,
        Layer.NO_NEW_PRIVILEGES: _forbid,
        Layer.SECCOMP: _filter,
        Layer.LANDLOCK: _restrict,
        Layer.OTHER_USER: _become_another,
        Layer.USER_NAMESPACE: lambda: _own_users(uid),
        Layer.MOUNT_NAMESPACE: lambda: _build(uid),
        Layer.CGROUP_V1: lambda: _enter(CgroupsV1(_key())),
        Layer.CGROUP_V2: lambda: _enter(CgroupsV2(_key(), agent=agent)),
    }
    for layer in NAMESPACES:
        checks[layer] = lambda layer=layer: _leave(layer, uid)  # type: ignore[misc]
    return checks


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    _expect(resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 64)


def _forbid() -> None:
    syscalls.drop_capabilities()
    syscalls.forbid_new_privileges()
    status = Path("/proc/self/status").read_text()
    _expect("NoNewPrivs:\t1" in status and "CapEff:\t0000000000000000" in status)


def _filter() -> None:
    syscalls.forbid_new_privileges()
    syscalls.install_filter(seccomp.program(own_namespaces=True))
    try:
        syscalls.unshare(0)
    except OSError as error:
        _expect(error.errno == errno.EPERM)
    else:
        raise OSError("a call that is denied was let through")


def _restrict() -> None:
    syscalls.forbid_new_privileges()
    landlock.restrict(readable=("/usr",), writable=(), devices=(), ports=())
    try:
        list(Path("/etc").iterdir())
    except PermissionError:
        return
    raise OSError("a folder that is not listed could be read")


def _become_another() -> None:
    os.setgroups([])
    os.setresgid(users.SHARED_UID, users.SHARED_UID, users.SHARED_UID)
    os.setresuid(users.SHARED_UID, users.SHARED_UID, users.SHARED_UID)


def _own_users(uid: int | None) -> None:
    made = CellSpec(layers=(Layer.USER_NAMESPACE,), scratch="/", uid=uid)
    filesystem.enter_namespaces(made)
    filesystem.drop_root(made)
    _expect(os.getuid() == (os.getuid() if uid is None else uid))


def _leave(layer: Layer, uid: int | None) -> None:
    made = CellSpec(layers=(Layer.USER_NAMESPACE, layer), scratch="/", uid=uid)
    filesystem.enter_namespaces(made)
    _in_child(lambda: filesystem.set_up_network(made))


def _build(uid: int | None) -> None:
    layers = (Layer.USER_NAMESPACE, Layer.MOUNT_NAMESPACE, Layer.PID_NAMESPACE)
    base = tempfile.mkdtemp(prefix="crawlfleet-probe-")
    made = CellSpec(
        layers=layers,
        scratch="/tmp/cell",  # noqa: S108 (the cell's own)
        uid=uid,
        disk_bytes=1 << 20,
        binds=tuple(Bind(path) for path in visible_files.system()),
        links=visible_files.links_of(),
    )

    def see() -> None:
        filesystem.build_root(made, base, None)
        filesystem.drop_root(made)
        _expect(Path("/proc/self").exists() and not Path(base).exists())
        try:
            Path("/usr/crawlfleet").touch()
        except OSError:
            return
        raise OSError("the root could be written to")

    def go() -> None:
        filesystem.enter_namespaces(made)
        _in_child(see)

    try:
        if trouble := error_of(go):
            raise OSError(trouble)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _enter(groups: Cgroups) -> None:
    group = groups.make("probe", Limits(memory_mb=64, cpu_cores=1, pids=8))
    try:

        def enter() -> None:
            for entrance in group.procs_files:
                Path(entrance).write_text("0")
            _expect("crawlfleet." in Path("/proc/self/cgroup").read_text())

        if trouble := error_of(enter):
            raise OSError(trouble)
    finally:
        group.remove_now()


def _in_child(check: Callable[[], object]) -> None:
    """Run a check in a child, which is PID 1 of a new PID namespace."""
    if trouble := error_of(lambda: _call(check)):
        raise OSError(trouble)


def _call(check: Callable[[], object]) -> None:
    check()


def _key() -> str:
    return f"probe-{secrets.token_hex(4)}"


def _expect(holds: bool) -> None:
    if not holds:
        raise OSError("it had no effect")


if __name__ == "__main__":
    with contextlib.suppress(ValueError, OSError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.buffer.write(msgspec.json.encode(try_all()))
