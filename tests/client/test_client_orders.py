"""An order about many things is about those that were named or chosen, and about no others."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from crawlfleet.client import Client
from crawlfleet.errors import InvalidRequest
from crawlfleet.features.webhooks.views import ResendReply
from crawlfleet.views.tasks import BulkReply

NOTHING = BulkReply(changed=0, unchanged=0, refused_count=0, refused=[])
RESENT_NOTHING = ResendReply(resent=0, unchanged=0, unknown=[])
Use = Callable[[Client], Awaitable[Any]]


class Recorder:
    """In place of the transport: keeps what was sent, and changes one thing each time."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    async def call(self, method: str, path: str, type: Any, *, body: Any, **options: Any) -> Any:
        self.bodies.append(dict(body))
        if type is ResendReply:
            return ResendReply(resent=1, unchanged=0, unknown=[])
        return BulkReply(changed=1, unchanged=0, refused_count=0, refused=[])


def carried_out(use: Use) -> tuple[Any, list[Any]]:
    """The answer, and what was sent for it."""
    recorder = Recorder()

    async def scenario() -> Any:
        fleet = Client("http://127.0.0.1:9", "k", patience_s=0)
        fleet._transport = recorder  # type: ignore[assignment]
        return await use(fleet)

    return asyncio.run(scenario()), recorder.bodies


@pytest.mark.parametrize("ids", [[], (), iter(())], ids=["list", "tuple", "iterator"])
@pytest.mark.parametrize(
    "order",
    [
        lambda fleet, ids: fleet.act_on("cancel", ids),
        lambda fleet, ids: fleet.requeue_dead_letters(ids),
        lambda fleet, ids: fleet.discard_dead_letters(ids),
    ],
    ids=["act_on", "requeue", "discard"],
)
def test_an_order_about_no_ids_changes_nothing(
    order: Callable[[Client, Iterable[str]], Awaitable[Any]], ids: Iterable[str]
) -> None:
    assert carried_out(lambda fleet: order(fleet, ids)) == (NOTHING, [])


def test_sending_no_deliveries_again_sends_none() -> None:
    assert carried_out(lambda fleet: fleet.resend_deliveries("x", [])) == (RESENT_NOTHING, [])
    assert carried_out(lambda fleet: fleet.resend_deliveries("x"))[1] == [{"ids": []}]


@pytest.mark.parametrize(
    "use",
    [
        lambda fleet: fleet.act_on("cancel", ["task-1"], project_id="shop"),
        lambda fleet: fleet.act_on("cancel", [], project_id="shop"),
        lambda fleet: fleet.requeue_dead_letters(["task-1"], error_class="network"),
        lambda fleet: fleet.discard_dead_letters([], error_class="network"),
    ],
)
def test_ids_beside_a_filter_are_refused(use: Use) -> None:
    with pytest.raises(InvalidRequest, match="beside a filter by"):
        carried_out(use)


@pytest.mark.parametrize(
    "use",
    [
        lambda fleet: fleet.act_on("cancel", "task-1"),
        lambda fleet: fleet.discard_dead_letters("task-1"),
        lambda fleet: fleet.resend_deliveries("x", "dlv-1"),
        lambda fleet: fleet.wait_for_all("task-1"),
        lambda fleet: anext(fleet.as_they_end("task-1")),
        lambda fleet: fleet.rerun("run-1", "extract"),
    ],
)
def test_a_text_is_no_list_of_ids(use: Use) -> None:
    with pytest.raises(InvalidRequest) as caught:
        carried_out(use)
    assert caught.value.problems[0].remedy.startswith("give ['")


def test_what_is_named_or_chosen_is_sent() -> None:
    def sent(use: Use) -> Any:
        return carried_out(use)[1]

    assert sent(lambda fleet: fleet.act_on("cancel", ["a", "b"])) == [{"ids": ["a", "b"]}]
    assert sent(lambda fleet: fleet.act_on("cancel", (id for id in "ab"))) == [{"ids": ["a", "b"]}]
    assert sent(lambda fleet: fleet.act_on("cancel", project_id="shop")) == [
        {"filter": {"project_id": "shop"}}
    ]
    assert sent(lambda fleet: fleet.act_on("reprioritise", ["a"], priority=9)) == [
        {"priority": 9, "ids": ["a"]}
    ]
    assert sent(lambda fleet: fleet.discard_dead_letters()) == [{"filter": {}}]
