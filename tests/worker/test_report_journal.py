"""Finished work on disk: it outlasts the process, torn ends, and a disk that is full."""

import asyncio
import errno
import os
from pathlib import Path

import msgspec
import pytest

from crawlfleet.errors import ConfigError
from crawlfleet.model.wire.node_protocol import Report, ReportBatch, ReportKind
from crawlfleet.worker import report_journal
from crawlfleet.worker.report_journal import ReportJournal


def ended(*numbers: int, session: str = "sess-1", data: bytes = b"null") -> ReportBatch:
    return ReportBatch(
        session_id=session,
        reports=tuple(
            Report(
                execution_id=f"exec-{number}",
                task_id=f"task-{number}",
                token=number,
                kind=ReportKind.SUCCEEDED,
                at=1.0,
                data=msgspec.Raw(data),
            )
            for number in numbers
        ),
    )


def executions(kept: ReportJournal) -> list[str]:
    return [each.execution_id for _, batch in kept.waiting() for each in batch.reports]


def test_what_was_kept_is_there_in_the_next_life_by_session_and_in_order(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "nodes" / "a.reports"
        first = ReportJournal(path)
        assert not path.exists()
        pretty = b'{\n  "found": [1, 2]\n}'
        await first.keep("node-1", ended(1, 2, data=pretty))
        await first.keep("node-1", ended(3, session="sess-2"))
        assert path.stat().st_mode & 0o077 == 0
        again = ReportJournal(path)
        (node, one), (_, two) = again.waiting()
        assert (node, one.session_id, two.session_id) == ("node-1", "sess-1", "sess-2")
        assert [each.token for each in one.reports] == [1, 2]
        assert bytes(one.reports[0].data) == pretty
        await again.forget({"exec-1", "exec-3", "never heard of"})
        assert executions(again) == ["exec-2"]

    asyncio.run(scene())


def test_when_all_was_answered_the_file_is_empty_and_is_written_to_again(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "a.reports"
        kept = ReportJournal(path)
        await kept.keep("node-1", ended(1, 2))
        await kept.forget({"exec-1", "exec-2"})
        assert path.stat().st_size == 0
        await kept.keep("node-1", ended(3))
        assert executions(ReportJournal(path)) == ["exec-3"]

    asyncio.run(scene())


@pytest.mark.parametrize("damage", ["cut", "zeros", "garbled"])
def test_a_torn_end_costs_the_torn_record_alone(tmp_path: Path, damage: str) -> None:
    async def scene() -> None:
        path = tmp_path / "a.reports"
        await ReportJournal(path).keep("node-1", ended(1, 2, 3))
        whole = path.read_bytes()
        path.write_bytes(
            {
                "cut": whole[:-5],
                "zeros": whole[:-20] + bytes(4096),
                "garbled": whole[:-20] + b"x" * 20,
            }[damage]
        )
        again = ReportJournal(path)
        assert executions(again) == ["exec-1", "exec-2"]
        await again.keep("node-1", ended(4))
        assert executions(ReportJournal(path)) == ["exec-1", "exec-2", "exec-4"]

    asyncio.run(scene())


def test_a_file_that_cannot_be_read_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "a.reports"
    path.mkdir()
    with pytest.raises(ConfigError, match=r"a\.reports cannot be read.*remove it"):
        ReportJournal(path)


def test_a_full_disk_stops_new_work_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        path = tmp_path / "a.reports"
        kept = ReportJournal(path)
        await kept.keep("node-1", ended(1))
        write, room = os.pwrite, 40

        def full(file: int, content: bytes, at: int) -> int:
            nonlocal room
            if not room:
                raise OSError(errno.ENOSPC, "No space left on device")
            part = content[:room]
            room -= len(part)
            return write(file, part, at)

        monkeypatch.setattr(os, "pwrite", full)
        await kept.keep("node-1", ended(2))
        assert kept.is_full
        assert executions(kept) == ["exec-1", "exec-2"]
        assert executions(ReportJournal(path)) == ["exec-1"]
        # Room again: what could not be written is, before what is new.
        monkeypatch.setattr(os, "pwrite", write)
        await kept.keep("node-1", ended(3))
        assert not kept.is_full
        assert executions(ReportJournal(path)) == ["exec-1", "exec-2", "exec-3"]

    asyncio.run(scene())


def test_it_says_when_there_is_enough_of_it(tmp_path: Path) -> None:
    async def scene() -> None:
        kept = ReportJournal(tmp_path / "a.reports", most_bytes=2_000)
        await kept.keep("node-1", ended(1))
        assert not kept.is_full
        await kept.keep("node-1", ended(2, data=b'"' + b"x" * 2_000 + b'"'))
        assert kept.is_full
        await kept.forget({"exec-2"})
        assert not kept.is_full

    asyncio.run(scene())


def test_answered_records_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_journal, "WASTE_BYTES", 1_000)

    async def scene() -> None:
        path = tmp_path / "a.reports"
        kept = ReportJournal(path)
        await kept.keep("node-1", ended(0))
        for number in range(1, 100):
            await kept.keep("node-1", ended(number))
            await kept.forget({f"exec-{number}"})
        assert path.stat().st_size < 2_000
        await kept.keep("node-1", ended(100))
        assert executions(ReportJournal(path)) in (
            ["exec-0", "exec-100"],
            ["exec-0", "exec-99", "exec-100"],
        )

    asyncio.run(scene())


def test_a_caller_that_gives_up_leaves_a_whole_file(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "a.reports"
        kept = ReportJournal(path)
        for number in range(20):
            keeping = asyncio.create_task(kept.keep("node-1", ended(number)))
            await asyncio.sleep(0)
            keeping.cancel()
        await kept.keep("node-1", ended(20))
        assert executions(ReportJournal(path)) == [f"exec-{number}" for number in range(21)]

    asyncio.run(scene())
