"""Whatever bytes come, in whatever pieces, the exchange ends and nothing is raised."""

import asyncio
import time
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crawlfleet.crawl.fetch.http1 import Http1Connection, RawResponse, Wanted
from crawlfleet.crawl.fetch.response import is_wanted, media_type
from crawlfleet.crawl.fetch.timeouts import TimeoutWatch
from crawlfleet.model.crawl.parameters import Limits, Outcome
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


def exchange(pieces: list[bytes], *, error: Exception | None = None) -> tuple[RawResponse, Line]:
    async def scenario() -> tuple[RawResponse, Line]:
        watch, line = TimeoutWatch(), Line()
        connection = Http1Connection(LIMITS, watch)
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


NO_HEADERS = [
    b"Bad Name: x",
    b"\xc3\x9cber: x",
    b": no name",
    b":",
    b"no colon",
    b"X(1): a",
    b"X\x0b: a",
    b"X\0: a",
    b"Bad Name: x\r\n goes: on\r\n\tand on",
    b"Access-Control Allow-Origin: *",
]


@pytest.mark.parametrize("line", NO_HEADERS)
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_line_that_is_no_header_is_left_out(line: bytes, end: bytes) -> None:
    before, after = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n", b"\r\nX-A: b\r\nX-B : c\r\n"
    length = b"Content-Length: %d\r\n\r\n" % len(PAGE)
    head = (before + line + after + length).replace(b"\r\n", end)
    for data in (head + PAGE, b"HTTP/1.1 103 Hints\r\nBad Hint: x\r\n\r\n" + head + PAGE):
        whole, _ = exchange([data])
        slow, _ = exchange([data[at : at + 1] for at in range(len(data))])
        for answer in (whole, slow):
            assert (answer.outcome, answer.status, answer.body) == (Outcome.OK, 200, PAGE)
            assert answer.headers == [
                ("content-type", "text/html"),
                ("x-a", "b"),
                ("x-b", "c"),
                ("content-length", str(len(PAGE))),
            ]
            assert not answer.reusable


def test_a_header_goes_on_in_the_next_line() -> None:
    data = reply(PAGE, "Bad Name: x", "X-A: a\r\n  b\r\n\tc")

    assert exchange([data])[0].headers[-1] == ("x-a", "a b c")


@pytest.mark.parametrize(
    "lines",
    [
        ["Content Length: 5"],
        ["Content-Length 5"],
        ["Content-Length\x0b: 5"],
        ["Transfer Encoding: chunked"],
        ["Transfer-Encoding\x0b: chunked"],
        ["(Content-Length): 5"],
        ["Bad Name: x", "Content-Length: 5"],
        ["Bad Name: x", f"Content-Length : {len(PAGE)}"],
        ["Bad Name: x", "Transfer-Encoding: gzip"],
        ["Bad Name: x", "Content-Length: 5, 5"],
        ["Content-Length : 5"],
    ],
)
def test_what_may_say_where_the_body_ends_is_never_left_out(lines: list[str]) -> None:
    """Each answer has a right Content-Length, too."""
    answer, line = exchange([reply(PAGE, *lines)])

    assert (answer.outcome, answer.body) == (Outcome.BAD_RESPONSE, b"")
    assert line.closed


def test_white_space_before_a_colon_is_no_part_of_the_name() -> None:
    data = reply(PAGE).replace(b"Content-Length:", b"Content-Length :")

    answer, _ = exchange([data + b"more"])
    assert (answer.outcome, answer.body) == (Outcome.OK, PAGE)


def test_what_is_no_http_at_all_is_not_waited_for() -> None:
    for data in (b"SSH-2.0-OpenSSH_9.2\r\n", b"220 mail.example ESMTP\r\n", PAGE):
        assert exchange([data])[0].reason.startswith("not HTTP")


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=6), st.lists(st.integers(0, 400), max_size=5))
def test_heads_of_any_lines_end_in_an_outcome(lines: list[bytes], places: list[int]) -> None:
    head = b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"Content-Length: %d" % len(PAGE)])

    answer, line = exchange(cut(head + b"\r\n\r\n" + PAGE, places))
    assert answer.outcome is Outcome.OK or answer.reason
    assert line.closed or answer.reusable


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
        watch, line = TimeoutWatch(), Line()
        connection = Http1Connection(LIMITS, watch)
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
