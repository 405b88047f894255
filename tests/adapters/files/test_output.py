"""The folder with the output of crawls: what counts is read, once, and nothing else."""

import asyncio
import contextlib
import os
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.adapters.files import segments
from crawlfleet.adapters.files.output import OutputFolder
from crawlfleet.errors import OutputUnavailable, RunEnded
from crawlfleet.model.wire.output import OutputSummary, Run, Segment

TASK = f"task-{1:025}"


class Writer:
    """One attempt that writes its run by hand."""

    def __init__(self, folder: OutputFolder, token: int = 1, execution_id: str = "") -> None:
        self.folder = folder
        self.token = token
        self.execution_id = execution_id or f"exec-{token}"

    def put(self, sequence: int, text: str = "", *, data: bytes | None = None, **more: Any) -> bool:
        lines = "".join(f"{word}\n" for word in text.split()).encode() if data is None else data
        fields = {"first": sequence, "counted": sequence - 1, "items": lines.count(b"\n"), **more}
        segment = Segment(sequence=sequence, **fields)
        packed = zlib.compress(lines) if lines else b""
        return asyncio.run(
            self.folder.append(TASK, self.token, self.execution_id, "items", segment, packed)
        )

    @property
    def path(self) -> Path:
        (path,) = self.folder._folder.glob(f"{TASK}/*-{self.execution_id}.items.segments")
        return path


def read(folder: OutputFolder, skip: int = 0, *, completed: bool = False) -> list[str]:
    async def all_of() -> bytes:
        pieces = folder.read(TASK, "items", completed=completed, skip=skip)
        return b"".join([piece async for piece in pieces])

    return asyncio.run(all_of()).decode().split()


def summary(folder: OutputFolder) -> OutputSummary | None:
    return asyncio.run(folder.summary(TASK, "items", completed=False))


@pytest.fixture
def folder(tmp_path: Path) -> OutputFolder:
    return OutputFolder(tmp_path / "output")


def test_nothing_is_there_before_the_first_segment(folder: OutputFolder) -> None:
    assert summary(folder) is None
    assert read(folder) == []
    assert asyncio.run(folder.tasks()) == []


def test_a_segment_counts_once_a_later_one_says_so(folder: OutputFolder) -> None:
    writer = Writer(folder)
    assert writer.put(1, "a b", columns=("title",))
    assert read(folder) == []

    assert writer.put(2, "c")
    assert read(folder) == ["a", "b"]

    assert writer.put(3)
    assert read(folder) == ["a", "b", "c"]
    kept = summary(folder)
    assert kept is not None
    assert (kept.items, kept.columns) == (3, ("title",))


def test_a_copy_that_comes_late_changes_nothing(folder: OutputFolder) -> None:
    writer = Writer(folder)
    writer.put(1, "a")
    writer.put(2, "b")

    assert not writer.put(1, "x")
    assert not writer.put(2, "y")

    writer.put(3)
    assert read(folder) == ["a", "b"]


def test_a_step_that_was_taken_back_is_not_read(folder: OutputFolder) -> None:
    writer = Writer(folder)
    writer.put(1, "a")
    writer.put(2, "lost", counted=1)
    writer.put(3, "lost too", first=2, counted=1)
    writer.put(4, "b", counted=1)
    writer.put(5, "c", first=4, counted=1)
    assert read(folder) == ["a"]

    writer.put(6, counted=5)
    assert read(folder) == ["a", "b", "c"]


def test_a_newer_attempt_replaces_the_older_one(folder: OutputFolder) -> None:
    old, new = Writer(folder, 1), Writer(folder, 2)
    old.put(1, "a")
    old.put(2)
    new.put(1, "b")
    new.put(2)

    assert read(folder) == ["b"]
    # The old one is a zombie: whatever it says now, nobody reads it.
    old.put(3, "z")
    old.put(4)
    assert read(folder) == ["b"]

    asyncio.run(folder.settle(TASK))
    assert read(folder) == ["b"]
    assert len([*folder._folder.glob("*/*.segments")]) == 1


def test_an_attempt_that_found_nothing_hides_no_other_unless_it_completed(
    folder: OutputFolder,
) -> None:
    old, new = Writer(folder, 1), Writer(folder, 2)
    old.put(1, "a")
    old.put(2)
    new.put(1)
    assert read(folder) == ["a"]
    kept = summary(folder)
    assert kept is not None
    assert kept.items == 1

    new.put(2, "not committed")
    assert read(folder) == ["a"]
    assert read(folder, completed=True) == []

    asyncio.run(folder.settle(TASK))
    assert read(folder) == []
    assert len([*folder._folder.glob("*/*.segments")]) == 1


def test_an_attempt_may_go_on_from_an_earlier_one(folder: OutputFolder) -> None:
    old, new = Writer(folder, 1), Writer(folder, 2)
    old.put(1, "a")
    old.put(2, "b")
    old.put(3, "not committed any more")
    new.put(1, "c", earlier=(Run(execution_id="exec-1", last=2, items=2),))
    new.put(2)

    assert read(folder) == ["a", "b", "c"]
    assert read(folder, skip=1) == ["b", "c"]
    assert read(folder, skip=2) == ["c"]
    asyncio.run(folder.settle(TASK))
    assert read(folder) == ["a", "b", "c"]

    old.path.unlink()
    with pytest.raises(OutputUnavailable, match="exec-1"):
        read(folder)


