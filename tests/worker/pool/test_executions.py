"""What a process may say when it was sent several executions, and what it may not."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from crawlfleet.model.task import JSON_NULL
from crawlfleet.model.wire.services import (
    BUNDLE,
    CODE,
    FRONTIER,
    LOCKS,
    SECRETS,
    ServiceResponse,
)
from crawlfleet.testing.executor_suite import WatchedRun
from crawlfleet.worker.pool import protocol
from crawlfleet.worker.pool.executions import Executions, Send, SentExecution, TimeLimitReached
from crawlfleet.worker.pool.output import Output
from crawlfleet.worker.pool.process_io import ProcessChannel


def with_sent(
    *ids: str, limit_s: float | None = None, send: Send = lambda _: None
) -> tuple[Executions, list[SentExecution]]:
    talks = Executions(Output(), on_end=lambda _: None, send=send)
    loop = asyncio.get_running_loop()
    sent = [SentExecution(id, WatchedRun(), limit_s, loop) for id in ids]
    for each in sent:
        talks.add(each)
    return talks, sent


def start(execution_id: str) -> protocol.Start:
    return protocol.Start(execution_id=execution_id, task_id="t", attempt=1, task_type="sleep")


def in_loop(scene: Callable[[], None]) -> None:
    async def run() -> None:
        scene()

    asyncio.run(run())


def test_executions_begin_and_end_in_the_order_in_which_they_were_sent() -> None:
    def scene() -> None:
        talks, (one, two) = with_sent("e1", "e2")
        talks.take(protocol.Started(execution_id="e1"))
        assert (one.has_begun, two.has_begun) == (True, False)
        talks.take(protocol.Result(execution_id="e1"))
        talks.take(protocol.Started(execution_id="e2"))
        talks.take(protocol.Error(execution_id="e2", message="no"))
        assert isinstance(one.ended.result(), protocol.Result)
        assert isinstance(two.ended.result(), protocol.Error)
        assert len(talks) == 0

    in_loop(scene)


@pytest.mark.parametrize(
    "reply",
    [
        protocol.Started(execution_id="e2"),
        protocol.Result(execution_id="e2"),
        protocol.Error(execution_id="e3", message="unknown"),
        protocol.Stopped(execution_id="e2"),
        protocol.Returned(execution_id="e1"),
        protocol.Started(execution_id="e1"),
        protocol.Ready(protocol=1),
    ],
)
def test_what_is_out_of_turn_is_a_breach(reply: protocol.AnyReply) -> None:
    def scene() -> None:
        talks, _ = with_sent("e1", "e2")
        talks.take(protocol.Started(execution_id="e1"))
        with pytest.raises(protocol.Malformed, match="out of turn"):
            talks.take(reply)

    in_loop(scene)


def test_one_that_waits_can_be_stopped_or_handed_back_without_the_others() -> None:
    def scene() -> None:
        talks, (one, two, three) = with_sent("e1", "e2", "e3")
        talks.take(protocol.Started(execution_id="e1"))
        two.must_stop = True
        talks.take(protocol.Stopped(execution_id="e2"))
        talks.take(protocol.Returned(execution_id="e3"))
        assert isinstance(two.ended.result(), protocol.Stopped)
        assert isinstance(three.ended.result(), protocol.Returned)
        assert not one.ended.done()

    in_loop(scene)


def test_a_confirmation_that_crossed_the_end_is_taken_once() -> None:
    def scene() -> None:
        talks, (one,) = with_sent("e1")
        one.must_stop = True
        talks.take(protocol.Result(execution_id="e1"))
        talks.take(protocol.Stopped(execution_id="e1"))
        with pytest.raises(protocol.Malformed):
            talks.take(protocol.Stopped(execution_id="e1"))

    in_loop(scene)


def test_the_time_of_an_execution_runs_from_its_turn() -> None:
    async def scene() -> None:
        talks, (one, two) = with_sent("e1", "e2", limit_s=0.05)
        talks.take(protocol.Started(execution_id="e1"))
        with pytest.raises(TimeLimitReached):
            await one.ended
        assert not two.ended.done()
        one.listen_again()
        talks.take(protocol.Result(execution_id="e1"))
        with pytest.raises(TimeLimitReached):
            await two.ended

    asyncio.run(scene())


def test_an_end_that_nobody_waits_for_is_no_trouble_of_the_loop() -> None:
    async def scene() -> list[dict[str, Any]]:
        complaints: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))
        talk = ProcessChannel(Output(), lambda _: None, loop)
        sent = [talk.begin(start(id), WatchedRun(), None) for id in ("e1", "e2")]
        talk.break_off(OSError("it died"))
        with pytest.raises(OSError, match="it died"):
            await sent[0].ended
        del talk, sent
        gc.collect()
        return complaints

    assert asyncio.run(scene()) == []


def test_what_is_printed_is_a_line_of_the_execution_that_says_so() -> None:
    def scene() -> None:
        talks, (one, two) = with_sent("e1", "e2")
        talks.take(protocol.Started(execution_id="e1"))
        talks.take(protocol.Output(execution_id="e1", text="of one\nhalf"))
        talks.take(protocol.Result(execution_id="e1"))
        talks.take(protocol.Started(execution_id="e2"))
        talks.take(protocol.Output(execution_id="e2", text="of two\n"))
        talks.take(protocol.Output(execution_id="e1", text="too late\n"))
        assert [line for _, line, _ in one.observer.lines] == ["of one", "half"]
        assert [line for _, line, _ in two.observer.lines] == ["of two"]

    in_loop(scene)


class Master(WatchedRun):
    """Answers requests with their own content, or never."""

    def __init__(self, *, answers: bool = True) -> None:
        super().__init__()
        self.answers = answers

    async def request(
        self, service: str, payload: msgspec.Raw = JSON_NULL, data: bytes = b""
    ) -> ServiceResponse:
        if not self.answers:
            await asyncio.Event().wait()
        return ServiceResponse(payload=payload, data=service.encode() + b":" + data)


def request(number: int, service: str = FRONTIER, **fields: Any) -> protocol.Request:
    return protocol.Request(execution_id="e1", number=number, service=service, **fields)


def requested(*requests: protocol.Request, **options: Any) -> list[protocol.Response]:
    """The responses that reach the process."""
    sent: list[protocol.Response] = []

    async def scene() -> None:
        talks = Executions(Output(), on_end=lambda _: None, send=sent.append)
        turn = SentExecution("e1", Master(**options), None, asyncio.get_running_loop())
        talks.add(turn)
        talks.take(protocol.Started(execution_id="e1"))
        for each in requests:
            talks.take(each)
        await asyncio.sleep(0.01)
        talks.take(protocol.Result(execution_id="e1"))
        await asyncio.sleep(0.01)
        assert not turn.requests

    asyncio.run(scene())
    return sent


def test_a_request_goes_to_the_master_and_its_response_to_the_process() -> None:
    payload = msgspec.Raw(b'{"verb":"take"}')
    (response,) = requested(request(3, LOCKS, payload=payload))
    assert (response.number, response.payload, response.data) == (3, payload, b"locks:")


def test_data_of_a_request_may_come_in_several_messages() -> None:
    (response,) = requested(request(1, data=b"one ", more=True), request(1, data=b"two"))
    assert response.data == b"frontier:one two"


@pytest.mark.parametrize(("service", "bytes"), [(FRONTIER, 11_000_001), (LOCKS, 1_000_001)])
def test_a_request_with_more_data_than_its_service_takes_is_a_breach(
    service: str, bytes: int
) -> None:
    with pytest.raises(protocol.Malformed, match="more than"):
        requested(request(1, service, data=b"x" * bytes))


@pytest.mark.parametrize("service", [SECRETS, CODE, BUNDLE, "nonsense"])
def test_a_process_reaches_no_service_that_is_not_for_it(service: str) -> None:
    (response,) = requested(request(1, service))
    assert response.refusal == f"there is no service {service!r} for executors"


def test_requests_end_with_their_execution() -> None:
    assert requested(request(1), request(2), answers=False) == []
