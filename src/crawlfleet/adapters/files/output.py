"""The output of crawls in a folder of the master; with several masters, one that they share."""

import asyncio
import contextlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from crawlfleet.adapters.files.segments import Frame, RunFile
from crawlfleet.errors import OutputUnavailable, RunEnded
from crawlfleet.model import ids
from crawlfleet.model.wire.output import OutputSummary, Segment, Stream
from crawlfleet.private_file import write_private

T = TypeVar("T")
Cut = dict[str, dict[str, int]]
"""Highest segment number that counts, by stream and execution."""
Chain = list[tuple[RunFile, list[Frame]]]
"""Runs, with the frames to read of each."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_RUN: Final = re.compile(r"(\d{12,})-(.+)\.(items|pages)\.segments")
_FIGURES: Final = "figures.json"
_CUT: Final = "cut.json"
_DRAFT: Final = re.compile(rf"\.{re.escape(_FIGURES)}\.\d+\.\d+|\.{re.escape(_CUT)}\.\d+")
_TASK: Final = re.compile(rf"{ids.TASK}-[{ids.ALPHABET}]{{{ids.BODY_LENGTH}}}")
STREAMS: Final[tuple[Stream, ...]] = ("items", "pages")
MAX_WRITTEN: Final = 5_000
"""Runs of which is remembered where they end: far more than grow at once."""
MAX_READ: Final = 16
"""Runs of which is remembered where each segment lies."""


class OutputFolder:
    """Implements `crawlfleet.ports.output.OutputStore`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: OrderedDict[Path, RunFile] = OrderedDict()
        self._read: OrderedDict[Path, RunFile] = OrderedDict()
        self._turn = threading.Lock()

    async def append(
        self,
        task_id: str,
        token: int,
        execution_id: str,
        stream: Stream,
        segment: Segment,
        data: bytes,
    ) -> bool:
        path = self._of(task_id) / f"{token:012}-{_checked(execution_id)}.{stream}.segments"

        def write() -> bool:
            if execution_id in self._cut(task_id, stream):
                raise RunEnded(
                    f"the run of {execution_id} was ended when the frontier of the crawl was "
                    "restored; the next attempt goes on"
                )
            return self._run(path, to_read=False).append(segment, data)

        return await asyncio.to_thread(write)

    async def cut(self, task_id: str, counted: Mapping[Stream, Mapping[str, int]]) -> None:
        path = self._of(task_id) / _CUT

        def write() -> None:
            kept = {}
            for stream in STREAMS:
                runs = {execution_id: 0 for _, execution_id, _ in self._found(task_id, stream)}
                kept[stream] = {**runs, **counted.get(stream, {})}
            write_private(path, msgspec.json.encode(kept))

        await _trying(path, write)

    async def summary(
        self, task_id: str, stream: Stream, *, completed: bool
    ) -> OutputSummary | None:
        return await asyncio.to_thread(self._summary, task_id, stream, completed)

    async def read(
        self, task_id: str, stream: Stream, *, completed: bool, skip: int = 0
    ) -> AsyncGenerator[bytes, None]:
        pieces = self._pieces(task_id, stream, completed, skip)
        try:
            while (piece := await _next(pieces)) is not None:
                yield piece
        finally:
            pieces.close()

    async def keep_figures(self, task_id: str, figures: bytes) -> None:
        folder = self._of(task_id)

        def write() -> None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft = folder / f".{_FIGURES}.{os.getpid()}.{threading.get_ident()}"
            try:
                draft.write_bytes(figures)
                draft.replace(folder / _FIGURES)
            finally:
                draft.unlink(missing_ok=True)

        await _trying(folder, write)

    async def figures(self, task_id: str) -> bytes | None:
        path = self._of(task_id) / _FIGURES

        def read() -> bytes | None:
            with contextlib.suppress(FileNotFoundError):
                return path.read_bytes()
            return None

        return await _trying(path, read)

    async def tasks(self) -> Sequence[str]:
        def names() -> list[str]:
            with contextlib.suppress(FileNotFoundError):
                found = [each for each in self._folder.iterdir() if _TASK.fullmatch(each.name)]
                return [each.name for each in found if each.is_dir() and _is_ours(each)]
            return []

        return await _trying(self._folder, names)

    async def sizes(self) -> Mapping[str, int]:
        tasks = await self.tasks()

        def measure() -> dict[str, int]:
            return {task_id: _size(self._of(task_id)) for task_id in tasks}

        return await _trying(self._folder, measure)

    async def remove(self, task_id: str) -> None:
        folder = self._of(task_id)

        def clear() -> None:
            """Remove only files of this store: other programs may use the folder, too."""
            with contextlib.suppress(FileNotFoundError):
                for path in [*folder.iterdir()]:
                    if _is_written(path.name):
                        path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # somebody else's things are left
                folder.rmdir()

        await _trying(folder, clear)

    async def settle(self, task_id: str) -> None:
        def clear() -> None:
            for stream in STREAMS:
                found = self._found(task_id, stream)
                if len(found) > 1:
                    kept = {run.path for run, _ in self._chain(task_id, stream, completed=True)}
                    for _, _, path in found:
                        if kept and path not in kept:
                            path.unlink(missing_ok=True)

        await _trying(self._of(task_id), clear)

    def _cut(self, task_id: str, stream: Stream) -> dict[str, int]:
        """Return the segment numbers that `cut` has settled for a stream, by execution; empty
        before that.
        """
        path = self._of(task_id) / _CUT
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=Cut)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise _unusable(path, error) from error
        return kept.get(stream, {})

    def _summary(self, task_id: str, stream: Stream, completed: bool) -> OutputSummary | None:
        chain = self._chain(task_id, stream, completed=completed)
        if not chain:
            return None
        first = chain[-1][0].first
        assert first is not None, "a run in the chain has a segment"
        frames = [frame for _, each in chain for frame in each]
        return OutputSummary(
            items=sum(frame.segment.items for frame in frames),
            bytes=sum(frame.size for frame in frames),
            columns=first.columns,
            kinds=first.kinds,
        )

    def _pieces(
        self, task_id: str, stream: Stream, completed: bool, skip: int
    ) -> Generator[bytes, None, None]:
        """Yield whole lines of items, or pieces of pages."""
        rest = b""
        for run, frames in self._chain(task_id, stream, completed=completed):
            left, skip = _skipped(frames, skip)
            for data in run.contents(left):
                if stream != "items":
                    yield data
                    continue
                lines, end, more = (rest + data).rpartition(b"\n")
                rest = more
                if end:
                    while skip and lines:
                        skip -= 1
                        lines = lines.partition(b"\n")[2]
                    if lines:
                        yield lines + b"\n"

    def _chain(self, task_id: str, stream: Stream, *, completed: bool) -> Chain:
        """The run to read, after those that it goes on from; each as far as it counts."""
        found = self._found(task_id, stream)
        paths = {execution_id: path for _, execution_id, path in found}
        if shared := self._shared(found, task_id, stream):
            return shared
        newest: Chain = []
        for _, _, path in reversed(found):
            chain = self._chain_to(path, paths, task_id)
            # Of a task that has not completed, an attempt that found nothing hides no other.
            if chain and (completed or any(f.segment.items for _, each in chain for f in each)):
                return chain
            newest = newest or chain
        return newest

    def _shared(self, found: list[tuple[int, str, Path]], task_id: str, stream: Stream) -> Chain:
        """Return all runs of a crawl that several executions work for; none where the newest is not
        one of those. Each counts as far as `cut` has settled, or else as far as it or another run
        says.
        """
        runs: dict[str, tuple[RunFile, list[Frame]]] = {}
        is_shared = False
        for _, execution_id, path in found:
            run = self._run(path)
            frames = run.through(None)
            if run.first is not None:
                is_shared = run.first.shared
                if is_shared:
                    runs[execution_id] = run, frames
        if not is_shared:
            return []
        counted = {id: frames[-1].segment.counted for id, (_, frames) in runs.items()}
        cut = self._cut(task_id, stream)
        for _, frames in runs.values():
            for told in (each for frame in frames for each in frame.segment.earlier):
                if cut.get(told.execution_id) == 0:
                    continue
                if told.execution_id not in runs and told.items:
                    raise _missing(task_id, told.execution_id)
                known = counted.get(told.execution_id, 0)
                counted[told.execution_id] = max(known, told.last)
        counted |= cut
        return [(run, run.through(counted[id])) for id, (run, _) in runs.items()]

    def _chain_to(self, path: Path, paths: Mapping[str, Path], task_id: str) -> Chain:
        """Return a run, after the runs that it continues."""
        last = self._run(path)
        frames = last.counted()
        if last.first is None:
            return []  # its first write was cut short
        chain = [(last, frames)]
        for earlier in reversed(last.first.earlier):
            if earlier.execution_id not in paths:
                raise _missing(task_id, earlier.execution_id)
            run = self._run(paths[earlier.execution_id])
            chain.insert(0, (run, run.through(earlier.last)))
        return chain

    def _found(self, task_id: str, stream: str) -> list[tuple[int, str, Path]]:
        """The runs of a task, oldest first."""
        with contextlib.suppress(FileNotFoundError):
            matches = [(_RUN.fullmatch(path.name), path) for path in self._of(task_id).iterdir()]
            return sorted(
                (int(match[1]), match[2], path)
                for match, path in matches
                if match and match[3] == stream
            )
        return []

    def _run(self, path: Path, *, to_read: bool = True) -> RunFile:
        runs, most = (self._read, MAX_READ) if to_read else (self._written, MAX_WRITTEN)
        with self._turn:
            run = runs.pop(path, None) or RunFile(path, to_read=to_read)
            runs[path] = run
            if len(runs) > most:
                runs.popitem(last=False)
            return run

    def _of(self, task_id: str) -> Path:
        return self._folder / _checked(task_id)