@pytest.mark.parametrize("skip", range(9))
def test_items_are_skipped_wherever_segments_part_them(folder: OutputFolder, skip: int) -> None:
    writer = Writer(folder)
    writer.put(1, "a b c")
    writer.put(2, data=b"lo", is_part=True)
    writer.put(3, data=b"ng\nd\ne", items=2, is_part=True)
    writer.put(4, data=b"e\nf\n")
    writer.put(5, "g")
    writer.put(6)

    assert read(folder, skip) == ["a", "b", "c", "long", "d", "ee", "f", "g"][skip:]


def test_what_is_no_item_is_read_too(folder: OutputFolder) -> None:
    writer = Writer(folder)
    writer.put(1, "head", items=0)
    writer.put(2, "a")
    writer.put(3)

    assert read(folder) == ["head", "a"]


def test_the_end_of_a_write_that_was_cut_short_is_dropped(folder: OutputFolder) -> None:
    writer = Writer(folder)
    writer.put(1, "a")
    whole = writer.path.stat().st_size
    writer.put(2, "b")
    with writer.path.open("r+b") as file:
        file.truncate(whole + 17)

    again = Writer(OutputFolder(folder._folder))
    assert read(again.folder) == []
    assert again.put(2, "c")
    assert again.put(3)
    assert read(again.folder) == ["a", "c"]


def test_a_frame_whose_content_is_not_what_was_written_ends_the_run(folder: OutputFolder) -> None:
    writer = Writer(folder)
    writer.put(1, "a")
    writer.put(2, "b")
    writer.put(3)
    content = bytearray(writer.path.read_bytes())
    content[-1] ^= 0xFF
    writer.path.write_bytes(content)

    assert read(OutputFolder(folder._folder)) == ["a"]


