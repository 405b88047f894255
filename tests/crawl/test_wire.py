"""Whatever bytes come, in whatever pieces, the exchange ends and nothing is raised."""

import asyncio
import time
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crawlfleet.crawl.answer import is_wanted, media_type
from crawlfleet.crawl.watch import Watch
from crawlfleet.crawl.wire import Answer, Connection, Wanted
from crawlfleet.model.crawl import Limits, Outcome
from crawlfleet.testing.zoo.animal import PAGE, reply
from tests.sampling import examples

LIMITS = Limits(max_header_bytes=2048)
MAX_BODY_BYTES = 5000

ANSWERS = [
    reply(PAGE),
    reply(PAGE, length=None),
    reply(b"55\r\n" + PAGE + b"\r\n0\r\n\r\n", "Transfer-Encoding: chunked", length=None),
    reply(PAGE, "Content-Encoding: gzip"),
    reply(PAGE, "Set-Cookie: a=b", status="404 Not Found"),
    b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + reply(PAGE),
]


class Line(asyncio.Transport):
    """A transport to nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: bytes) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True


def takes(content_type: str) -> bool:
    return is_wanted(media_type(content_type), ("text/html",))


def exchange(pieces: list[bytes], *, error: Exception | None = None) -> tuple[Answer, Line]:
    async def scenario() -> tuple[Answer, Line]:
        watch, line = Watch(), Line()
        connection = Connection(LIMITS, watch)
        connection.connection_made(line)
        wanted = Wanted(takes=takes, max_body_bytes=MAX_BODY_BYTES)
        asked = connection.ask(b"GET / HTTP/1.1\r\n\r\n", wanted, 1e12)
        for piece in pieces:
            connection.data_received(piece)
            if line.closed:
                break
        if not asked.done() or line.closed:
            line.closed = True
            connection.connection_lost(error)
        watch.close()
        assert asked.done()
        return asked.result(), line

    return asyncio.run(scenario())


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize("data", ANSWERS[:3])
def test_an_answer_is_the_same_byte_by_byte(data: bytes) -> None:
    whole, _ = exchange([data])
    slow, _ = exchange([data[at : at + 1] for at in range(len(data))])

    assert (whole.outcome, whole.body) == (Outcome.OK, PAGE)
    assert (slow.outcome, slow.body, slow.headers) == (whole.outcome, whole.body, whole.headers)
    assert slow.reusable == whole.reusable


@settings(max_examples=examples(300), deadline=None)
@given(
    st.sampled_from(ANSWERS),
    st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=8)), max_size=4),
    st.lists(st.integers(0, 1000), max_size=5),
    st.booleans(),
)
def test_broken_answers_end_in_an_outcome(
    data: bytes, spoilt: list[tuple[int, bytes]], places: list[int], resets: bool
) -> None:
    for at, junk in spoilt:
        data = data[:at] + junk + data[at + len(junk) :]

    answer, line = exchange(cut(data, places), error=ConnectionResetError() if resets else None)

    assert answer.outcome is Outcome.OK or answer.reason or answer.outcome is Outcome.REDIRECT
    assert len(answer.body) <= MAX_BODY_BYTES
    assert not any(set(value) & set("\r\n\0") for header in answer.headers for value in header)
    assert line.closed or answer.reusable


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=600), st.lists(st.integers(0, 600), max_size=5))
def test_any_bytes_at_all_end_in_an_outcome(data: bytes, places: list[int]) -> None:
    assume(b"HTTP/" not in data)  # what begins like an answer may be one
    answer, line = exchange(cut(data, places))

    assert answer.outcome is Outcome.BAD_RESPONSE
    assert line.closed
    assert not answer.reusable


@pytest.mark.parametrize(
    ("after_s", "heard", "words"),
    [
        (LIMITS.first_byte_s + 1, b"", "no answer"),
        (LIMITS.idle_s + 1, reply(PAGE)[:20], "silent"),
        (LIMITS.idle_s + 1, reply(PAGE)[:-1], "silent"),
        (LIMITS.total_s + 1, reply(PAGE)[:-1], "not finished"),
    ],
)
def test_limits_of_time_end_it(after_s: float, heard: bytes, words: str) -> None:
    async def scenario() -> None:
        watch, line = Watch(), Line()
        connection = Connection(LIMITS, watch)
        connection.connection_made(line)
        wanted = Wanted(takes=takes, max_body_bytes=MAX_BODY_BYTES)
        now = time.monotonic()
        asked = connection.ask(b"GET / HTTP/1.1\r\n\r\n", wanted, now + LIMITS.total_s)
        if heard:
            connection.data_received(heard)
        connection.check(now + 0.5)
        assert not asked.done()
        connection.check(now + after_s)
        answer = asked.result()
        assert answer.outcome is Outcome.TIMEOUT
        assert words in answer.reason
        assert line.closed
        watch.close()

    asyncio.run(scenario())
