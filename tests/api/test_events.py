"""Events over HTTP: listed by kind and subject, and followed live over broken connections."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import pytest

from crawlfleet.errors import MasterUnreachable, Unauthenticated
from tests.api.plain_http import Master, started
from tests.support.local_fleet import LocalFleet

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api events")]

EVENTS: Final = "/api/v1/events"
WITHIN_S: Final = 10.0


class Reader:
    """A stream of server-sent events, read block by block from a plain socket."""

    def __init__(
        self, master: Master, query: str = "", *, key: str | None = None, **headers: str
    ) -> None:
        self._socket = socket.create_connection(("127.0.0.1", master.fleet.port), WITHIN_S)
        lines = [f"GET {EVENTS}{query} HTTP/1.1", "Host: x", "Accept: text/event-stream"]
        lines += [f"Authorization: Bearer {key or master.fleet.key}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._data, self._text = b"", ""
        self.head = self._until(b"\r\n\r\n").decode().lower()

    def block(self) -> dict[str, str]:
        """The fields of the next block; a comment has no name."""
        while "\n\n" not in self._text:
            size = int(self._until(b"\r\n"), 16)
            if not size:
                raise EOFError
            self._text += self._exactly(size + 2)[:-2].decode()
        block, _, self._text = self._text.partition("\n\n")
        return dict(line.split(": ", 1) for line in block.splitlines())

    def event(self) -> Any:
        """The next event."""
        block = self.block()
        while "data" not in block:
            block = self.block()
        event = json.loads(block["data"])
        assert (block["id"], block["event"]) == (str(event["seq"]), event["kind"])
        return event

    def rest(self) -> None:
        """Read to the end."""
        while True:
            self.block()

    def _until(self, end: bytes) -> bytes:
        while end not in self._data:
            self._receive()
        found, _, self._data = self._data.partition(end)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            self._receive()
        found, self._data = self._data[:size], self._data[size:]
        return found

    def _receive(self) -> None:
        received = self._socket.recv(65536)
        if not received:
            raise EOFError
        self._data += received

    def close(self) -> None:
        self._socket.close()


@contextmanager
def reading(master: Master, query: str = "", **headers: str) -> Iterator[Reader]:
    with closing(Reader(master, query, **headers)) as reader:
        yield reader


def paused_and_resumed(master: Master) -> str:
    task = master.submit(task_type="nobodys")
    master.order(task, "pause").expect(200)
    master.order(task, "resume").expect(200)
    return task


def kinds(page: Any) -> list[str]:
    return [event["kind"] for event in page["items"]]


def test_events_are_listed_by_subject_and_kind(master: Master) -> None:
    task = paused_and_resumed(master)

    everything = master.get(f"{EVENTS}?subject={task}")
    paused = master.get(f"{EVENTS}?subject={task}&kind=task.pa")

    assert kinds(everything) == ["task.pending", "task.paused", "task.pending"]
    assert kinds(paused) == ["task.paused"]
    assert everything["next_cursor"] is paused["next_cursor"] is None


def test_pages_follow_each_other_without_gap(master: Master) -> None:
    for _ in range(4):
        paused_and_resumed(master)
    whole = master.get(f"{EVENTS}?kind=task.&limit=1000")["items"]

    seen: list[Any] = []
    page = master.get(f"{EVENTS}?kind=task.&limit=5")
    while page["next_cursor"]:
        seen += page["items"]
        page = master.get(f"{EVENTS}?kind=task.&limit=5&after={page['next_cursor']}")

    assert seen + page["items"] == whole


def test_the_newest_are_the_last_in_order(master: Master) -> None:
    task = paused_and_resumed(master)
    time.sleep(0.2)  # the log is carried on just after the commit

    newest = master.get(f"{EVENTS}?newest=true&limit=2")

    assert kinds(newest) == ["task.paused", "task.pending"]
    assert {event["subject"] for event in newest["items"]} == {task}
    assert kinds(master.get(f"{EVENTS}?newest=true&limit=1&kind=task.paused")) == ["task.paused"]


@pytest.mark.parametrize(
    ("query", "field"),
    [("after=-1", "after"), ("limit=0", "limit"), ("subject=%00", "subject"), ("kinds=x", "kinds")],
)
def test_a_bad_question_is_refused(query: str, field: str, master: Master) -> None:
    document = master.call("GET", f"{EVENTS}?{query}").expect(422)

    assert document["errors"][0]["field"] == field


def test_a_stream_shows_what_happens_from_now_on(master: Master) -> None:
    paused_and_resumed(master)
    time.sleep(0.2)
    with reading(master) as reader:
        assert "content-type: text/event-stream" in reader.head
        assert "id" in reader.block(), "the reader is told its place at once"
        task = master.submit(task_type="nobodys")

        event = reader.event()

    assert (event["kind"], event["subject"]) == ("task.pending", task)


def test_a_stream_shows_only_what_is_wanted(master: Master) -> None:
    with reading(master, "?kind=task.paused") as reader:
        reader.block()
        task = paused_and_resumed(master)

        event = reader.event()

    assert (event["kind"], event["subject"]) == ("task.paused", task)


def test_a_stream_goes_on_after_what_was_seen(master: Master) -> None:
    task = paused_and_resumed(master)
    first, second, third = master.get(f"{EVENTS}?subject={task}")["items"]

    with reading(master, f"?subject={task}&after={first['seq']}") as reader:
        assert reader.event() == second
    with reading(master, f"?subject={task}&after=0", Last_Event_ID=str(second["seq"])) as reader:
        assert reader.event() == third


def test_one_key_leaves_places_to_the_others(master: Master) -> None:
    _, key = master.key("greedy", "viewer")
    readers = [Reader(master, key=key) for _ in range(50)]
    try:
        answer = master.call("GET", EVENTS, key=key, headers={"Accept": "text/event-stream"})
        assert "with this key" in answer.expect(503)["detail"]
        with reading(master) as reader:
            assert "200" in reader.head
    finally:
        for each in readers:
            each.close()


def test_a_place_that_the_log_has_not_reached_is_taken_for_now(master: Master) -> None:
    with reading(master, Last_Event_ID="999999999999") as reader:
        assert "999999999999" not in reader.block()
        task = master.submit(task_type="nobodys")

        assert reader.event()["subject"] == task


def test_a_last_event_that_is_no_number_is_refused(master: Master) -> None:
    answer = master.call(
        "GET", EVENTS, headers={"Accept": "text/event-stream", "Last-Event-ID": "x"}
    )

    assert answer.expect(422)["errors"][0]["field"] == "Last-Event-ID"


def test_places_are_bounded_and_free_again_when_a_reader_leaves(master: Master) -> None:
    keys = [master.key(name, "viewer")[1] for name in ("one", "other", "third")]
    readers = [Reader(master, key=key) for key in keys[:2] for _ in range(50)]
    stream = {"Accept": "text/event-stream"}
    try:
        for key in keys:
            answer = master.call("GET", EVENTS, key=key, headers=stream)
            assert answer.expect(503)["type"] == "urn:crawlfleet:problem:busy"
            assert answer.headers["retry-after"] == "1"
    finally:
        for reader in readers:
            reader.close()
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        with reading(master) as reader:
            if reader.head.startswith("http/1.1 200"):
                return
        time.sleep(0.05)
    pytest.fail("the places were not given back")


def test_a_reader_that_takes_nothing_holds_up_nobody(master: Master) -> None:
    with reading(master, "?after=0"):
        big = {"task_type": "nobodys"}
        for _ in range(5):
            master.post("/api/v1/tasks:batch", {"tasks": [big] * 2000})
        begun = time.monotonic()

        task = master.submit(task_type="nobodys")

        assert time.monotonic() - begun < 15
        assert master.task(task)["status"] == "pending"


def test_the_client_goes_on_when_the_master_was_away(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with started(tmp_path_factory.mktemp("away") / "fleet") as master:
        seen: list[str] = []
        done = threading.Event()

        async def follow() -> None:
            async with master.fleet.client() as client, asyncio.timeout(60):
                async for event in client.stream_events(0, kind="task.pending"):
                    seen.append(event.subject)
                    if len(seen) == 2:
                        return

        reader = threading.Thread(target=lambda: (asyncio.run(follow()), done.set()))
        reader.start()
        first = master.submit(task_type="nobodys")
        deadline = time.monotonic() + WITHIN_S
        while not seen and time.monotonic() < deadline:
            time.sleep(0.05)
        master.fleet.kill("master")
        master.close()
        asyncio.run(master.fleet.until_ready())
        second = master.submit(task_type="nobodys")

        reader.join(60)

        assert done.is_set()
        assert seen == [first, second]


def test_the_client_says_when_there_is_nobody_or_the_key_is_wrong(
    master: Master, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def first(fleet: LocalFleet) -> None:
        async with fleet.client() as client:
            async for _ in client.stream_events():
                return

    nobody = LocalFleet(tmp_path_factory.mktemp("nobody"))
    with pytest.raises(MasterUnreachable):
        asyncio.run(first(nobody))
    stranger = LocalFleet(tmp_path_factory.mktemp("stranger"))
    stranger.url = master.fleet.url
    with pytest.raises(Unauthenticated):
        asyncio.run(first(stranger))


def test_a_master_with_readers_stops_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    with started(tmp_path_factory.mktemp("stop") / "fleet") as master, reading(master) as reader:
        reader.block()
        begun = time.monotonic()

        for process in master.fleet.processes("master"):
            process.terminate()
        with pytest.raises(EOFError):
            reader.rest()

        assert time.monotonic() - begun < 15
