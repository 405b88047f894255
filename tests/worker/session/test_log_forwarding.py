"""What executions say goes to the master in batches, and never gets in anybody's way."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from crawlfleet.errors import MasterUnreachable, Refused
from crawlfleet.model.log import LogLevel, LogLine, LogPart, Progress
from crawlfleet.model.task import JSON_NULL
from crawlfleet.model.wire.node_protocol import Assignment, Note, NoteBatch, NoteReply
from crawlfleet.testing.simulation.clock import SimulatedSystem, run_simulated
from crawlfleet.worker.session import log_forwarding
from crawlfleet.worker.session.log_forwarding import ExecutionObserver, LogForwarder


class Link:
    """A master that takes notes, unless it is slow, away or old."""

    def __init__(self) -> None:
        self.batches: list[NoteBatch] = []
        self.lines: dict[tuple[str, int], LogLine] = {}
        self.progress: dict[str, Progress] = {}
        self.delay_s = 0.01
        self.error: Exception | None = None
        self.stale: tuple[str, ...] = ()

    async def note(self, node_id: str, batch: NoteBatch) -> NoteReply:
        await asyncio.sleep(self.delay_s)
        if self.error is not None:
            raise self.error
        self.batches.append(batch)
        for each in batch.notes:
            if gap := each.left_out:
                for seq in range(gap.first, gap.last + 1):
                    self.lines.pop((each.execution_id, seq), None)
            self.lines.update(((each.execution_id, line.seq), line) for line in each.lines)
            if each.progress is not None:
                self.progress[each.execution_id] = each.progress
        return NoteReply(stale=self.stale)

    def seqs(self, execution_id: str = "e1") -> list[int]:
        return sorted(seq for id, seq in self.lines if id == execution_id)


class Scene:
    def __init__(self, **options: Any) -> None:
        self.link = Link()
        system = SimulatedSystem(random.Random(1))
        self.notes = LogForwarder(
            link=self.link,  # type: ignore[arg-type]
            system=system,
            node_id="n",
            session_id="s",
            **options,
        )

    def hear(self, execution_id: str = "e1") -> ExecutionObserver:
        about = Assignment(
            execution_id=execution_id,
            task_id="t",
            token=1,
            task_type="work",
            parameters=JSON_NULL,
        )
        return self.notes.observe(about, lambda _: None)


def played(act: Callable[[Scene], Any], **options: Any) -> Scene:
    async def main() -> Scene:
        scene = Scene(**options)
        running = asyncio.create_task(scene.notes.run())
        await act(scene)
        running.cancel()
        await asyncio.wait([running])
        return scene

    return run_simulated(main())


def say(heard: ExecutionObserver, message: str = "hello") -> None:
    heard.log(message, LogLevel.INFO, {})


def test_an_execution_that_says_nothing_costs_no_message() -> None:
    async def act(scene: Scene) -> None:
        scene.hear().started()
        await asyncio.sleep(10)

    assert played(act).link.batches == []


def test_lines_that_come_together_travel_together() -> None:
    async def act(scene: Scene) -> None:
        for number in range(5):
            heard = scene.hear(f"e{number}")
            for _ in range(10):
                say(heard)
            heard.progress(1, 2)
        await asyncio.sleep(1)

    link = played(act).link
    assert len(link.batches) == 1
    assert len(link.lines) == 50
    assert link.seqs("e3") == [*range(1, 11)]
    assert {each.done for each in link.progress.values()} == {1}


def test_ten_thousand_lines_arrive_within_seconds_in_bounded_batches() -> None:
    async def act(scene: Scene) -> None:
        heard = scene.hear()
        for number in range(10_000):
            say(heard, f"line {number}")
        await asyncio.sleep(5)

    link = played(act).link
    assert link.seqs() == [*range(1, 10_001)]
    assert max(len(note.lines) for batch in link.batches for note in batch.notes) <= 1_000


@pytest.mark.slow
def test_one_that_talks_without_end_does_not_silence_the_others() -> None:
    async def act(scene: Scene) -> None:
        mad, sane = scene.hear("mad"), scene.hear("sane")
        for _ in range(100):
            for _ in range(5_000):
                say(mad, "again")
            await asyncio.sleep(0.05)
        say(sane)
        await asyncio.sleep(1)

    assert played(act).link.seqs("sane") == [1]


def test_only_the_newest_progress_is_told() -> None:
    async def act(scene: Scene) -> None:
        heard = scene.hear()
        for done in range(100):
            heard.progress(done, 100)
        await asyncio.sleep(1)
        heard.progress(100, 100)
        await asyncio.sleep(1)
        assert heard.metrics() == {"progress_done": 100, "progress_total": 100}

    link = played(act).link
    assert [note.progress.done for batch in link.batches for note in batch.notes] == [99, 100]


def test_what_was_not_answered_is_sent_again() -> None:
    async def act(scene: Scene) -> None:
        scene.link.error = MasterUnreachable("down")
        heard = scene.hear()
        say(heard)
        heard.progress(1, None)
        await asyncio.sleep(5)
        say(heard)
        scene.link.error = None
        await asyncio.sleep(15)

    link = played(act).link
    assert link.seqs() == [1, 2]
    assert link.progress["e1"].done == 1


def test_hearing_never_waits_for_a_slow_master_and_the_cap_holds() -> None:
    async def act(scene: Scene) -> None:
        scene.link.delay_s = 60
        heard = scene.hear()
        before = asyncio.get_running_loop().time()
        for number in range(50_000):
            say(heard, f"line {number}")
        assert asyncio.get_running_loop().time() == before
        await asyncio.sleep(3600)

    scene = played(act, cap_bytes=20_000)
    link = scene.link
    seqs = link.seqs()
    assert seqs[0] == 1
    assert seqs[-1] == 50_000
    size = sum(len(line.message) + 32 for line in link.lines.values())
    assert 19_000 <= size <= 20_000
    gap = link.batches[-1].notes[0].left_out
    assert gap is not None
    assert gap.last - gap.first + 1 == 50_000 - len(seqs)


def test_a_master_that_is_away_for_long_does_not_cost_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_forwarding, "UNSENT_BYTES", 10_000)

    async def act(scene: Scene) -> None:
        scene.link.error = MasterUnreachable("down")
        first = scene.hear("e0")
        for number in range(100):
            heard = first if not number else scene.hear(f"e{number}")
            for _ in range(10):
                say(heard, "x" * 100)
            await asyncio.sleep(0.1)
        assert scene.notes._unsent_bytes <= 10_000
        say(first)  # it was given up, and stays so
        scene.link.error = None
        await asyncio.sleep(60)
        assert scene.notes._unsent_bytes == 0

    link = played(act).link
    assert link.seqs("e99") == [*range(1, 11)]
    assert link.seqs("e0") == []


def test_an_older_master_that_does_not_know_notes_is_left_in_peace() -> None:
    async def act(scene: Scene) -> None:
        scene.link.error = Refused("no such route")
        heard = scene.hear()
        say(heard)
        await asyncio.sleep(1)
        scene.link.error = None
        say(heard)
        say(scene.hear("e2"))
        await asyncio.sleep(10)

    assert played(act).link.batches == []


def test_a_stale_execution_is_not_spoken_of_again() -> None:
    async def act(scene: Scene) -> None:
        scene.link.stale = ("e1",)
        heard, other = scene.hear(), scene.hear("e2")
        say(heard)
        say(other)
        await asyncio.sleep(1)
        say(heard)
        heard.progress(1, 2)
        await asyncio.sleep(1)

    link = played(act).link
    assert link.seqs() == [1]
    assert link.seqs("e2") == [1]


def test_last_words_are_sent_when_that_is_quick() -> None:
    async def main() -> tuple[Link, float]:
        quick = Scene()
        say(quick.hear())
        await quick.notes.finish()
        slow = Scene()
        slow.link.delay_s = 100
        say(slow.hear())
        before = asyncio.get_running_loop().time()
        await slow.notes.finish()
        return quick.link, asyncio.get_running_loop().time() - before

    link, waited_s = run_simulated(main())
    assert link.seqs() == [1]
    assert waited_s <= log_forwarding.LAST_WORDS_S


@pytest.mark.parametrize(
    ("text", "kind", "meant"),
    [
        (
            b'{"session_id":"s","notes":[{"execution_id":"e"}]}',
            NoteBatch,
            NoteBatch(session_id="s", notes=(Note(execution_id="e"),)),
        ),
        (b"{}", NoteReply, NoteReply()),
        (
            b'{"execution_id":"e","lines":[{"seq":1,"at":2,"message":"m","later":true}]}',
            LogPart,
            LogPart(execution_id="e", lines=(LogLine(seq=1, at=2.0, message="m"),)),
        ),
        (b'{"done":1}', Progress, Progress(done=1.0)),
    ],
)
def test_messages_with_fewer_or_more_fields_are_understood(
    text: bytes, kind: Any, meant: Any
) -> None:
    assert msgspec.json.decode(text, type=kind) == meant