async def _next(pieces: Generator[bytes, None, None]) -> bytes | None:
    """Return the next piece, `None` after the last. A caller that is cancelled waits for the
    thread, since a generator cannot be closed while it runs.
    """
    step = asyncio.ensure_future(asyncio.to_thread(next, pieces, None))
    try:
        return await asyncio.shield(step)
    finally:
        while not step.done():  # to be cancelled again changes nothing
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([step])


def _missing(task_id: str, execution_id: str) -> OutputUnavailable:
    return OutputUnavailable(
        f"a part of the output of {task_id} is missing: the run of {execution_id}; put it back. "
        "A backup of the store has no output of crawls"
    )


def _is_ours(folder: Path) -> bool:
    """Return whether the folder holds output of a crawl, or nothing at all."""
    names = [each.name for each in folder.iterdir()]
    return not names or any(map(_is_written, names))


def _size(folder: Path) -> int:
    """Return the bytes of this store's files; a file that is removed meanwhile counts as gone."""
    total = 0
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            if _is_written(path.name):
                with contextlib.suppress(FileNotFoundError):
                    total += path.stat().st_size
    return total


def _is_written(name: str) -> bool:
    return name in (_FIGURES, _CUT) or bool(_RUN.fullmatch(name) or _DRAFT.fullmatch(name))


def _skipped(frames: list[Frame], skip: int) -> tuple[list[Frame], int]:
    """The frames from the one on in which the item after so many begins, and how many of its
    lines come before."""
    begin = before = 0
    if not skip:
        return frames, 0
    for number, frame in enumerate(frames):
        if before + frame.segment.items > skip:
            break
        before += frame.segment.items
        if not frame.segment.is_part:
            begin, skip, before = number + 1, skip - before, 0
    return frames[begin:], skip


async def _trying(path: Path, work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> OutputUnavailable:
    return OutputUnavailable(
        f"{path} cannot be used: {error.strerror or error}; make room, or mend it"
    )


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the name of a file")
    return name
