"""What a cell is to be, by its order and by what this machine has: down to the last path."""

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
USUAL_FILES: Final = 1024
WARDENS: Final = 2
"""Processes of a cell that are not its work's."""
MEGABYTE: Final = 1 << 20


class WayOut(NamedTuple):
    """Where a cell finds its proxy; nowhere when the port is 0."""

    port: int = 0
    url: str = ""


_OF_FILES: Final = frozenset({Layer.MOUNT_NAMESPACE, Layer.LANDLOCK})


class Plans:
    """Of one sandbox."""

    def __init__(
        self,
        layers: tuple[Layer, ...],
        *,
        base: str,
        hidden: tuple[str, ...],
        kept: Mapping[str, str],
        environ: Mapping[str, str],
    ) -> None:
        """`base` is where roots are mounted, `hidden` what no cell may see, `kept` the variables
        that every cell has; by `environ` it is known where packages are."""
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
        """What is hidden and no folder, or not there yet."""
        self._kept = dict(kept)
        self._is_another = Layer.OTHER_USER in self._layers
        self._is_counted = bool(self._layers & {Layer.CGROUP_V1, Layer.CGROUP_V2})
        self._seen = (
            *visible_files.system(),
            *visible_files.packages(environ, by_others=self._is_another),
        )
        self._links = visible_files.links_of()

    def make(self, order: CellOrder, scratch: str, way: WayOut, uid: int | None = None) -> CellSpec:
        """A cell as it is ordered, but for its control groups and the user that it is; where that
        is known, its processes are counted by it. Raises `SandboxFailed`."""
        limits = order.limits
        has_root = Layer.MOUNT_NAMESPACE in self._layers
        made = CellSpec(
            layers=self._ordered,
            module="" if order.command else HOST_MODULE,
            command=order.command,
            variables=self._variables(order, scratch, way),
            proxy_port=way.port,
            scratch=scratch,
            folder=order.folder,
            measured=order.writable if has_root else (scratch, *order.writable),
            rlimits=self._rlimits(limits, uid),
            # Where there is a control group, it counts.
            memory_bytes=_bytes(limits.memory_mb) if not self._is_counted else None,
            disk_bytes=_bytes(limits.disk_mb),
        )
        return self._with_sights(made, order) if self._layers & _OF_FILES else made

    def _with_sights(self, made: CellSpec, order: CellOrder) -> CellSpec:
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
        readable = (*visible_files.carved(listed, self._hidden), *apart)
        return replace(
            made,
            readable=(*readable, *self._links, *visible_files.PROC_FILES, "/proc/self"),
            writable=(made.scratch, *order.writable),
        )

    def _check_hidden(self, binds: Iterable[Bind]) -> None:
        """What is put over a file is gone when another takes its place, as happens when a file is
        renewed: only folders are hidden for certain. Raises `SandboxFailed`."""
        for path in self._lone_files:
            shown = [each.path for each in binds if visible_files.is_in(path, each.path)]
            if shown and not Path(path).is_dir():
                raise SandboxFailed(
                    f"{path} must not be seen, but is in {shown[0]}, which cells see; move it into "
                    "a folder of its own, or take that one out of `worker.sandbox` and PYTHONPATH"
                )

    def _rlimits(self, limits: Limits, uid: int | None) -> dict[str, int]:
        found = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": limits.files or USUAL_FILES}
        if (disk := _bytes(limits.disk_mb)) is not None:
            found["RLIMIT_FSIZE"] = disk
        if not self._is_counted and (memory := _bytes(limits.memory_mb)) is not None:
            found["RLIMIT_DATA"] = memory
        if limits.pids is not None:
            # Where a cell is a user of its own, or has a namespace of users, only its processes
            # count; elsewhere all of the same user do.
            others = 0 if Layer.USER_NAMESPACE in self._layers else _tasks_of(uid or os.getuid())
            found["RLIMIT_NPROC"] = others + limits.pids + WARDENS
        return found

    def _variables(self, order: CellOrder, scratch: str, way: WayOut) -> dict[str, str]:
        usual = {"PATH": os.defpath, "LANG": "C.UTF-8"}
        own = {"HOME": scratch, "TMPDIR": scratch}
        if way.url:
            own |= dict.fromkeys((*PROXY_VARIABLES, WAY_OUT), way.url)
            own |= dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1")
        return usual | self._kept | own | order.variables


def with_wardens(limits: Limits) -> Limits:
    """What a cell may use together with those that watch over it."""
    if limits.pids is None:
        return limits
    return replace(limits, pids=limits.pids + WARDENS)


def _bytes(megabytes: float | None) -> int | None:
    return None if megabytes is None else int(megabytes * MEGABYTE)


def _tasks_of(uid: int) -> int:
    """Processes and threads of a user."""
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == uid:
                    count += len(list(Path(entry.path, "task").iterdir()))
    return count