def test_what_unpacks_to_too_much_is_not_read(
    folder: OutputFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(folder)
    writer.put(1, data=b"x" * 999 + b"\n")
    writer.put(2)
    monkeypatch.setattr(segments, "MAX_UNPACKED_BYTES", 1000)
    assert len(read(folder)[0]) == 999

    monkeypatch.setattr(segments, "MAX_UNPACKED_BYTES", 999)
    with pytest.raises(OutputUnavailable, match="more than 999"):
        read(folder)


def test_lengths_that_cannot_be_end_the_run(
    folder: OutputFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(folder)
    writer.put(1, "a")
    writer.put(2, "b")
    writer.put(3, data=os.urandom(900))
    writer.put(4)
    monkeypatch.setattr(segments, "MAX_FRAME_BYTES", 500)

    assert read(OutputFolder(folder._folder)) == ["a"]
    with pytest.raises(OutputUnavailable, match="at most 500"):
        writer.put(5, data=os.urandom(900))


def test_two_masters_share_a_folder(folder: OutputFolder) -> None:
    one, other = Writer(folder), Writer(OutputFolder(folder._folder))
    one.put(1, "a")
    other.put(2, "b")
    assert not one.put(2, "b")
    one.put(3, "c")
    other.put(4)

    assert read(folder) == read(other.folder) == ["a", "b", "c"]


def test_masters_that_do_not_share_a_folder_are_told(tmp_path: Path) -> None:
    one, other = (Writer(OutputFolder(tmp_path / name)) for name in ("one", "other"))
    one.put(1, "a")

    with pytest.raises(OutputUnavailable, match="one folder that all masters share"):
        other.put(2, "b")

    assert read(other.folder) == []
    assert one.put(2, "b")
    with pytest.raises(OutputUnavailable, match="missing here"):
        one.put(4)
    one.put(3)
    assert read(one.folder) == ["a", "b"]


def test_a_full_disk_is_told_and_leaves_all_as_it_was(
    folder: OutputFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(folder)
    writer.put(1, "a")

    def write_half(handle: int, data: bytes, at: int) -> int:
        really(handle, data[: len(data) // 2], at)
        raise OSError(28, "No space left on device")

    really = os.pwrite
    with monkeypatch.context() as full:
        full.setattr(segments.os, "pwrite", write_half)
        with pytest.raises(OutputUnavailable, match="No space left"):
            writer.put(2, "b")

    assert writer.put(2, "b")
    assert writer.put(3)
    assert read(folder) == read(OutputFolder(folder._folder)) == ["a", "b"]


@pytest.mark.parametrize(
    ("disk", "reserve"),
    [
        (0, 0),
        (100_000_000, 10_000_000),
        (5_000_000_000, 256_000_000),
        (100_000_000_000, 2_000_000_000),
        (20_000_000_000_000, 5_000_000_000),
    ],
)
def test_a_part_of_the_disk_stays_free(disk: int, reserve: int) -> None:
    assert segments.reserve_of(disk) == reserve


def test_output_does_not_fill_the_disk_of_the_store(
    folder: OutputFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(folder)
    writer.put(1, "a")
    before = writer.path.read_bytes()
    free = os.statvfs(writer.path)
    left = free.f_bavail * free.f_frsize
    with monkeypatch.context() as filling:
        filling.setattr(segments, "reserve_of", lambda disk: left + 2**40)
        with pytest.raises(OutputUnavailable, match="make room"):
            writer.put(2, "b")
        assert writer.path.read_bytes() == before

    assert writer.put(2, "b")


def test_a_file_where_the_folder_should_be_is_told_of(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    storage.write_text("")
    with pytest.raises(OutputUnavailable, match="cannot be used: Not a directory"):
        Writer(OutputFolder(storage)).put(1, "a")


def test_a_reader_that_hangs_up_waits_for_the_disk(
    folder: OutputFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(folder)
    writer.put(1, "a")
    writer.put(2)
    reached, released, closed = (threading.Event() for _ in range(3))

    def contents(run: Any, frames: Any) -> Iterator[bytes]:
        try:
            reached.set()
            released.wait(5.0)
            yield b"a\n"
        finally:
            closed.set()

    monkeypatch.setattr(segments.RunFile, "contents", contents)

    async def scene() -> None:
        async def consume() -> None:
            async with contextlib.aclosing(folder.read(TASK, "items", completed=False)) as pieces:
                async for _ in pieces:
                    pass

        reading = asyncio.create_task(consume())
        await asyncio.to_thread(reached.wait, 5.0)
        for _ in range(2):
            reading.cancel()
            await asyncio.sleep(0.01)
        assert not closed.is_set()
        released.set()
        await asyncio.wait([reading])
        assert reading.cancelled()
        assert closed.is_set()

    asyncio.run(scene())


def test_what_is_removed_is_gone(folder: OutputFolder) -> None:
    Writer(folder).put(1, "a")
    asyncio.run(folder.keep_figures(TASK, b"{}"))
    assert asyncio.run(folder.tasks()) == [TASK]
    assert asyncio.run(folder.figures(TASK)) == b"{}"

    asyncio.run(folder.remove(TASK))
    asyncio.run(folder.remove(TASK))

    assert asyncio.run(folder.tasks()) == []
    assert asyncio.run(folder.figures(TASK)) is None
    assert read(folder) == []


def test_what_others_put_there_is_neither_told_nor_touched(folder: OutputFolder) -> None:
    Writer(folder).put(1, "a")
    asyncio.run(folder.keep_figures(TASK, b"{}"))
    root = folder._folder
    foreign = [root / "lost+found", root / ".snapshot", root / "photos", root / "task-of-mine"]
    for each in foreign:
        each.mkdir()
        (each / "precious").touch()
    mine = root / TASK / "precious"
    mine.touch()
    (root / TASK / ".figures.json.12.345").touch()
    (root / TASK / ".cut.json.12").touch()
    assert asyncio.run(folder.tasks()) == [TASK]

    asyncio.run(folder.remove(TASK))

    assert [*mine.parent.iterdir()] == [mine]
    assert asyncio.run(folder.tasks()) == []
    assert all((each / "precious").exists() for each in foreign)


def test_what_was_settled_is_durable_with_its_name(
    folder: OutputFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Writer(folder).put(1, "a")
    home = folder._folder / TASK
    synced: list[list[str]] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), home.stat()):
            synced.append([each.name for each in home.iterdir()])
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    asyncio.run(folder.cut(TASK, {"items": {"exec-1": 1}}))
    assert synced
    assert "cut.json" in synced[-1]


@pytest.mark.parametrize("name", ["..", "a/b", "", ".hidden", "a\0b"])
def test_a_name_cannot_leave_the_folder(folder: OutputFolder, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        asyncio.run(folder.append(name, 1, "exec-1", "items", Segment(sequence=1, first=1), b""))
    with pytest.raises(ValueError, match="cannot be the name"):
        asyncio.run(folder.summary(name, "items", completed=False))


def test_what_was_settled_counts_whatever_runs_say(folder: OutputFolder) -> None:
    one, other = Writer(folder, 1), Writer(folder, 2)
    one.put(1, shared=True)
    one.put(2, "a")
    one.put(3, "b")
    one.put(4, "c")
    other.put(1, shared=True, earlier=(Run(execution_id="exec-1", last=4, items=3),))
    other.put(2, "d")
    other.put(3)
    assert read(folder) == ["a", "b", "c", "d"]

    asyncio.run(folder.cut(TASK, {"items": {"exec-1": 2}}))
    assert read(folder) == ["a"]
    for writer, sequence in ((one, 5), (other, 4)):
        with pytest.raises(RunEnded, match="next attempt"):
            writer.put(sequence, "late")

    third = Writer(folder, 3)
    third.put(1, shared=True, earlier=(Run(execution_id="exec-1", last=2, items=1),))
    third.put(2, "b c d")
    third.put(3)
    assert read(folder) == ["a", "b", "c", "d"]
    asyncio.run(folder.remove(TASK))
    assert not (folder._folder / TASK).exists()
