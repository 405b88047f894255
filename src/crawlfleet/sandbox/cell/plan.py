"""Plans cells: turns an order into a complete specification for this machine."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from crawlfleet.errors import SandboxFailed
from crawlfleet.model.isolation import Layer, Limits
from crawlfleet.ports.sandbox import WAY_OUT, CellOrder
from crawlfleet.sandbox.cell import filesystem, visible_files
from crawlfleet.sandbox.cell.forkserver import HOST_MODULE
from crawlfleet.sandbox.spec import Bind, CellSpec, replace

PROXY_PORT: Final = 3128
PROXY_URL: Final = f"http://127.0.0.1:{PROXY_PORT}"
PROXY_VARIABLES: Final = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy"),
)
SCRATCH: Final = filesystem.TEMPORARY + "/cell"
DEFAULT_OPEN_FILES: Final = 1024
SUPERVISOR_PROCESSES: Final = 2
"""The processes of a cell that watch over its work."""
MEGABYTE: Final = 1 << 20


class ProxyAddress(NamedTuple):
    """The address of a cell's proxy; port 0 means that there is none."""

    port: int = 0
    url: str = ""


_OF_FILES: Final = frozenset({Layer.MOUNT_NAMESPACE, Layer.LANDLOCK})


class CellPlanner:
    """Makes the specifications of all cells of one sandbox."""

    def __init__(
        self,
        layers: tuple[Layer, ...],
        *,
        base: str,
        hidden: tuple[str, ...],
        kept: Mapping[str, str],
        environ: Mapping[str, str],
    ) -> None:
        """Collect what all cells share.

        Roots are mounted at `base`. No cell sees the paths in `hidden`. Every cell has the
        variables in `kept`. `PYTHONPATH` is taken from `environ`.
        """
        self._ordered = layers
        self._layers = frozenset(layers)
        self._base = base
        self._hidden = tuple({str(Path(each).resolve()) for each in hidden})
        self._lone_files = tuple(
            path
            for path in self._hidden
            if not any(visible_files.is_in(path, each) for each in self._hidden if each != path)
            and not Path(path).is_dir()
        )
        """Hidden paths that are no folder, or do not exist yet."""
        self._kept = dict(kept)
        self._is_another = Layer.OTHER_USER in self._layers
        self._is_counted = bool(self._layers & {Layer.CGROUP_V1, Layer.CGROUP_V2})
        self._seen = (
            *visible_files.system(),
            *visible_files.packages(environ, by_others=self._is_another),
        )
        self._links = visible_files.links_of()

    def make(
        self, order: CellOrder, scratch: str, proxy: ProxyAddress, uid: int | None = None
    ) -> CellSpec:
        """Return the specification of a cell, without its control groups and user.

        With a `uid`, the limit of processes counts those that this user has already. Raises
        `SandboxFailed`.
        """
        limits = order.limits
        has_root = Layer.MOUNT_NAMESPACE in self._layers
        made = CellSpec(
            layers=self._ordered,
            module="" if order.command else HOST_MODULE,
            command=order.command,
            variables=self._variables(order, scratch, proxy),
            proxy_port=proxy.port,
            scratch=scratch,
            folder=order.folder,
            measured=order.writable if has_root else (scratch, *order.writable),
            rlimits=self._rlimits(limits, uid),
            # A control group counts memory itself.
            memory_bytes=_bytes(limits.memory_mb) if not self._is_counted else None,
            disk_bytes=_bytes(limits.disk_mb),
        )
        return self._with_files(made, order) if self._layers & _OF_FILES else made

    def _with_files(self, made: CellSpec, order: CellOrder) -> CellSpec:
        binds = visible_files.binds(
            self._seen,
            order.readable,
            order.writable,
            own=self._is_another,
            hidden=self._hidden,
        )
        if Layer.MOUNT_NAMESPACE in self._layers:
            self._check_hidden(binds)
            return replace(
                made,
                base=self._base,
                binds=binds,
                links=self._links,
                hidden=self._hidden,
                readable=("/",),
                writable=(filesystem.TEMPORARY, filesystem.SHARED_MEMORY, *order.writable),
            )
        apart = (*order.readable, *order.writable)
        listed = (each.path for each in binds if each.path not in apart)
        readable = (*visible_files.without_hidden(listed, self._hidden), *apart)
        return replace(
            made,
            readable=(*readable, *self._links, *visible_files.PROC_FILES, "/proc/self"),
            writable=(made.scratch, *order.writable),
        )

    def _check_hidden(self, binds: Iterable[Bind]) -> None:
        """Refuse a hidden file below a folder that cells see.

        A mount over a file disappears when the file is replaced, as in an atomic update; only
        folders can be hidden reliably. Raises `SandboxFailed`.
        """
        for path in self._lone_files:
            shown = [each.path for each in binds if visible_files.is_in(path, each.path)]
            if shown and not Path(path).is_dir():
                raise SandboxFailed(
                    f"{path} must not be seen, but is in {shown[0]}, which cells see; move it into "
                    "a folder of its own, or take that one out of `worker.sandbox` and PYTHONPATH"
                )

    def _rlimits(self, limits: Limits, uid: int | None) -> dict[str, int]:
        found = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": limits.files or DEFAULT_OPEN_FILES}
        if (disk := _bytes(limits.disk_mb)) is not None:
            found["RLIMIT_FSIZE"] = disk
        if not self._is_counted and (memory := _bytes(limits.memory_mb)) is not None:
            found["RLIMIT_DATA"] = memory
        if limits.pids is not None:
            # In a user namespace, or as a user of its own, a cell's processes count alone;
            # otherwise the kernel counts all processes of the same user.
            others = 0 if Layer.USER_NAMESPACE in self._layers else _tasks_of(uid or os.getuid())
            found["RLIMIT_NPROC"] = others + limits.pids + SUPERVISOR_PROCESSES
        return found

    def _variables(self, order: CellOrder, scratch: str, proxy: ProxyAddress) -> dict[str, str]:
        usual = {"PATH": os.defpath, "LANG": "C.UTF-8"}
        own = {"HOME": scratch, "TMPDIR": scratch}
        if proxy.url:
            own |= dict.fromkeys((*PROXY_VARIABLES, WAY_OUT), proxy.url)
            own |= dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1")
        return usual | self._kept | own | order.variables


def with_supervisors(limits: Limits) -> Limits:
    """Return the limits of a cell with its supervisor processes included."""
    if limits.pids is None:
        return limits
    return replace(limits, pids=limits.pids + SUPERVISOR_PROCESSES)


def _bytes(megabytes: float | None) -> int | None:
    return None if megabytes is None else int(megabytes * MEGABYTE)


def _tasks_of(uid: int) -> int:
    """Count the processes and threads of a user."""
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == uid:
                    count += len(list(Path(entry.path, "task").iterdir()))
    return count
